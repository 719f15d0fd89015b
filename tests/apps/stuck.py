"""A handler that blocks the event loop for as long as it is let."""

from __future__ import annotations

import time

from tenure.app.inbox import Inbox
from tenure.app.job import Job

inbox = Inbox()


@inbox.handler("stuck")
async def stuck(job: Job) -> None:
    """Stand still."""
    time.sleep(3600)
