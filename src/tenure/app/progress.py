"""How far a job has come, noted while it runs: once a second at most, on a connection of its worker."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from ..errors import BadSettings
from ..model.rows import Claimed
from ..model.veil import Veil
from ..postgres.runner import run
from ..verbs.results import progress
from ..verbs.statement import Statement

EVERY_SECONDS = 1.0


class Telling(Protocol):
    """What is asked of the job."""

    told_at: float  # when its progress was noted last, on the monotonic clock
    veil: Veil | None

    @property
    def claimed(self) -> Claimed:
        """The row as it was claimed."""

    @property
    def schema(self) -> str:
        """Where Tenure's tables are."""

    @property
    def connections(self) -> Any:
        """Where it gets a connection of its worker."""


def tell_progress(job: Telling, share: float | None, note: str | None) -> Any:
    """Note it, unless that was done within a second; in a coroutine an awaitable. The end, share=1, is always noted."""
    if note is not None and not isinstance(note, str):
        raise BadSettings(f"note={note!r} must be text, as in job.progress(0.4, 'decoding')")
    hidden = job.veil.over(note) if job.veil is not None and note is not None else note
    statement = progress(job.claimed, share, hidden)
    early = share != 1 and time.monotonic() < job.told_at + EVERY_SECONDS
    if not early:
        job.told_at = time.monotonic()
    if _on_a_loop():
        return _tell(job, None if early else statement)
    if not early:
        with _lender(job).blocking() as conn:
            run(conn, statement, job.schema)
    return None


async def _tell(job: Telling, statement: Statement[None] | None) -> None:
    if statement is not None:
        async with _lender(job).awaiting() as conn:
            await run(conn, statement, job.schema)


def _lender(job: Telling) -> Any:
    if job.connections is None:
        raise RuntimeError("this job was made without a worker: its progress cannot be noted")
    return job.connections


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
