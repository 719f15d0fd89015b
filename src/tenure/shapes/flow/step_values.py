"""Results and arguments of steps: as JSON, as the type that a function promises, and as a number to compare."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from hashlib import blake2b
from typing import Any, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from ...app.function_kind import unrun
from ...errors import InvalidPayload
from ...model.as_stored import as_stored
from ...model.outcome import Fail, Outcome
from ...model.payload import encode
from ...verbs.steps import Step
from .effects import Call
from .trouble import FlowLimit, Permanent, StepFailed

RESULT_BYTES_MAX = 256 * 1024
ENDS = get_args(Outcome)
_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
DECODERS: WeakKeyDictionary[Any, msgspec.json.Decoder[Any]] = WeakKeyDictionary()  # of functions that are alive
_BY_TYPE = msgspec.json.Encoder(enc_hook=lambda each: type(each).__qualname__, order="deterministic")
_WITH_TEXT_KEYS = partial(
    msgspec.to_builtins, enc_hook=lambda each: type(each).__qualname__, order="deterministic", str_keys=True
)


def returned(call: Call, value: Any) -> tuple[str, Any]:
    """What a body returned, as it is recorded and as it is read back; Permanent if it cannot be, as its function says.

    It is read before it is recorded: no later attempt could go on from it. Nobody reads what an undo returned.
    """
    if isinstance(value, ENDS):
        if isinstance(value, Fail):
            raise Permanent(value.error)
        raise Permanent(f"it returned {type(value).__name__}, which ends a job and no step: raise, or return Fail(…)")
    try:
        text = written(call.name, value)
    except InvalidPayload as error:
        if left := unrun(value):
            why = f"it returned {left}, which has not run: make the workflow `async def`, and the step without yield"
            raise Permanent(why) from None
        why = str(error).rpartition(": ")[0].replace("payload", "result", 1)
        raise Permanent(f"what it returned cannot be recorded ({why}): return plain values") from None
    try:
        return text, read(call, text)
    except msgspec.ValidationError as error:
        raise Permanent(f"what it returned is not what its function says that it returns: {error}") from None


def is_awaitable(value: Any) -> bool:
    """Whether what was called goes on: a coroutine, or a future such as that of an executor."""
    return value is not None and (inspect.iscoroutine(value) or inspect.isawaitable(value))


def read(call: Call, text: str | None) -> Any:
    """A result as the function of its step says it is, or msgspec.ValidationError."""
    return (decoder_of(call.function) if call.undoes is None else _ANYTHING).decode(text or "null")


def written(name: str, value: Any) -> str:
    """A result as JSON text, as it will be read in every later attempt; or FlowLimit."""
    text = as_stored(encode(value))
    if (size := len(text.encode())) > RESULT_BYTES_MAX:
        raise FlowLimit(
            f"step {name!r} returned {size} bytes, the most is {RESULT_BYTES_MAX}: store it, return its address"
        )
    return text


def each_place_once(*steps: Step) -> tuple[Step, ...]:
    """What is recorded at one place: the last of it."""
    return tuple({(step.path, step.n): step for step in steps}.values())


def with_riders(riders: list[Step], *steps: Step) -> tuple[Step, ...]:
    """These steps and what rides along, which is taken: other threads may add to it meanwhile, or take it."""
    if not riders:
        return steps
    taken = list[Step]()
    with suppress(IndexError):
        while True:
            taken.append(riders.pop(0))
    return each_place_once(*taken, *steps)


def hash_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The arguments as a number, the same in every process; what is no JSON counts by its type."""
    if not args and not kwargs:
        return NO_ARGUMENTS
    given = (args, kwargs) if kwargs else args
    try:
        return _number(_BY_TYPE.encode(given))
    except Exception:
        with suppress(Exception):
            return _number_of(given)
        return 0


def _number_of(value: Any) -> int:
    return _number(_BY_TYPE.encode(_in_order(value)))


def _in_order(value: Any) -> Any:
    """Ordered by the numbers of what is in it: msgspec orders neither names that are no text nor sets of two types."""
    if isinstance(value, dict):
        return sorted([_number_of(key), _number_of(each)] for key, each in value.items())
    if isinstance(value, set | frozenset):
        return sorted(map(_number_of, value))
    if isinstance(value, list | tuple):
        return list(map(_in_order, value))
    return _WITH_TEXT_KEYS(value)


def _number(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


NO_ARGUMENTS = _number(b"[]")


def decoder_of(function: Callable[..., Any]) -> msgspec.json.Decoder[Any]:
    """Of what a function says that it returns, if that is a type JSON can be read as; else of anything."""
    own = getattr(function, "__func__", function)  # a bound method is made anew each time
    try:
        found = DECODERS.get(own)
        if found is None:
            found = DECODERS[own] = _decoder(own)
    except TypeError:  # an object that cannot be a weak key
        return _decoder(own)
    return found


def _decoder(function: Callable[..., Any]) -> msgspec.json.Decoder[Any]:
    try:
        found = get_type_hints(function).get("return", Any)
        if isinstance(get_origin(found), type) and issubclass(get_origin(found), Awaitable):
            found = get_args(found)[-1]
        return msgspec.json.Decoder(found)
    except Exception:
        return _ANYTHING


class TimedOut(Enum):
    """What wait_for answers when its time is up."""

    TIMED_OUT = "timed out"

    def __bool__(self) -> bool:
        return False


TIMED_OUT = TimedOut.TIMED_OUT


def cut_short(step: Step, name: str, deadline: float) -> bool:
    """Whether a wait was ended by the deadline of its flow; a sleep that is over may be recorded as waiting."""
    if step.state == "waiting":
        return (step.until or 0.0) >= deadline
    return (step.state == "timed_out" or name == "sleep") and step.recorded_at >= deadline


def nothing(step: Step) -> None:
    """What a sleep answers."""
    del step


def signalled(step: Step) -> Any:
    """The payload of a signal, or that its time was up; StepFailed if it came in by SQL and nobody can read it."""
    if step.state == "timed_out":
        return TIMED_OUT
    try:
        return _ANYTHING.decode(step.result or "null")
    except (msgspec.DecodeError, RecursionError) as error:
        raise StepFailed(step.name, f"its signal cannot be read: {error}") from None
