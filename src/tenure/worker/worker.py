"""The worker: one process that claims, runs and settles until it is asked to stop, then drains."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from psycopg.errors import InsufficientPrivilege

from .. import __version__
from ..app.inbox import Inbox
from ..errors import BUG, TRY_LATER, LifespanFailed, same_place
from ..events import Bus, ChoreFailed, WorkerDraining, WorkerExit, WorkerStarted
from ..model.outcome import Release
from ..postgres import migrate
from ..postgres.connection import QueueConnection, connect
from ..postgres.handler_pool import HandlerPool
from ..postgres.patience import Patience
from ..postgres.runner import run
from ..verbs.fleet import add_chore
from ..verbs.kinds import declare
from ..verbs.schedules import plan
from ..verbs.statement import Statement
from .attempt import State
from .chore_turns import ChoreTurns
from .claimer import Claimer
from .claims import Claims
from .config import Terms
from .cpu import CpuShare
from .held import HeldAttempts, Watchdog
from .housekeeping import Housekeeper
from .lease_keeper import LeaseKeeper
from .news import News
from .pools import Pools
from .resources import Resources
from .shared import Shared
from .waking import waking

LAST_WORDS_SECONDS = 3.0  # how long to try to release rows and leave, at the end


class Worker:
    """Runs the handlers of an inbox; `run` blocks until `stop` is called, from any thread."""

    def __init__(self, inbox: Inbox, terms: Terms, bus: Bus | None = None) -> None:
        self.inbox, self.terms, self.bus = inbox, terms, bus or Bus()
        inbox.hooks.check(inbox.handlers)
        self._error: BaseException | None = None
        self._asked = itertools.count()  # to stop, so often: next() is one step for threads and signals alike
        self._draining = self._leave_now = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._started, self._returned = threading.Event(), threading.Event()
        self._code = 0
        self._at_last: Callable[[int], None] | None = None
        self.shared = shared = Shared(terms, self.bus, self._failed, self._asked_to_drain, tracing=inbox.tracing)
        self.bus.subscribe(shared.tally, each_job=False)
        self.held, news = HeldAttempts(self.bus, terms.slots), News()
        self._cpu_share = CpuShare()
        self._connections = HandlerPool(terms.url, terms.slots)
        self._pools = Pools(shared, self.held, news, self._connections)
        self.lease_keeper = LeaseKeeper(shared, self.held, news, self._metadata)
        claims = Claims(shared, self.held, inbox.handlers, self._connections)
        turns = ChoreTurns(shared, lambda: len(self.lease_keeper.ring.workers), inbox.chores)
        self.claimer = Claimer(shared, self.held, news, self.lease_keeper, claims, self._pools.start, turns)
        self._housekeeper = Housekeeper(shared, news, turns, self._declaration, inbox.chores)
        self._resources = Resources(inbox.lifespans, shared, self._connections)
        self._watchdog = Watchdog(shared, self.held, self.lease_keeper)
        self._news = news

    # -- called from other threads and signal handlers

    def stop(self) -> None:
        """First call: drain. Second call: release all rows and leave now."""
        if not self._begin_drain():
            self._leave_now = True

    def _begin_drain(self) -> bool:
        """False if it drains already."""
        self._draining = True
        if next(self._asked):
            return False
        # On its own thread: a handler that blocks the loop must not delay it.
        threading.Thread(target=self._drain, name="tenure-drain", daemon=True).start()
        return True

    @property
    def draining(self) -> bool:
        """It was asked to stop."""
        return self._draining

    @property
    def id(self) -> str:
        """The id it works under now."""
        return self.shared.worker_id

    # -- the life of a worker

    def run(self, at_last: Callable[[int], None] | None = None) -> int:
        """Returns the exit code: 0 if no row is left behind, 75 if some are; a bug is raised.

        If a handler blocks this thread and cannot be stopped, this does not return; then `at_last` is called with the
        exit code, and may end the process.
        """
        self._at_last = at_last
        patience = Patience(statement_seconds=30)
        with connect(self.terms.url, patience=patience, schema=self.terms.schema, writes=True) as conn:
            migrate.require(conn, self.terms.schema)
            for schedule in self.inbox.schedules.values():
                run(conn, plan(schedule))
            for chore in self.inbox.chores.values():
                run(conn, add_chore(chore.name, chore.seconds))
            for statement in self.inbox.at_start:
                run(conn, statement)
            self._declare(conn)
        loop = asyncio.new_event_loop()
        if self.inbox.bus is not self.bus:
            self.inbox.bus.subscribe(self.bus.emit)  # events of what its handlers enqueue
        try:
            loop.run_until_complete(self._serve(loop))
        finally:
            self.inbox.bus.unsubscribe(self.bus.emit)
            self._returned.set()
            _close(loop)
            self.inbox.tracing.flush(LAST_WORDS_SECONDS)
        if self._error is not None:
            raise self._error
        return self._code

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._over = loop, asyncio.Event()
        self._pools.open(loop)
        with waking(loop):
            try:
                await self._resources.open(lambda: self._draining)
            except LifespanFailed as failed:
                self._failed(failed)
            if not self._draining:
                self.bus.emit(WorkerStarted(self.id, ",".join(self.terms.queues), self.terms.slots))
                self._start()
            self._started.set()
            await self._over.wait()
            await self._resources.close()
        await self._connections.close()

    def _start(self) -> None:
        for thread in (self._watchdog, self.lease_keeper, self.claimer, self._housekeeper):
            thread.start()

    def _drain(self) -> None:
        """Claim no more, wait for handlers, stop those that take too long, release their rows; in bounded time."""
        self._started.wait()
        try:
            self.bus.emit(WorkerDraining(self.id, self.held.slots_used))
            self.claimer.drain()
            self._pools.drain()
            self.lease_keeper.drain()
            self._housekeeper.end()
            self._until(lambda: self._idle or self._leave_now, self.terms.drain_seconds)
            self._give_back()
            if not self._left():
                self.lease_keeper.leave()
                patience = LAST_WORDS_SECONDS / 2 if self.lease_keeper.connected else 0.0
                self._until(lambda: not self.lease_keeper.is_alive(), patience)
        finally:
            self._end()
            self._exit()

    @property
    def _idle(self) -> bool:
        return not self.held.slots_used and not self.claimer.unsettled

    def _until(self, fact: Callable[[], bool], seconds: float) -> None:
        by = time.monotonic() + seconds
        while not fact() and time.monotonic() < by and self._error is None:
            time.sleep(0.02)

    def _left(self) -> int:
        """How many rows are neither settled nor released."""
        return sum(1 for attempt in self.held.all() if not attempt.settled)

    def _give_back(self) -> None:
        """Stop handlers that still run and release their rows, even if a handler does not stop; no attempt counts."""
        for attempt in self.held.all():
            if attempt.state is State.RUNNING:
                attempt.lose("drained")
                attempt.ask_to_stop()
        self._until(lambda: self._idle, LAST_WORDS_SECONDS / 2)
        for attempt in self.held.all():
            self._pools.let_go(attempt, Release("its worker was stopped"))
        self._until(lambda: not self._left(), LAST_WORDS_SECONDS)

    def _end(self) -> None:
        self._pools.close()
        for thread in (self._housekeeper, self.claimer, self.lease_keeper, self._watchdog):
            thread.end()
        self._news.wake()

    def _exit(self) -> None:
        left = self._left()
        self._code = BUG if self._error is not None else TRY_LATER if left else 0
        error = str(self._error) if isinstance(self._error, LifespanFailed) else f"bug: {self._error!r}"
        reason = error if self._error else f"{left} rows left behind" if left else "drained"
        self.bus.emit(WorkerExit(self.id, reason))
        if self._loop is not None and self._over is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._over.set)
        if not self._returned.wait(LAST_WORDS_SECONDS) and self._at_last is not None:
            self._at_last(self._code)

    # -- what its parts tell each other

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()

    def _asked_to_drain(self) -> None:
        """An operator's request comes with every heartbeat; it never means: leave at once."""
        self._begin_drain()

    def _declare(self, conn: QueueConnection) -> None:
        """Without the right to it, of roles from before, it works all the same."""
        try:
            run(conn, self._declaration())
        except InsufficientPrivilege as error:
            step = f"the owner runs `{same_place('tenure migrate --roles', self.terms.schema)}`"
            why = "until then psql and other languages do not know how its kinds are sent"
            self.bus.emit(ChoreFailed(self.id, "declare", f"{error.diag.message_primary}: {step}; {why}"))

    def _declaration(self) -> Statement[int]:
        """What producers that cannot import the handlers should know of them."""
        return declare(self.id, self.inbox.declarations)

    def _metadata(self) -> Mapping[str, Any]:
        return {
            "version": __version__,
            "migration": migrate.newest(),
            "host": platform.node(),
            "pid": os.getpid(),
            "queues": list(self.terms.queues),
            "kinds": sorted(self.inbox.handlers),
            "slots": self.terms.slots,
            "slots_used": self.held.slots_used,
            "slots_stuck": self.held.slots_stuck,
            "cpu_share": self._cpu_share(),
            "away_seconds": round(self.shared.away_seconds, 1),
            "wakeup": "notify" if self.lease_keeper.listening else "poll",
            **self._resources.told,
        }


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left on the loop and close it; do not wait for tasks that do not stop."""
    left = asyncio.all_tasks(loop)
    for each in left:
        each.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=1.0))
    loop.close()
