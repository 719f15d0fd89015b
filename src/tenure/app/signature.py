"""How a payload becomes a function's arguments, and back: checked when it is sent, and again when it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container
from typing import Any, is_typeddict

import msgspec
import msgspec.inspect
from msgspec.structs import astuple

from ..errors import BadSettings, InvalidPayload
from ..model.ended import Ended
from ..model.plain_json import plain_json
from .provider import injected

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Signature:
    """The parameters of a handler's function: perhaps the job, then the payload as fields or as one value of a type."""

    def __init__(
        self,
        function: Callable[..., Any],
        kind: str,
        payload: type[Any] | None,
        provided: Container[Any] = (),
    ) -> None:
        self.kind = kind
        parameters = list(_parameters(function, kind))
        self._returns = inspect.signature(function, eval_str=True).return_annotation
        if self._returns in (inspect.Signature.empty, Any):
            self._returns = None  # nothing is known of it
        self.takes_job = bool(parameters) and parameters[0].name == "job"
        taken = parameters[1:] if self.takes_job else parameters
        self.injected = {each.name: each.annotation for each in taken if _is_given(each, provided)}
        fields = [each for each in taken if each.name not in self.injected]
        self._names = tuple(field.name for field in fields)
        self._known = frozenset(self._names)
        self._open = any(field.kind is inspect.Parameter.VAR_KEYWORD for field in fields)
        self._needed = {each.name for each in fields if each.kind in _NAMED and each.default is each.empty}
        if payload is not None and not isinstance(payload, type):
            raise BadSettings(f"handler {kind!r} has payload={payload!r}: give it a type, e.g. a dataclass")
        self._type: Any = payload
        if payload is None and not self._open:
            self._type = _struct(fields)
        elif payload is not None and len(fields) != 1:
            raise BadSettings(
                f"handler {kind!r} has payload={payload.__name__}: it must take the job and that one parameter"
            )
        self._whole = payload is not None
        self.fields = None if self._open else self._names  # None: known only from a payload
        if payload is not None:
            self.fields = _fields_in_json(payload)
        self._validate = getattr(payload, "model_validate_json", None)  # pydantic, where the user has it
        # Fields that may stand in order are handed over as they were decoded, without their names.
        self._in_order = not (self._whole or self.injected) and all(
            field.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for field in fields
        )
        self._decode = _decoder(kind, Any if self._open or self._validate else self._type).decode

    def takes(self, *names: str) -> bool:
        """Whether it is sent with these fields and no others, if their values fit."""
        return not self._whole and self._needed.issubset(names) and (self._open or self._known.issuperset(names))

    def arguments(self, job: Any, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for one call; InvalidPayload if the payload does not fit."""
        try:
            value = self._validate(text) if self._validate else self._decode(text)
        except (ValueError, RecursionError) as error:
            raise InvalidPayload(f"the payload does not fit the handler {self.kind!r}: {error}") from None
        if self._in_order:
            given = astuple(value)
            return ((job, *given) if self.takes_job else given), {}
        first = (job,) if self.takes_job else ()
        if self._whole:
            return (first, {self._names[0]: value}) if self.injected else ((*first, value), {})
        if self._open:
            return first, value if isinstance(value, dict) else _not_fields(self.kind, value)
        return first, {name: getattr(value, name) for name in self._names}

    def typed(self, ended: Ended[Any]) -> Ended[Any]:
        """The end of a row with its value as the type that the function returns; InvalidPayload if it does not fit."""
        if ended.value is None or self._returns is None:
            return ended
        try:
            return ended._replace(value=msgspec.convert(ended.value, self._returns))
        except (TypeError, ValueError) as error:
            raise InvalidPayload(f"the result of {self.kind!r} is not what its function returns: {error}") from None

    def written(self, given: tuple[Any, ...], fields: dict[str, Any]) -> tuple[Any, str | None]:
        """The same payload, and its JSON text if that was made on the way: read as the worker will read it."""
        if self._whole or given or not (self._open or self._known.issuperset(fields)):
            sent = self.payload(given, fields)
            return sent, plain_json(sent)
        text = plain_json(fields)
        if text is not None and not self._open:
            try:
                self._decode(text)
            except ValueError:
                text = None
        return (self.payload(given, fields) if text is None else fields), text

    def payload(self, given: tuple[Any, ...], fields: dict[str, Any]) -> Any:
        """The payload for these arguments; InvalidPayload if the function cannot be called with them."""
        if self._whole:
            if len(given) != 1 or fields:
                raise InvalidPayload(
                    f"{self.kind!r} is sent with one {self._type.__name__}: enqueue(conn, {self._type.__name__}(…))"
                )
            return self._checked_whole(given[0])
        if given:
            fields = self._named(given, fields)
        unknown = [] if self._open else sorted(fields.keys() - self._known)
        if unknown:
            raise InvalidPayload(
                f"{self.kind!r} does not take {unknown[0]!r}: it takes {', '.join(self._names) or 'nothing'}"
            )
        return fields if self._open else self._checked(fields)

    def _named(self, given: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        """What was given in order, by name, with the rest."""
        twice = sorted(set(self._names[: len(given)]) & fields.keys())
        if self._open or twice or len(given) > len(self._names):
            why = f"two values of {twice[0]!r}" if twice else f"{len(given)} values in order"
            raise InvalidPayload(
                f"{self.kind!r} is sent with {why}: "
                f"enqueue(conn, {', '.join(f'{n}=…' for n in self._names) or '**fields'})"
            )
        return {**dict(zip(self._names, given, strict=False)), **fields}

    def _checked(self, fields: dict[str, Any]) -> Any:
        try:
            plain = msgspec.to_builtins(fields)
            msgspec.convert(plain, self._type)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidPayload(f"{self.kind!r} cannot be called with this payload: {error}") from None
        return fields

    def _checked_whole(self, value: Any) -> Any:
        if self._validate:
            model = value if isinstance(value, self._type) else self._type.model_validate(value)
            return model.model_dump(mode="json")
        try:
            # A TypedDict has no instances: its values are dicts, and are checked as such.
            is_one = not is_typeddict(self._type) and isinstance(value, self._type)
            return value if is_one else msgspec.convert(value, self._type)
        except (TypeError, ValueError) as error:
            raise InvalidPayload(f"{self.kind!r} cannot be called with this payload: {error}") from None


def _parameters(function: Callable[..., Any], kind: str) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception as error:  # annotations are expressions: they may raise anything
        raise BadSettings(
            f"handler {kind!r} has an annotation that cannot be read ({error}): import it at run time"
        ) from None
    for parameter in signature.parameters.values():
        if parameter.kind not in (*_NAMED, inspect.Parameter.VAR_KEYWORD):
            raise BadSettings(
                f"handler {kind!r} takes {parameter}: payload fields are named, use plain parameters or **fields"
            )
    return list(signature.parameters.values())


def _is_given(parameter: inspect.Parameter, provided: Container[Any]) -> bool:
    """True if the application makes it, and not the payload."""
    if parameter.default is injected:
        return True
    try:
        return parameter.annotation in provided
    except TypeError:  # an annotation that has no hash
        return False


def _struct(fields: list[inspect.Parameter]) -> type[msgspec.Struct]:
    """A type for the payload, so that it is decoded and checked in one pass in C."""
    return msgspec.defstruct("payload", [_member(field) for field in fields], kw_only=True)


def _fields_in_json(payload: type[Any]) -> tuple[str, ...] | None:
    """The names that a value of this type has in JSON, if it always has the same ones."""
    if hasattr(payload, "model_validate_json"):
        is_open = dict(getattr(payload, "model_config", {})).get("extra") == "allow"
        known = (getattr(payload, "model_fields", None), getattr(payload, "model_computed_fields", {}))
        return None if is_open or known[0] is None else (*known[0], *known[1])
    try:
        found = msgspec.inspect.type_info(payload)
    except (TypeError, ValueError, NameError):  # the decoder says what is wrong with it
        return None
    if not isinstance(
        found, msgspec.inspect.StructType | msgspec.inspect.DataclassType | msgspec.inspect.TypedDictType
    ):
        return None
    tag = getattr(found, "tag_field", None)
    return (*(field.encode_name for field in found.fields), *([tag] if tag else []))


def _decoder(kind: str, payload: Any) -> msgspec.json.Decoder[Any]:
    try:
        return msgspec.json.Decoder(payload)
    except (TypeError, ValueError, NameError) as error:
        said = " ".join(str(error).split())
        raise BadSettings(
            f"handler {kind!r} has a parameter that is not JSON ({said}): use plain types, dataclasses or Structs"
        ) from None


def _member(field: inspect.Parameter) -> Any:
    annotation = Any if field.annotation is inspect.Parameter.empty else field.annotation
    if field.default is inspect.Parameter.empty:
        return field.name, annotation
    return field.name, annotation, msgspec.field(default_factory=lambda: field.default)


def _not_fields(kind: str, value: Any) -> Any:
    raise InvalidPayload(f"the payload of {kind!r} is {type(value).__name__}, not an object with fields")
