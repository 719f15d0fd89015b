"""Tells subscribers how attempts ended, once the database has answered; completions are counted a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence

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
from ..model.outcome import Completed
from ..model.rows import Settled
from .attempt import Attempt
from .shared import Shared

_ENDED: dict[str | None, type[JobRetried]] = {
    "pending": JobRetried,
    "failed": JobFailed,
    "dead_letter": JobDeadLettered,
    "cancelled": JobCancelled,
}


def report(bus: Bus, worker_id: str, attempt: Attempt, settled: Settled, run_seconds: float) -> None:
    """Emit how an attempt ended, after the database has answered."""
    job = attempt.job
    # Completed under this same token by the handler's own transaction; the reply to its commit may be lost.
    if settled.ok or settled.reason == "already_completed":
        if bus.each_job or not isinstance(attempt.outcome, Completed):
            bus.emit(_ended(worker_id, attempt, settled, run_seconds))
    else:
        reason = settled.reason or settled.standing
        bus.emit(StaleWriteBlocked(worker_id, job.id, job.token, settled.current, reason, settled.verb))


def _ended(worker_id: str, attempt: Attempt, settled: Settled, run_seconds: float) -> Event:
    job = attempt.job
    if settled.verb == "complete" or settled.status == "completed":
        return JobCompleted(worker_id, job.id, job.token, job.kind, job.queue, run_seconds)
    released = settled.verb == "release" and settled.status == "pending"
    event = JobReleased if released else _ENDED.get(settled.status, JobRetried)
    error = getattr(attempt.outcome, "error", "") or type(attempt.outcome).__name__.lower()
    return event(worker_id, job.id, job.token, job.kind, job.queue, run_seconds, error)


def completed(shared: Shared, attempts: Sequence[Attempt], at: float) -> None:
    """Count rows that their handlers completed themselves, and emit an event for each if somebody wants them."""
    shared.tally.completed(attempts, at)
    for attempt in attempts if shared.bus.each_job else ():
        job, run_seconds = attempt.job, at - attempt.started
        shared.bus.emit(JobCompleted(shared.worker_id, job.id, job.token, job.kind, job.queue, run_seconds))
