"""Ordered rows on a Citus cluster whose ranges move: a line for each that begins, with when it was sent."""

from __future__ import annotations

from apps.ledger import note
from tenure.app.inbox import Inbox
from tenure.app.job import Job

inbox = Inbox(citus=True)


@inbox.handler("moved", key="{key}", ordered=True, max_attempts=1000)
async def moved(job: Job, key: str, n: int, sent_ns: int) -> None:
    """One line, of one clock on one machine."""
    note("start", job, key=key, n=n, sent_ns=sent_ns, worker=job.claimed.lease.worker)
