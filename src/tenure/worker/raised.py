"""What it means for a row that its handler raised."""

from __future__ import annotations

import asyncio

from ..errors import Cancelled, StaleLease
from ..events import EncryptionKeyMissing, StaleWriteBlocked
from ..model.envelope import MissingKey
from ..model.outcome import DeadLetter, Outcome, Release, Retry
from .attempt import OUR_OWN, Attempt
from .outcomes import Poison, said
from .processes import NotStarted
from .shared import Shared

NOT_STARTED_SECONDS = 0.5
BLOCKED = ("enter", "complete", "guard", "progress")  # writes of a handler itself


def outcome_of(attempt: Attempt, error: BaseException, shared: Shared) -> Outcome | None:
    """How the attempt ends; None if the row is no longer ours."""
    job = attempt.job
    if isinstance(error, StaleLease) and error.verb in BLOCKED:
        told = (error.current, error.reason, error.verb)
        shared.bus.emit(StaleWriteBlocked(shared.worker_id, job.id, job.token, *told))
    if isinstance(error, StaleLease) or (job.lost and isinstance(error, asyncio.CancelledError)):
        # Not a failure of the job. If the database has not confirmed it, we may still hold the row: release it.
        return Release() if job.lost in OUR_OWN else None
    if job.cancel_asked:
        return Release()  # without a word of ours: the row keeps the reason that it was cancelled with
    if isinstance(error, Cancelled):
        return Release("cancelled by its handler")
    if isinstance(error, Poison):
        return DeadLetter(str(error))
    if isinstance(error, NotStarted):
        return shared.turned_away.later(job.id, str(error), NOT_STARTED_SECONDS)
    if isinstance(error, MissingKey):
        about = (job.id, job.token, job.kind, job.queue)
        shared.bus.emit(EncryptionKeyMissing(shared.worker_id, *about, error.key, error.why))
        return shared.turned_away.later(job.id, str(error))
    return Retry(said(error, job.veil))
