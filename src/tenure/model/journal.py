"""Events of the journal: as they are appended, and as they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from ..errors import BadSettings, InvalidPayload
from .payload import check_name, check_row_key, encode, encode_headers

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")
VERSION_MAX = (1 << 62) - 1  # of a stream


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append, by the name of its type; an object of a class of yours names itself."""

    type: str
    data: Any = None
    headers: Mapping[str, str] | None = None
    id: UUID | None = None


class Event(NamedTuple):
    """An event as it was read from the journal."""

    position: int
    stream: str
    version: int
    type: str
    id: UUID
    at: datetime
    text: str  # its data as JSON
    headers_text: str | None = None

    @property
    def data(self) -> Any:
        """What happened, decoded."""
        return msgspec.json.decode(self.text)

    @property
    def headers(self) -> dict[str, str]:
        """What was sent along."""
        return msgspec.json.decode(self.headers_text or "{}", type=dict[str, str])

    def as_(self, shape: Any) -> Any:
        """The data as an object of this class."""
        return msgspec.json.decode(self.text, type=shape)


class Appended(NamedTuple):
    """Where the last of the appended events is."""

    stream: str
    version: int
    position: int


def event_type(shape: type[Any]) -> str:
    """The type that a class names: OrderPaid is order.paid, unless it has an `event_type` of its own."""
    own = getattr(shape, "event_type", None)
    if isinstance(own, str):
        return own
    if own is not None and not hasattr(own, "__get__"):  # a field with slots, a property and a method have it
        raise InvalidPayload(f"{shape.__name__}.event_type={own!r:.80} must be text, such as 'order.paid'")
    name = shape.__name__
    words = _WORD.finditer("".join(map(_sort, name)))
    return ".".join(name[word.start() : word.end()] for word in words).lower()


def _sort(letter: str) -> str:
    """A letter of any alphabet as one of ours: A is a capital, a another letter, 0 a digit, _ is none of them."""
    if letter == "_" or not f"a{letter}".isidentifier():
        return "_"
    if letter.isupper() or letter.istitle():
        return "A"
    return "0" if letter.isdigit() else "a"


def event_params(stream: str, events: Sequence[Any], expect: int | None) -> dict[str, Any]:
    """The parameters of append, checked: each event is a NewEvent or an object of a class of yours."""
    check_row_key(stream, "stream")
    if not events:
        raise InvalidPayload(f"no event for stream {stream!r}: give at least one")
    if expect is not None:
        _check_version(expect)
    new = [each if isinstance(each, NewEvent) else _of_object(each) for each in events]
    return {
        "stream": stream,
        "types": [check_name(each.type, "type") for each in new],
        "datas": [_encoded(each) for each in new],
        "headers": [encode_headers(each.headers) for each in new],
        "ids": [each.id for each in new],
        "expect": expect,
    }


def _check_version(expect: int) -> None:
    if not isinstance(expect, int) or isinstance(expect, bool) or not 0 <= expect <= VERSION_MAX:
        shown = "a huge number" if isinstance(expect, int) and expect.bit_length() > 64 else repr(expect)
        raise InvalidPayload(f"expect={shown} must be the last version of the stream: 0 for a new one")


def _encoded(event: NewEvent) -> str:
    """The data as JSON text; what is wrong with it is said of the event, not of a payload."""
    try:
        return encode({} if event.data is None else event.data)
    except InvalidPayload as error:
        said = f"the data of event {event.type!r}{str(error).removeprefix('payload')}"
        raise type(error)(said) from None


def _of_object(event: Any) -> NewEvent:
    if isinstance(event, (str, bytes, int, float, list, tuple, dict, type)) or event is None:
        raise InvalidPayload(
            f"event={event!r:.80} has no type: append an object of a class, or NewEvent('order.paid', {{…}})"
        )
    return NewEvent(event_type(type(event)), event)


def like_types(of: Sequence[str] | None) -> list[str] | None:
    """Types such as order.paid and order.* as LIKE patterns; None: all."""
    if of is None:
        return None
    if isinstance(of, str) or not of:
        raise BadSettings(f"of={of!r} must be a list of types, like ['order.*']: leave it out for all")
    escaped = [re.sub(r"([\\%_])", r"\\\1", check_name(each, "type")) for each in of]
    if any("*" in each[:-1] for each in of):
        raise BadSettings(f"of={str(of)[:60]!r}: a star stands at the end, as in order.*")
    return [each.replace("*", "%") for each in escaped]
