"""The feed: ticks for all open tabs, and the fleet's events over one connection for those that ask for them.

Workers send events only while somebody asks for them. Through a pooler there are no events, only ticks.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, NamedTuple

import msgspec

from .. import postgres
from ..postgres.sqlstates import trouble_of
from ..telemetry.tail import ASK_SECONDS, NOTE, channel_of, events_of
from ..verbs.fleet import tell
from ..verbs.questions import channel
from .http_errors import Refused, refusal
from .store import Store

KEPT_MAX = 1000
STREAMS_MAX = 200
STREAMS_EACH_MAX = 50
TICK_SECONDS = 2.0
PING_SECONDS = 15.0
LINGER_SECONDS = 15.0  # how long we go on listening for a tab that may come back
AWAY_SECONDS = 2.0  # between two attempts to reach the database
RETRY_MS = 2000
END_SECONDS = 0.2
Refuses = Callable[[], Awaitable[bool]]


class FleetLine(NamedTuple):
    """One event of the fleet, numbered."""

    n: int
    line: str


class Feed:
    """Sends ticks and events to every stream; a stream that comes back too late gets `reset` and fetches all again."""

    def __init__(self, store: Store, tick: Callable[[], Awaitable[Any]]) -> None:
        self._store, self._make_tick = store, tick
        self._boot = secrets.token_hex(4)  # event numbers count from the start of this process
        self._kept: deque[FleetLine] = deque(maxlen=KEPT_MAX)
        self._n = 0
        self._tick: tuple[int, bytes] = (0, b"")
        self._streams = self._hearers = 0
        self._by_actor: Counter[str] = Counter()
        self._left_at = self._unheard_at = float("-inf")
        self._news = asyncio.Event()
        self.closed = False
        self._clock: asyncio.Task[None] | None = None
        self._ear: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- one stream

    def open(
        self, last_id: str | None, refused: Refuses, *, fleet: bool = False, actor: str = ""
    ) -> AsyncIterator[bytes]:
        """The stream of one tab, which resumes after the last event it saw; refused when too many are open.

        `refused` is asked at every turn, and ends the stream: is whoever opened it no longer let in?
        """
        if self.closed:
            raise Refused(503, "the server is about to stop: try again in a moment")
        self._check_room(actor)
        return self._stream(last_id, refused, fleet, actor)

    def _check_room(self, actor: str) -> None:
        if self._by_actor[actor] >= STREAMS_EACH_MAX:
            sentence = f"{actor!r} has {STREAMS_EACH_MAX} streams open already: close a tab"
            raise Refused(429, sentence, {"retry-after": str(RETRY_MS // 1000)})
        if self._streams >= STREAMS_MAX:
            raise Refused(503, f"{STREAMS_MAX} streams are open already: close a tab")

    async def _stream(self, last_id: str | None, refused: Refuses, fleet: bool, actor: str) -> AsyncIterator[bytes]:
        try:
            self._check_room(actor)  # others may have begun meanwhile
        except Refused:
            return
        self._enter(fleet, actor)
        try:
            at, is_new = self._resumed(last_id)
            yield f"retry: {RETRY_MS}\n\n".encode() + (b"" if is_new else self._said("reset", b"{}"))
            ticked = 0
            while not self.closed and not await refused():
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
            self._leave(fleet, actor)

    def _resumed(self, last_id: str | None) -> tuple[int, bool]:
        """Where to resume, and whether no event was missed."""
        if not last_id:
            return self._n, True
        boot, _, number = last_id.partition("-")
        at = int(number) if number.isascii() and number.isdigit() and len(number) < 18 else -1
        known = boot == self._boot and self._oldest() <= at <= self._n
        return (at, True) if known else (self._n, False)

    def _oldest(self) -> int:
        """The last event that a stream must have seen to miss nothing."""
        return self._kept[0].n - 1 if self._kept else self._n

    def _said(self, event: str, body: bytes, n: int | None = None) -> bytes:
        number = self._n if n is None else n
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._boot.encode(), number, event.encode(), body)

    # -- the ticks and the listener

    def _enter(self, fleet: bool, actor: str) -> None:
        self._streams += 1
        self._by_actor[actor] += 1
        self._hearers += fleet
        self._loop = asyncio.get_running_loop()
        self._begin()

    def _leave(self, fleet: bool, actor: str) -> None:
        now = time.monotonic()
        self._streams -= 1
        self._by_actor -= Counter([actor])  # without those that are 0
        self._left_at = now
        if fleet:
            self._hearers -= 1
            self._unheard_at = now

    def _begin(self, _ended: object = None) -> None:
        """Start the tasks that are needed; again when one ends, because a stream may have opened at that moment."""
        if self.closed or self._loop is None:
            return
        if self._streams and (self._clock is None or self._clock.done()):
            # Not in the context of the stream that happens to be first: ticks are nobody's own questions.
            self._clock = self._loop.create_task(self._tick_on(), context=Context())
            self._clock.add_done_callback(self._begin)
        if self._hearers and (self._ear is None or self._ear.done()):
            self._ear = self._loop.create_task(self._hear())
            self._ear.add_done_callback(self._begin)

    def _wanted(self, n: int, left_at: float) -> bool:
        return not self.closed and (n > 0 or time.monotonic() - left_at < LINGER_SECONDS)

    async def _tick_on(self) -> None:
        """A tick every two seconds while streams are open; the listener ends when no stream needs it."""
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
                refusal(error)  # a bug is logged, and listening goes on
                await self._pause(AWAY_SECONDS)

    async def _listen_once(self) -> None:
        conn, name = await self._store.listen(), ""
        try:
            if conn.pooled:
                await asyncio.Event().wait()  # no NOTIFY comes through a pooler: wait until this is cancelled
            name = channel_of(await postgres.run(conn, channel(), self._store.schema))
            await conn.execute(f'LISTEN "{name}"'.encode())
            while True:
                await postgres.run(conn, tell(NOTE), self._store.schema)
                async for heard in conn.notifies(timeout=ASK_SECONDS):
                    self._keep(list(events_of(heard.payload)))
        finally:
            if name:
                self._gap()  # events until we listen again are missed: tell streams to fetch everything
            with suppress(Exception):
                await conn.close()

    def _keep(self, lines: list[str]) -> None:
        for line in lines:
            self._n += 1
            self._kept.append(FleetLine(self._n, line))
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
        """End every stream now; call it from any thread or a signal handler."""
        self.closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    async def aclose(self) -> None:
        """Stop listening to the database, without waiting for one that is stuck."""
        running = [each for each in (self._clock, self._ear) if each is not None and not each.done()]
        for each in running:
            each.cancel()
        if running:
            await asyncio.wait(running, timeout=END_SECONDS)
