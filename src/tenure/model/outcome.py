"""How an attempt ends, as the value a handler returns; an exception means Retry, any other value Completed."""

from __future__ import annotations

from dataclasses import dataclass

RAISED = (Exception, SystemExit, BaseExceptionGroup)  # what counts as a failure of a body: it may be tried again


@dataclass(frozen=True, slots=True)
class Completed:
    """The work is done."""

    result: str | None = None  # what its handler returned, as JSON text, if that is kept


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after these seconds, or the handler's backoff. The attempt counts; after the last, a dead letter."""

    error: str = "the handler asked for a retry"
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now: run again after these seconds. The attempt does not count."""

    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """A permanent error: do not try again."""

    error: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that no attempt can complete: an operator has to look at it."""

    error: str


@dataclass(frozen=True, slots=True)
class Release:
    """Give the row back at once, for any worker. The attempt does not count."""

    error: str = ""


Outcome = Completed | Retry | Snooze | Fail | DeadLetter | Release
COMPLETED = Completed()
