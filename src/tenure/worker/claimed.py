"""What a claim brought, as jobs: each with its handler, and a deadline that counts from when the claim was sent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..app.handler import Handler
from ..app.job import Connections, Job
from ..events import ClaimAnswered, JobCompleted, LeaseAcquired, Woken
from ..model.outcome import Release
from ..model.rows import Claimed
from .claim_rule import Ask
from .config import Terms
from .db_thread import Crew


def arrived(
    ask: Ask,
    rows: Sequence[Claimed],
    terms: Terms,
    handlers: Mapping[str, Handler[..., Any]],
    connections: Connections,
    at: float,
) -> list[Job]:
    """These rows as jobs; none if their lease was over before we heard of them: then no handler may start."""
    deadline = ask.sent + terms.lease_seconds - terms.margin_of(terms.lease_seconds)
    if deadline <= at:
        return []
    jobs = []
    for row in rows:
        job = Job(row, deadline=deadline, connections=connections, schema=terms.schema)
        job.started, job.source = at, ask.source
        job.renew_at, job.lease_seconds = ask.sent + terms.renew_seconds, terms.lease_seconds
        if (handler := handlers.get(row.kind)) is not None:
            job.handler, job.accept_late = handler, handler.handling.late_completion == "accept"
            if handler.handling.lease_seconds is not None:
                job.lease_seconds, job.renew_at = handler.handling.lease_seconds, ask.sent
        jobs.append(job)
    return jobs


def answered(crew: Crew, ask: Ask, rows: Sequence[Claimed]) -> None:
    """Say that a claim was answered, and after how long."""
    seconds = time.monotonic() - ask.sent
    crew.tracing.claimed(crew.worker, rows, seconds)
    if crew.bus.each_job:
        crew.bus.emit(ClaimAnswered(crew.worker, len(rows), seconds))


def woken(crew: Crew, source: str) -> None:
    """Say what made this worker look for rows."""
    if crew.bus.each_job:
        crew.bus.emit(Woken(crew.worker, source))


def unstarted(jobs: list[Job]) -> list[Job]:
    """They came after the drain began: they go back as they are."""
    for job in jobs:
        job.ended, job.outcome = True, Release()
    return jobs


def announce(crew: Crew, jobs: Sequence[Job]) -> None:
    """Say which rows were taken, and how long each had waited: to the tally always, one by one if somebody asks."""
    crew.tally.took(jobs, crew.terms.lease_seconds)
    for job in jobs if crew.bus.each_job else ():
        row = job.claimed
        waited = row.ends_seconds - crew.terms.lease_seconds - row.available_seconds
        crew.bus.emit(LeaseAcquired(crew.worker, row.id, row.generation, row.kind, row.queue, waited))


def completed(crew: Crew, jobs: Sequence[Job], at: float) -> None:
    """Say which rows their handlers have completed themselves; alike."""
    crew.tally.completed(jobs, at)
    for job in jobs if crew.bus.each_job else ():
        crew.bus.emit(JobCompleted(crew.worker, job.id, job.token, job.kind, job.queue, at - job.started))
