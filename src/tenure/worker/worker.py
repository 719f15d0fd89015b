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

from .. import __version__
from ..app.inbox import Inbox
from ..errors import BUG, TRY_LATER, BadSettings, LifespanFailed
from ..events import Bus, DatabaseBack, DatabaseUnreachable, Event, WorkerDraining, WorkerExit, WorkerStarted
from ..postgres import migrate
from .beginning import Away, begin
from .config import Terms, at_inbox, new_worker_id
from .cpu import CpuShare
from .dealing import Dealer
from .garbage import Garbage
from .homes import Homes
from .nodes import Nodes
from .places import Places
from .post import Among, Post
from .resources import Resources
from .shared import Shared
from .slots import Slots
from .threads import Threads
from .waking import waking

LAST_WORDS_SECONDS = 3.0  # how long to try to release rows and leave, at the end


class Worker:
    """Runs the handlers of an inbox, wherever its rows are; `run` blocks until `stop` is called, from any thread."""

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
        self._away: Away = {}  # whose database did not answer at the start
        self._at_last: Callable[[int], None] | None = None
        self.slots = Slots(terms.slots)
        self._name = new_worker_id(terms)
        self._nodes = Nodes(terms, self._attend, lambda: all(post.connected for post in self.posts))
        self._threads, self.garbage = Threads(terms.slots), Garbage()
        places = Places({each.inbox: each.url for each in terms.posts}, terms.schema)
        self._among = Among(places, Homes(inbox.schedules, terms, places), Dealer(places))
        self._refused: set[str] = set()  # nodes that have joined and cannot be served
        self.posts = [self._post(each) for each in terms.posts]
        if len(self.posts) > 1:
            self.bus.subscribe(self._hear, each_job=False)
        first = self.posts[0]
        self.shared, self.held = first.shared, first.held
        self.lease_keeper, self.claimer = first.lease_keeper, first.claimer
        self._cpu_share = CpuShare()
        self._resources = Resources(inbox.lifespans, self.shared, first.connections, self._beat_soon)

    def _post(self, terms: Terms) -> Post:
        return Post(self.inbox, self._shared_by(terms, self._name), self.slots, self._metadata, self._among)

    def _shared_by(self, terms: Terms, name: str) -> Shared:
        worker_id = at_inbox(name, terms.inbox)
        bus = Bus(self.bus) if terms.inbox else self.bus  # each counts what it did itself
        tells = (self._failed, self._asked_to_drain)
        shared = Shared(terms, bus, *tells, worker_id=worker_id, tracing=self.inbox.tracing, threads=self._threads)
        shared.garbage = self.garbage
        bus.subscribe(shared.tally, each_job=False)
        return shared

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
        self._away = begin(self.posts, self._among.places)
        loop = asyncio.new_event_loop()
        if self.inbox.bus is not self.bus:
            self.inbox.bus.join(self.bus)  # events of what its handlers enqueue
        try:
            loop.run_until_complete(self._serve(loop))
        finally:
            self.inbox.bus.leave(self.bus)
            self._returned.set()
            _close(loop)
            self.inbox.tracing.flush(LAST_WORDS_SECONDS)
        if self._error is not None:
            raise self._error
        return self._code

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._over = loop, asyncio.Event()
        for post in self.posts:
            post.open(loop)
        with waking(loop):
            try:
                await self._resources.open(lambda: self._draining)
            except LifespanFailed as failed:
                self._failed(failed)
            if not self._draining:
                self._start()
            self._started.set()
            await self._over.wait()
            await self._resources.close()
        for post in self.posts:
            await post.connections.close()

    def _start(self) -> None:
        for post in self.posts:
            if post in self._away:
                post.start_later(self._away[post])
            else:
                post.start()
        if self.terms.citus:
            self._nodes.start()

    def _attend(self, inbox: str, url: str) -> None:
        """Serve one more inbox: its node has joined the cluster."""
        post = self._post(self.terms.at(inbox, url))
        self._among.places.urls[inbox] = url
        try:
            post.begin()
        except BadSettings as error:
            if inbox not in self._refused:
                self._refused.add(inbox)
                post.tell_away(error)
            raise
        assert self._loop is not None, "nodes are followed while the loop runs"
        self._loop.call_soon_threadsafe(self._open_late, post)

    def _open_late(self, post: Post) -> None:
        if not self._draining:
            self.posts.append(post)
            post.open(asyncio.get_running_loop())
            post.start()

    def _drain(self) -> None:
        """Claim no more, wait for handlers, stop those that take too long, release their rows; in bounded time."""
        self._started.wait()
        self._nodes.end()
        try:
            for post in self.posts:
                if post.begun:
                    self.bus.emit(WorkerDraining(post.shared.worker_id, post.held.slots_used))
                post.drain()
            self._until(lambda: self._idle or self._leave_now, self.terms.drain_seconds)
            self._give_back()
            for post in self.posts:
                post.leave()
            self._until(lambda: not any(post.leaving for post in self.posts), LAST_WORDS_SECONDS / 2)
        finally:
            for post in self.posts:
                post.end()
            self._exit()

    @property
    def _idle(self) -> bool:
        return all(post.idle for post in self.posts)

    def _until(self, fact: Callable[[], bool], seconds: float) -> None:
        by = time.monotonic() + seconds
        while not fact() and time.monotonic() < by and self._error is None:
            time.sleep(0.02)

    def _left(self) -> int:
        """How many rows are neither settled nor released."""
        return sum(post.left for post in self.posts)

    def _give_back(self) -> None:
        """Stop handlers that still run and release their rows, even if a handler does not stop; no attempt counts."""
        for post in self.posts:
            post.ask_to_stop()
        self._until(lambda: self._idle, LAST_WORDS_SECONDS / 2)
        for post in self.posts:
            post.give_back()
        self._until(lambda: not self._left(), LAST_WORDS_SECONDS)

    def _exit(self) -> None:
        left = self._left()
        self._code = BUG if self._error is not None else TRY_LATER if left else 0
        error = str(self._error) if isinstance(self._error, LifespanFailed) else f"bug: {self._error!r}"
        for post in self.posts:
            if post.begun:  # of an inbox that was never there nothing ends
                reason = error if self._error else f"{post.left} rows left behind" if post.left else "drained"
                self.bus.emit(WorkerExit(post.shared.worker_id, reason))
        if self._loop is not None and self._over is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._over.set)
        if not self._returned.wait(LAST_WORDS_SECONDS) and self._at_last is not None:
            self._at_last(self._code)

    # -- what its parts tell each other

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()

    def _hear(self, event: Event) -> None:
        """An inbox went away or came back: its neighbours say at once which schedules wait for it."""
        if isinstance(event, WorkerStarted | DatabaseBack | DatabaseUnreachable):
            self._beat_soon()

    def _beat_soon(self) -> None:
        for post in self.posts:
            post.lease_keeper.beat_soon()

    def _asked_to_drain(self) -> None:
        """An operator's request comes with every heartbeat; it never means: leave at once."""
        self._begin_drain()

    def _metadata(self, post: Post) -> Mapping[str, Any]:
        return {
            "version": __version__,
            "migration": migrate.newest(),
            "host": platform.node(),
            "pid": os.getpid(),
            "queues": list(self.terms.queues),
            "kinds": sorted(self.inbox.handlers),
            "slots": self.terms.slots,
            "slots_used": post.held.slots_used,
            "slots_stuck": post.held.slots_stuck,
            "cpu_share": self._cpu_share(),
            "away_seconds": round(post.shared.away_seconds, 1),
            "wakeup": "notify" if post.lease_keeper.listening else "poll",
            **({"inboxes": sorted(self._among.places.urls)} if post.terms.inbox else {}),
            **self._among.homes.told({each.terms.inbox for each in self.posts if not each.away}),
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
