"""How outcomes become statements, and what the answers mean: one statement for each verb, however many jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from . import settle
from .backoff import delay_for
from .events import (
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
from .job import Job
from .model import Settled
from .outcome import Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze
from .statement import Statement

Batch = tuple[list[Job], Statement[list[Settled]]]

_ENDED: dict[str | None, type[JobRetried]] = {
    "pending": JobRetried,
    "failed": JobFailed,
    "dead_letter": JobDeadLettered,
    "cancelled": JobCancelled,
}


def batches(jobs: Sequence[Job]) -> Iterator[Batch]:
    """These jobs' outcomes as statements, the completions first."""
    groups: dict[tuple[type[Outcome], bool], list[Job]] = {}
    for job in jobs:
        groups.setdefault((type(job.outcome), job.accept_late), []).append(job)
    for (kind, late), group in sorted(groups.items(), key=lambda pair: pair[0][0] is not Completed):
        yield group, _statement(kind, late, group)


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
