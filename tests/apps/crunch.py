"""A CPU-bound handler that runs in a process of its own."""

from __future__ import annotations

from tenure.inbox import Inbox
from tenure.job import Job

inbox = Inbox()


@inbox.handler("crunch", pool="process", max_attempts=5)
def crunch(job: Job, n: int) -> None:
    """Count, or complain."""
    if n < 0:
        raise ValueError("n is negative")
    sum(range(n))
