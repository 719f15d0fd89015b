"""Jobs that stay until their worker drains: in a thread, in a process and on the loop."""

from __future__ import annotations

import asyncio
import time

from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.model.outcome import Release

inbox = Inbox()


@inbox.handler("stay_thread")
def stay_thread(job: Job) -> Release:
    while not job.draining:
        time.sleep(0.02)
    return Release()


@inbox.handler("stay_process", pool="process")
def stay_process(job: Job) -> Release:
    while not job.draining:
        time.sleep(0.02)
    return Release()


@inbox.handler("stay_loop")
async def stay_loop(job: Job) -> Release:
    while not job.draining:
        await asyncio.sleep(0.02)
    return Release()
