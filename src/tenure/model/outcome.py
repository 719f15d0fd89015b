"""How an attempt ends, as a value a handler returns; an exception is a Retry, a plain return is Completed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Completed:
    """The work is done."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again, after so many seconds or the handler's backoff; costs an attempt, the last one is a dead letter."""

    error: str = "the handler asked for a retry"
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now: come back after so many seconds; costs no attempt."""

    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """A permanent error: trying again is of no use."""

    error: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Poison: an operator has to look at it."""

    error: str


@dataclass(frozen=True, slots=True)
class Release:
    """Give it back at once, for any worker; costs no attempt."""

    error: str = ""


Outcome = Completed | Retry | Snooze | Fail | DeadLetter | Release
COMPLETED = Completed()
