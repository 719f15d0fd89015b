"""An inbox in a process whose main thread never gets a signal itself: another thread does, as may happen to anybody."""

from __future__ import annotations

import signal
import threading

from tenure.app.inbox import Inbox
from tenure.app.job import Job

threading.Thread(target=threading.Event().wait, daemon=True).start()  # begun before: it gets them
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})

inbox = Inbox()


@inbox.handler("nothing")
async def nothing(job: Job) -> None:
    """Do nothing."""
