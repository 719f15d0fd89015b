"""A handler that takes its time, does not look whether it still holds its row, and writes in the end."""

from __future__ import annotations

import os
import time
from pathlib import Path

from apps.ledger import note
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import StaleLease

inbox = Inbox()
GATE = Path(os.environ.get("TENURE_TEST_GATE", os.devnull))  # while it is missing, the handler works on


@inbox.handler("late")
def late(job: Job) -> None:
    """Its only write is the completion that follows."""
    note("start", job)
    while not GATE.exists():
        time.sleep(0.01)


@inbox.handler("late_fenced")
def late_fenced(job: Job) -> None:
    """The same, with a write and its completion in one transaction."""
    late(job)
    try:
        with job.fenced() as tx:
            tx.execute(f"INSERT INTO {job.schema}.receipts VALUES (%s, %s)".encode(), [job.id, job.token])
    except StaleLease as stale:
        note("refused", job, reason=stale.reason)
        raise
