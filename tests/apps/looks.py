"""Handlers that tell how often Python looks for garbage in their process."""

from __future__ import annotations

import asyncio
import gc

from apps.ledger import note
from tenure.app.inbox import Inbox
from tenure.app.job import Job

inbox = Inbox()


@inbox.handler("quick")
async def quick() -> None:
    """Nothing."""


@inbox.handler("slow")
async def slow() -> None:
    """Most of the time none is claimed."""
    await asyncio.sleep(0.02)


@inbox.handler("look")
async def look(job: Job) -> None:
    """After how many new objects."""
    note("look", job, objects=gc.get_threshold()[0])
