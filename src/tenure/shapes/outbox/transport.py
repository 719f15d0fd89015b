"""What a relay hands to a broker, and the values with which a transport answers."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import BAD_SETTINGS, BadSettings, TenureError

Mark = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Message:
    """One event on its way: CloudEvents attributes by name, the body as bytes, and how the broker tells it apart."""

    attributes: Mapping[str, str]
    body: bytes
    key: str | None
    once: str  # what the broker dedupes by: the event's id, and of a replay which one it is
    fence: int
    seq: int
    bucket: int = 0
    publisher: str = ""  # whose marks are compared: those of another inbox or outbox are not

    @property
    def id(self) -> str:
        """The event's id."""
        return self.attributes["id"]

    @property
    def mark(self) -> Mark:
        """Grows along a key: by the claim, and inside one claim by the row. A row that was committed late has a small
        number and a large mark, so that it is not refused."""
        return self.fence, self.seq


@dataclass(frozen=True, slots=True)
class Sent:
    """The broker has confirmed it."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The broker had it already."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker does not take this message: an attempt, then a dead letter that holds its key."""

    error: str


@dataclass(frozen=True, slots=True)
class Away:
    """The broker cannot be asked, or takes nothing: no attempt is used up."""

    error: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """A newer relay has written for this key."""

    error: str


Answer = Sent | Duplicate | Refused | Away | Fenced
BYTES_MAX = 1_000_000  # of an event's data, for a transport that does not say


class Unfit(TenureError):
    """The broker is there, and set up so that a promise could not be kept: the worker does not start."""

    exit_code = BAD_SETTINGS


class Transport(Protocol):
    """One broker. `open` may be called again after `close` and after a failure; what it cannot reach it raises.

    Only the transport knows which errors of its client mean that the broker is away: for these `send` answers Away or
    raises an OSError. Any other error that it raises is a failure of that event, and uses up an attempt. A transport
    that takes more or less than a megabyte has a number `bytes_max`.
    """

    async def open(self, lease_seconds: float) -> None:
        """Connect and look whether the broker is fit; Unfit if it is not, any other error if it is away."""

    async def send(self, message: Message) -> Answer:
        """Hand it over and wait for the confirm."""

    async def close(self) -> None:
        """Leave the broker."""


def bytes_max_of(transport: Any) -> int:
    """How many bytes of data an event may have, or BadSettings."""
    most = getattr(transport, "bytes_max", BYTES_MAX)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        name = type(transport).__name__
        raise BadSettings(f"bytes_max={most!r} of {name} must be a whole number of bytes, 1 or more, such as 1_000_000")
    return most


def check_transport(to: Any) -> None:
    """BadSettings that names what is missing."""
    if isinstance(to, type):
        raise BadSettings(f"to= must be a transport, such as JetStream(…), and is the class {to.__name__}")
    lacks = [each for each in ("open", "send", "close") if not callable(getattr(to, each, None))]
    if lacks:
        said = f"of type {type(to).__name__}, which has no {' and no '.join(lacks)}"
        raise BadSettings(f"to= must be a transport, such as JetStream(…), and is {said}")


def checked_answer(transport: Any, answer: Any) -> Answer:
    """The answer itself; what is none, such as a forgotten return, confirms nothing."""
    if isinstance(answer, Sent | Duplicate | Refused | Away | Fenced):
        return answer
    said = f"the class {answer.__name__}" if isinstance(answer, type) else type(answer).__name__
    must = "Sent(), Duplicate(), Refused(error), Away(error) or Fenced(error)"
    raise TypeError(f"{type(transport).__name__}.send answered {said}, and must return {must}")


def needs(module: str, extra: str) -> Any:
    """The library of a broker, or one sentence that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise BadSettings(f"{module.split('.')[0]!r} is not installed: `pip install 'tenure[{extra}]'`") from None


def brief(error: BaseException) -> str:
    """An error in one line; a plain ConnectionError is one of ours, and says it all."""
    said = str(error) if type(error) is ConnectionError else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:300].removesuffix(":")
