"""The worker: one process that claims, runs and settles until it is asked to stop, and then leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import __version__, db, migrate
from .connect import connect
from .desk import Desk
from .errors import BUG, TRY_LATER
from .events import Bus, WorkerDraining, WorkerExit, WorkerStarted
from .holds import Holds, Watchdog
from .housekeeping import Housekeeper
from .inbox import Inbox
from .job import Job
from .keeper import Keeper
from .lender import Lender
from .line import Crew
from .outcome import Release
from .pools import Pools
from .ring import Ring
from .schedule import plan
from .terms import Terms

LAST_WORDS_SECONDS = 3.0  # how long the database gets to hear what was released


class Worker:
    """Runs an inbox's handlers under these terms; `run` blocks until `stop` was called, from any thread."""

    def __init__(self, inbox: Inbox, terms: Terms, bus: Bus | None = None) -> None:
        self.inbox, self.terms, self.bus = inbox, terms, bus or Bus()
        self._error: BaseException | None = None
        self._stops = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: asyncio.Event | None = None
        self.crew = Crew(terms, self.bus, self._failed)
        self.holds = Holds(self.bus)
        self._lender = Lender(terms.url, terms.slots)
        self._pools = Pools(self.crew, lambda job, outcome: self.desk.settle(job, outcome), lambda job: self._free(job))
        self.desk = Desk(self.crew, self.holds, inbox.handlers, self._pools.start, self._lender)
        self.keeper = Keeper(self.crew, self.holds, self._metadata)
        self._housekeeper = Housekeeper(self.crew, lambda: len(self.keeper.ring.workers), self.desk.wake)
        self._watchdog = Watchdog(self.holds, lambda: self.keeper.trusted_until, lambda: self.crew.worker)
        self.desk.ears, self.desk.trusted = lambda: self.keeper.ears, lambda: self.keeper.trusted
        self.keeper.on_note, self.keeper.on_ring = self.desk.wake, self._ring_changed

    # -- called from other threads and signal handlers

    def stop(self) -> None:
        """Once: drain. Again: release what is held and leave now."""
        self._stops += 1
        if self._loop is not None and self._asked is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has stopped
                self._loop.call_soon_threadsafe(self._asked.set)

    @property
    def draining(self) -> bool:
        """It was asked to stop."""
        return self._stops > 0

    @property
    def id(self) -> str:
        """The id it works under now."""
        return self.crew.worker

    # -- the life of a worker

    def run(self) -> int:
        """From start to exit code: 0 when nothing is left behind, 75 when rows are, 70 after a bug."""
        with connect(self.terms.url) as conn:
            migrate.require(conn, self.terms.schema)
            for schedule in self.inbox.schedules.values():
                db.run(conn, plan(schedule), self.terms.schema)
        return asyncio.run(self._serve())

    async def _serve(self) -> int:
        self._loop, self._asked = asyncio.get_running_loop(), asyncio.Event()
        if self._stops:
            self._asked.set()
        self._pools.open(self._loop)
        self.bus.emit(WorkerStarted(self.id, ",".join(self.terms.queues), self.terms.slots))
        self._start()
        try:
            await self._asked.wait()
            await self._drain()
        finally:
            self._end()
            await self._lender.close()
        return self._exit_code()

    def _start(self) -> None:
        threads = [self._watchdog, self.keeper, self.desk]
        for thread in [*threads, *([self._housekeeper] if self.terms.housekeeping else [])]:
            thread.start()

    async def _drain(self) -> None:
        """Claim no more, wait for handlers, stop those that take too long, give their rows back; bounded always."""
        self.bus.emit(WorkerDraining(self.id, self.holds.slots_used))
        self.desk.drain()
        self.keeper.drain()
        self._housekeeper.end()
        await self._until(lambda: self._idle or self._stops > 1, self.terms.drain_seconds)
        for job in self.holds.busy():
            self._give_back(job)
        await self._until(lambda: self._idle, LAST_WORDS_SECONDS)
        self.keeper.leave()
        await self._until(lambda: not self.keeper.is_alive(), LAST_WORDS_SECONDS if self.keeper.connected else 0.0)

    @property
    def _idle(self) -> bool:
        return not self.holds.slots_used and not self.desk.unsettled

    async def _until(self, fact: Callable[[], bool], seconds: float) -> None:
        by = time.monotonic() + seconds
        while not fact() and time.monotonic() < by and self._error is None:
            await asyncio.sleep(0.02)

    def _give_back(self, job: Job) -> None:
        """Stop a handler and release its row, at no cost. A thread cannot be stopped: its row goes anyway."""
        if job.ended or job.overran:
            return
        job.lost = "drained"
        if job.stop is not None:
            job.stop()
        else:
            job.overran = True
            self.desk.settle(job, Release("its worker was stopped"))

    def _end(self) -> None:
        self._pools.close()
        for thread in (self._housekeeper, self.desk, self.keeper, self._watchdog):
            thread.end()
        self.desk.wake()

    def _exit_code(self) -> int:
        left = sum(1 for job in self.holds.busy() if not job.answered)
        code = BUG if self._error is not None else TRY_LATER if left else 0
        reason = f"bug: {self._error!r}" if self._error else f"{left} rows left behind" if left else "drained"
        self.bus.emit(WorkerExit(self.id, reason))
        if self._error is not None:
            raise self._error
        return code

    # -- what its parts tell each other

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()

    def _free(self, job: Job) -> None:
        self.holds.free([job])
        self.desk.wake()

    def _ring_changed(self, ring: Ring) -> None:
        self.desk.intake.own(ring.buckets_of(self.id) if len(ring.workers) > 1 else None)
        self.desk.wake("queues")

    def _metadata(self) -> Mapping[str, Any]:
        return {
            "version": __version__,
            "host": platform.node(),
            "pid": os.getpid(),
            "queues": list(self.terms.queues),
            "slots": self.terms.slots,
            "slots_used": self.holds.slots_used,
            "wakeup": "notify" if self.keeper.listening else "poll",
        }
