"""What a worker and its child processes say to each other, packed by msgpack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Any

import msgspec

from ..errors import Cancelled, StaleLease
from ..model.envelope import MissingKey
from ..model.outcome import COMPLETED, Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze
from ..model.rows import Claimed
from ..model.veil import Veil
from .outcomes import ChildError, Poison, said


class JobSent(msgspec.Struct, frozen=True, array_like=True):
    """One job. The numbers of the jobs of a child go up."""

    n: int
    module: str
    qualname: str
    claimed: Claimed
    accept_late: bool = False
    tell_begin: bool = False  # say when the handler is called: its time is limited
    trace: Mapping[str, str] | None = None  # the context of the job's span


class Jobs(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """To the child: run these, one after the other."""

    jobs: list[JobSent]


class Notice(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """To the child: this job is lost, or to be cancelled, or its worker drains."""

    n: int
    lost: str
    cancel_asked: bool
    draining: bool


class Begun(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """From the child: the handler is called now, on the monotonic clock that all processes share."""

    n: int
    at: float


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """From the child: how the handler ended, by name, and whether it completed its row itself."""

    n: int
    how: str
    about: list[Any]
    committed: bool
    at: float  # when it was called
    seconds: float  # how long it ran


pack = msgspec.msgpack.Encoder().encode
read_down: Callable[[bytes], Jobs | Notice] = msgspec.msgpack.Decoder(Jobs | Notice).decode
read_up: Callable[[bytes], Begun | Ended] = msgspec.msgpack.Decoder(Begun | Ended).decode

_OUTCOMES: dict[str, type[Outcome]] = {each.__name__: each for each in (Retry, Snooze, Fail, DeadLetter, Release)}
_ERRORS: dict[str, Callable[..., Exception]] = {each.__name__: each for each in (MissingKey, Poison, ChildError)}


def spelled(outcome: Outcome) -> tuple[str, list[Any]]:
    """An outcome as a name and what it is made of."""
    if isinstance(outcome, Completed):
        return "Completed", [outcome.result] if outcome.result is not None else []
    return type(outcome).__name__, [_sendable(each) for each in astuple(outcome)]


def spelled_error(error: BaseException, veil: Veil | None) -> tuple[str, list[Any]]:
    """An exception the same way: not every exception can be made again, but its text can be sent."""
    if isinstance(error, StaleLease):
        return "StaleLease", [error.verb, error.reason, error.current]
    if isinstance(error, Cancelled):
        return "Cancelled", []
    if isinstance(error, MissingKey):
        return "MissingKey", [_sendable(error.key), _sendable(error.why)]
    return "Poison" if isinstance(error, Poison) else "ChildError", [_sendable(said(error, veil))]


def meant(ended: Ended, row: Claimed) -> Outcome | Exception:
    """The outcome or the exception that was spelled."""
    if ended.how == "Completed":
        return Completed(*ended.about) if ended.about else COMPLETED
    if ended.how in _OUTCOMES:
        return _OUTCOMES[ended.how](*ended.about)
    if ended.how == "StaleLease":
        return StaleLease(row, *ended.about)
    if ended.how == "Cancelled":
        return Cancelled(row.id)
    return _ERRORS[ended.how](*ended.about)


def _sendable(value: Any) -> Any:
    """Text that can be packed: half of a surrogate pair cannot."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
