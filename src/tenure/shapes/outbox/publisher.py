"""Who publishes: an outbox of one inbox. Fences of two inboxes say nothing about each other."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import Any

from ...app.job import Job
from ...postgres.runner import run
from ...verbs.outboxes import publisher

KNOWN_MAX = 1_000
EPOCH_BITS_BELOW = 40  # of a fence


class Publishers:
    """The name under which a broker remembers the marks of an outbox, asked of each inbox once an epoch.

    A database that was restored elsewhere has a name of its own, and begins without marks.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._known: dict[tuple[Any, int], str] = {}
        self._asking = asyncio.Lock()

    async def name_for(self, job: Job) -> str:
        """That of the inbox this job is from."""
        at = job.connections, job.fence >> EPOCH_BITS_BELOW
        if at not in self._known:
            async with self._asking:  # all slots come at once
                if at not in self._known:
                    self._know(at, f"{await _inbox_of(job)}/{self._kind}")
        return self._known[at]

    def _know(self, at: tuple[Any, int], said: str) -> None:
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[at] = blake2b(said.encode(), digest_size=8).hexdigest()


async def _inbox_of(job: Job) -> str:
    if job.connections is None:
        return ""
    async with job.connections.awaiting() as conn:
        return await run(conn, publisher(), job.schema)
