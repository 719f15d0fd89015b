"""The feed: one ear at the database for all open tabs, the last events for those who come back, a tick for all.

It listens only while somebody does. Through a pooler no events come, and the ticks alone go on.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import psycopg

from .. import db
from ..errors import TenureError
from ..fleet import tell
from ..questions import channel
from ..tail import ASK_SECONDS, NOTE, channel_of
from .refusal import Refused
from .store import Store

KEPT_MAX = 1000
STREAMS_MAX = 200
TICK_SECONDS = 2.0
PING_SECONDS = 15.0
LINGER_SECONDS = 15.0  # how long the ear stays for a tab that may come back
AWAY_SECONDS = 2.0  # between two tries to reach a database that is away
RETRY_MS = 2000


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
        self._streams = 0
        self._left_at = 0.0
        self._news = asyncio.Event()
        self.closed = False
        self._ear: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- one stream

    def open(self, last_id: str | None) -> AsyncIterator[bytes]:
        """The stream of one tab, from what it saw last; refused when there are too many."""
        if self.closed:
            raise Refused(503, "the server is about to stop: come back in a moment")
        if self._streams >= STREAMS_MAX:
            raise Refused(503, f"{STREAMS_MAX} streams are open already: close a tab")
        return self._stream(last_id)

    async def _stream(self, last_id: str | None) -> AsyncIterator[bytes]:
        self._enter()
        try:
            at, is_new = self._resumed(last_id)
            yield f"retry: {RETRY_MS}\n\n".encode() + (b"" if is_new else self._said("reset", b"{}"))
            ticked = 0
            while not self.closed:
                news = self._news
                if at < self._oldest():
                    at = self._n
                    yield self._said("reset", b"{}")
                for told in [each for each in self._kept if each.n > at]:
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
            self._leave()

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

    # -- the ear

    def _enter(self) -> None:
        self._streams += 1
        self._loop = asyncio.get_running_loop()
        if self._ear is None or self._ear.done():
            self._ear = self._loop.create_task(self._hear())

    def _leave(self) -> None:
        self._streams -= 1
        self._left_at = time.monotonic()

    def _wanted(self) -> bool:
        return not self.closed and (self._streams > 0 or time.monotonic() - self._left_at < LINGER_SECONDS)

    async def _hear(self) -> None:
        """Ticks and events as long as somebody listens."""
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._listen())
            while self._wanted():
                await self._ticked()
                await self._pause(TICK_SECONDS)
            listening.cancel()

    async def _ticked(self) -> None:
        if not self._streams:
            return
        try:
            body = msgspec.json.encode(await self._make_tick())
        except (psycopg.Error, TenureError, OSError) as error:
            body = json.dumps({"error": f"the database does not answer ({type(error).__name__})"}).encode()
        self._tick = (self._tick[0] + 1, body)
        self._wake()

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (psycopg.Error, TenureError, OSError):
                await self._pause(AWAY_SECONDS)

    async def _listen_once(self) -> None:
        conn, name = await self._store.listen(), ""
        try:
            if conn.pooled:
                await asyncio.Event().wait()  # no note comes through a pooler: until somebody cancels this
            name = channel_of(await db.run(conn, channel(), self._store.schema))
            await conn.execute(f'LISTEN "{name}"'.encode())
            while True:
                await db.run(conn, tell(NOTE), self._store.schema)
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
        """Stop listening to the database."""
        if self._ear is not None and not self._ear.done():
            self._ear.cancel()
            with suppress(asyncio.CancelledError):
                await self._ear
