"""How attempts become outcomes, outcomes statements (one for each verb, however many jobs), and what answers mean."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..app.handler import Handler
from ..app.job import Job
from ..errors import BadSettings, InvalidPayload
from ..events import (
    Bus,
    Event,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobReleased,
    JobRetried,
    StaleWriteBlocked,
)
from ..model.backoff import delay_for
from ..model.outcome import COMPLETED, Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze
from ..model.payload import DELAY_SECONDS_MAX
from ..model.rows import Settled
from ..verbs import settle
from ..verbs.statement import Statement

Batch = tuple[list[Job], Statement[list[Settled]]]

_UNDONE = (Retry, Snooze, Fail, DeadLetter, Release)
_ENDED: dict[str | None, type[JobRetried]] = {
    "pending": JobRetried,
    "failed": JobFailed,
    "dead_letter": JobDeadLettered,
    "cancelled": JobCancelled,
}


class Poison(Exception):
    """This row's payload does not fit its handler: trying again is of no use."""


class Told(Exception):
    """What was raised in another process, as text."""


def arguments(handler: Handler[..., Any], job: Job) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call a handler with, or Poison."""
    try:
        return handler.arguments(job)
    except InvalidPayload as error:
        raise Poison(str(error)) from None


def as_outcome(value: Any) -> Outcome:
    """What a handler returned, as an outcome that the database will take.

    Anything that is none means Completed, unless it can only be a slip: the class of an outcome, or an exception.
    """
    for kind in (Completed, *_UNDONE):
        if isinstance(value, kind):
            try:
                return _checked(kind, value)
            except Exception as error:
                return _no_outcome(type(value).__name__, _text(error))
    return _slip(value) or COMPLETED


def _slip(value: Any) -> Retry | None:
    """The retry for a value that only looks like the end of an attempt, with what to write instead."""
    if isinstance(value, type) and issubclass(value, _UNDONE):
        return _no_outcome(f"the class {value.__name__}", f"write `return {value.__name__}(...)`")
    if isinstance(value, type) and issubclass(value, BaseException):
        return _no_outcome(f"the class {value.__name__}", "raise it, or write `return Retry(...)`")
    if isinstance(value, BaseException):
        return _no_outcome(_text(value, repr), "raise it, or write `return Retry(...)`")
    return None


def _no_outcome(returned: str, advice: str) -> Retry:
    return Retry(f"the handler returned {returned}, which is no outcome: {advice}")


def _checked(kind: type[Outcome], value: Any) -> Outcome:
    """The same, of the plain class, with text for an error and a number for a delay."""
    if kind is Completed:
        return COMPLETED
    error = "" if value.error is None else _text(value.error)
    if kind is Snooze:
        return Snooze(_seconds("seconds", value.seconds), error)
    if kind is Retry and value.after_seconds is not None:
        return Retry(error, _seconds("after_seconds", value.after_seconds))
    return kind(error)  # type: ignore[call-arg, arg-type]


def _seconds(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= DELAY_SECONDS_MAX:
        raise BadSettings(f"{name}={_text(value)} must be a number within 0 and {DELAY_SECONDS_MAX:.0f}")
    return float(value)


def said(error: BaseException) -> str:
    """An exception with its traceback, whatever its own words do."""
    if isinstance(error, Poison | Told):
        return str(error)
    try:
        return "".join(traceback.format_exception(error))[-8000:]
    except Exception:
        return f"{type(error).__name__} (whose text cannot be had)"


def _text(value: Any, words: Callable[[Any], str] = str) -> str:
    try:
        return words(value)
    except Exception:
        return f"{type(value).__name__} (whose text cannot be had)"


def batches(jobs: Sequence[Job]) -> Iterator[Batch]:
    """These jobs' outcomes as statements, the completions first."""
    groups: dict[tuple[type[Outcome], bool], list[Job]] = {}
    for job in jobs:
        groups.setdefault((type(job.outcome), job.accept_late), []).append(job)
    for (kind, late), group in sorted(groups.items(), key=lambda pair: pair[0][0] is not Completed):
        try:
            made = [(group, _statement(kind, late, group))]
        except Exception:
            made = [_alone(kind, late, job) for job in group]
        yield from made


def _alone(kind: type[Outcome], late: bool, job: Job) -> Batch:
    """One job of a batch that no statement could be made for: if it is this one's fault, its attempt has failed."""
    try:
        return [job], _statement(kind, late, [job])
    except Exception as error:
        job.outcome = Retry(said(error))
        return [job], _statement(Retry, late, [job])


def _statement(kind: type[Outcome], late: bool, jobs: list[Job]) -> Statement[list[Settled]]:
    held = [job.claimed for job in jobs]
    if kind is Completed:
        return settle.complete(held, accept_late=late)
    if kind is Retry:
        return settle.retry(held, _errors(jobs), delays=[_delay(job) for job in jobs])
    if kind is Fail:
        return settle.fail(held, _errors(jobs))
    if kind is DeadLetter:
        return settle.dead_letter(held, _errors(jobs))
    if kind is Snooze:
        return settle.release(held, errors=_errors(jobs), delays=[job.outcome.seconds for job in jobs])
    assert kind is Release
    return settle.release(held, errors=_errors(jobs))


def _errors(jobs: list[Job]) -> list[str | None]:
    return [job.outcome.error or None for job in jobs]


def _delay(job: Job) -> float | None:
    if job.outcome.after_seconds is not None or job.handler is None:
        return float(job.outcome.after_seconds) if job.outcome.after_seconds is not None else None
    try:
        return delay_for(job.handler.handling.backoff, job.attempt, random.random())  # noqa: S311
    except Exception:
        return None  # a broken policy must not keep the attempt from ending: the database has a backoff of its own


def report(bus: Bus, worker: str, job: Job, settled: Settled, run_seconds: float) -> None:
    """Say what became of a job, once the database has answered."""
    # Completed under this very token: by the handler's own transaction, of whose commit it may not have heard.
    if settled.ok or settled.reason == "already_completed":
        if bus.each_job or not isinstance(job.outcome, Completed):
            bus.emit(_ended(worker, job, settled, run_seconds))
    else:
        bus.emit(
            StaleWriteBlocked(
                worker, job.id, job.token, settled.current, settled.reason or settled.standing, settled.verb
            )
        )


def _ended(worker: str, job: Job, settled: Settled, run_seconds: float) -> Event:
    if settled.verb == "complete" or settled.status == "completed":
        return JobCompleted(worker, job.id, job.token, job.kind, job.queue, run_seconds)
    released = settled.verb == "release" and settled.status == "pending"
    event = JobReleased if released else _ENDED.get(settled.status, JobRetried)
    error = getattr(job.outcome, "error", "") or type(job.outcome).__name__.lower()
    return event(worker, job.id, job.token, job.kind, job.queue, run_seconds, error)
