"""Ordered keys under a soak: short work, long work now and then, and a first attempt that fails here and there."""

from __future__ import annotations

import asyncio
import os
import random

from apps.ledger import note
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.model.backoff import Fixed

inbox = Inbox()


@inbox.handler("step", key="{key}", ordered=True, max_attempts=1000, backoff=Fixed(0.05))
async def step(job: Job, key: str, by: int, seq: int) -> None:
    """One step of one key: a line when it starts, a line when it ends."""
    chance = random.Random(f"{os.environ.get('TENURE_TEST_SEED')} {key} {by} {seq} {job.attempt}")
    note("start", job, key=key, by=by, seq=seq)
    await asyncio.sleep(chance.uniform(0.1, 0.25) if key.startswith("shared") else chance.uniform(0.0, 0.05))
    if job.attempt == 1 and chance.random() < 0.05:
        raise RuntimeError("not at the first attempt")
    note("end", job, key=key, by=by, seq=seq)
