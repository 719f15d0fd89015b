"""Work that takes a while, for fleets that change under load."""

from __future__ import annotations

import asyncio

from apps.ledger import note
from tenure.app.inbox import Inbox
from tenure.app.job import Job

inbox = Inbox()


@inbox.handler("nap", key="{key}")
async def nap(job: Job, key: str, seconds: float) -> None:
    """A line when it starts, a line when it ends."""
    note("start", job)
    await asyncio.sleep(seconds)
    note("end", job)
