"""Handlers whose libraries talk: through logging, warnings, threads that die, and a process of their own."""

from __future__ import annotations

import logging
import threading
import warnings

from tenure.app.inbox import Inbox
from tenure.app.job import Job

inbox = Inbox()


def talk(who: str) -> None:
    """As psycopg.pool does when a connection is gone, and others in their ways."""
    logging.getLogger("psycopg.pool").warning("error connecting in %r: %s", who, "connection refused\nis it there?")
    warnings.warn(f"{who} is old", DeprecationWarning, stacklevel=1)
    thread = threading.Thread(target=lambda: 1 / 0, name=f"{who}-thread")
    thread.start()
    thread.join()


@inbox.handler("noisy")
def noisy(job: Job) -> None:
    """In a thread."""
    talk("thread")


@inbox.handler("far_noisy", pool="process")
def far_noisy(job: Job) -> None:
    """In a process."""
    talk("process")
