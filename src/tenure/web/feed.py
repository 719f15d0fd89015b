"""The feed: a tick for all open tabs, one ear at the database for those that want the fleet's events too.

It asks the fleet only while somebody wants to hear it. Through a pooler no events come, and the ticks alone go on.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from .. import postgres
from ..postgres.sqlstates import trouble_of
from ..telemetry.tail import ASK_SECONDS, NOTE, channel_of
from ..verbs.fleet import tell
from ..verbs.questions import channel
from .http_errors import Refused, refusal
from .store import Store

KEPT_MAX = 1000
STREAMS_MAX = 200
TICK_SECONDS = 2.0
PING_SECONDS = 15.0
LINGER_SECONDS = 15.0  # how long the ear stays for a tab that may come back
AWAY_SECONDS = 2.0  # between two tries to reach a database that is away
RETRY_MS = 2000
END_SECONDS = 0.2


class Told(NamedTuple):
    """One event of the fleet, numbered."""

    n: int
    line: str


class Feed:
    """What happens, told to every stream; a stream that comes back too late is told to fetch everything anew."""

    def __init__(self, store: Store, tick: Callable[[], Awaitable[Any]]) -> None:
        self._store, self._make_tick = store, tick
        self._boot = secrets.token_hex(4)  # another process counts anew
        self._kept: deque[Told] = deque(maxlen=KEPT_MAX)
        self._n = 0
        self._tick: tuple[int, bytes] = (0, b"")
        self._streams = self._hearers = 0
        self._left_at = self._unheard_at = float("-inf")
        self._news = asyncio.Event()
        self.closed = False
        self._clock: asyncio.Task[None] | None = None
        self._ear: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- one stream

    def open(self, last_id: str | None, *, fleet: bool = False) -> AsyncIterator[bytes]:
        """The stream of one tab, with the fleet's events from what it saw last; refused when there are too many."""
        if self.closed:
            raise Refused(503, "the server is about to stop: come back in a moment")
        if self._streams >= STREAMS_MAX:
            raise Refused(503, f"{STREAMS_MAX} streams are open already: close a tab")
        return self._stream(last_id, fleet)

    async def _stream(self, last_id: str | None, fleet: bool) -> AsyncIterator[bytes]:
        self._enter(fleet)
        try:
            at, is_new = self._resumed(last_id)
            yield f"retry: {RETRY_MS}\n\n".encode() + (b"" if is_new else self._said("reset", b"{}"))
            ticked = 0
            while not self.closed:
                news = self._news
                if fleet and at < self._oldest():
                    at = self._n
                    yield self._said("reset", b"{}")
                for told in [each for each in self._kept if fleet and each.n > at]:
                    at = told.n
                    yield self._said("fleet", told.line.encode(), told.n)
                if ticked != self._tick[0]:
                    ticked, body = self._tick
                    yield self._said("tick", body)
                try:
                    await asyncio.wait_for(news.wait(), PING_SECONDS)
                except TimeoutError:
                    yield b": ping\n\n"
        finally:
            self._leave(fleet)

    def _resumed(self, last_id: str | None) -> tuple[int, bool]:
        """Where to go on, and whether nothing between was lost."""
        if not last_id:
            return self._n, True
        boot, _, number = last_id.partition("-")
        at = int(number) if number.isascii() and number.isdigit() and len(number) < 18 else -1
        known = boot == self._boot and self._oldest() <= at <= self._n
        return (at, True) if known else (self._n, False)

    def _oldest(self) -> int:
        """The number a stream must have seen so that it misses nothing."""
        return self._kept[0].n - 1 if self._kept else self._n

    def _said(self, event: str, body: bytes, n: int | None = None) -> bytes:
        number = self._n if n is None else n
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._boot.encode(), number, event.encode(), body)

    # -- the clock and the ear

    def _enter(self, fleet: bool) -> None:
        self._streams += 1
        self._hearers += fleet
        self._loop = asyncio.get_running_loop()
        self._begin()

    def _leave(self, fleet: bool) -> None:
        now = time.monotonic()
        self._streams -= 1
        self._left_at = now
        if fleet:
            self._hearers -= 1
            self._unheard_at = now

    def _begin(self, _ended: object = None) -> None:
        """Start what somebody waits for; again when one of them ends, for somebody may have come in that moment."""
        if self.closed or self._loop is None:
            return
        if self._streams and (self._clock is None or self._clock.done()):
            self._clock = self._loop.create_task(self._tick_on())
            self._clock.add_done_callback(self._begin)
        if self._hearers and (self._ear is None or self._ear.done()):
            self._ear = self._loop.create_task(self._hear())
            self._ear.add_done_callback(self._begin)

    def _wanted(self, n: int, left_at: float) -> bool:
        return not self.closed and (n > 0 or time.monotonic() - left_at < LINGER_SECONDS)

    async def _tick_on(self) -> None:
        """A tick every two seconds as long as somebody listens; and nobody hears the fleet for whom nobody cares."""
        while self._wanted(self._streams, self._left_at):
            await self._ticked()
            if self._ear is not None and not self._wanted(self._hearers, self._unheard_at):
                self._ear.cancel()
            await self._pause(TICK_SECONDS)
        if self._ear is not None:
            self._ear.cancel()

    async def _ticked(self) -> None:
        if not self._streams:
            return
        try:
            body = msgspec.json.encode(await self._make_tick())
        except Exception as error:
            body = msgspec.json.encode({"error": str(refusal(error)), "away": trouble_of(error) == "away"})
        self._tick = (self._tick[0] + 1, body)
        self._wake()

    async def _hear(self) -> None:
        """The fleet's events, until it is cancelled."""
        while True:
            try:
                await self._listen_once()
            except Exception as error:
                refusal(error)  # a bug is logged, and no reason to be deaf from now on
                await self._pause(AWAY_SECONDS)

    async def _listen_once(self) -> None:
        conn, name = await self._store.listen(), ""
        try:
            if conn.pooled:
                await asyncio.Event().wait()  # no note comes through a pooler: until somebody cancels this
            name = channel_of(await postgres.run(conn, channel(), self._store.schema))
            await conn.execute(f'LISTEN "{name}"'.encode())
            while True:
                await postgres.run(conn, tell(NOTE), self._store.schema)
                async for heard in conn.notifies(timeout=ASK_SECONDS):
                    self._keep(heard.payload.splitlines())
        finally:
            if name:
                self._gap()  # what happens until we listen again is lost: streams are told to fetch anew
            with suppress(Exception):
                await conn.close()

    def _keep(self, lines: list[str]) -> None:
        for line in lines:
            self._n += 1
            self._kept.append(Told(self._n, line))
        self._wake()

    def _gap(self) -> None:
        self._n += 1
        self._kept.clear()
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _pause(self, seconds: float) -> None:
        by = time.monotonic() + seconds
        while not self.closed and (left := by - time.monotonic()) > 0:
            await asyncio.sleep(min(0.1, left))

    # -- the end

    def close(self) -> None:
        """End every stream now; from any thread, also out of a signal handler."""
        self.closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    async def aclose(self) -> None:
        """Stop listening to the database; one that is stuck is not waited for."""
        running = [each for each in (self._clock, self._ear) if each is not None and not each.done()]
        for each in running:
            each.cancel()
        if running:
            await asyncio.wait(running, timeout=END_SECONDS)
