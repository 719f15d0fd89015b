"""Connections for handlers: opened when a handler asks, never more than slots, closed when idle for a while."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, Error, OperationalError, pq
from psycopg.rows import tuple_row

from .connection import (
    AsyncQueueConnection,
    QueueConnection,
    conninfo,
    doubts,
    find_pooler,
    find_pooler_async,
)
from .moved_nodes import present
from .patience import Patience

WAIT_SECONDS_MAX = 30.0  # for a connection, while all are lent
FRESH_SECONDS = 1.0  # a connection used so lately is lent without a round trip
CHECK_SECONDS_MAX = 2.0
PATIENCE = Patience(doubt_seconds=5.0)

Lent = QueueConnection | AsyncQueueConnection
L = TypeVar("L", QueueConnection, AsyncQueueConnection)


class HandlerPool:
    """Lends ordinary connections in autocommit: the user's own statements run on them, so plans are not fixed.

    Behind a pooler statements are not prepared on them: a name could mean another statement in another session.
    Blocking and awaiting handlers and those in processes share the number: if there is no room for one more connection,
    an idle one is closed first.
    """

    def __init__(self, url: str, most: int = 1, *, idle_seconds: float = 10.0) -> None:
        self._url, self._most, self._idle_seconds = url, most, idle_seconds
        self._room = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._lent = 0  # here and elsewhere
        self._waiting: list[None] = []  # one for each who asks while all are lent
        self._idle: list[tuple[float, Lent]] = []  # since when; the one used last at the end
        self._tidying: threading.Timer | None = None
        self._closed = False

    # -- lending

    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        """For `with`, from any thread."""
        if not self._room.acquire(blocking=False):
            with self._wanting():
                if not self._room.acquire(timeout=WAIT_SECONDS_MAX):
                    raise _no_room()
        conn: QueueConnection | None = None
        with self._lock:
            self._lent += 1
        try:
            conn = self._usable() or self._open()
            yield conn
        finally:
            if conn is not None and _in_doubt(conn):
                _try(conn.rollback)
            self._take_back(conn)

    @asynccontextmanager
    async def awaiting(self) -> AsyncIterator[AsyncConnection[Any]]:
        """For `async with`, on the worker's loop."""
        if not self._room.acquire(blocking=False):
            by = time.monotonic() + WAIT_SECONDS_MAX
            with self._wanting():
                while not self._room.acquire(blocking=False):
                    if time.monotonic() > by:
                        raise _no_room()
                    await asyncio.sleep(0.02)
        conn: AsyncQueueConnection | None = None
        with self._lock:
            self._lent += 1
        try:
            conn = await self._usable_async() or await self._open_async()
            yield conn
        finally:
            try:
                if conn is not None and _in_doubt(conn):
                    await _try_async(conn.rollback())
            finally:
                self._take_back(conn)

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for one, because all are lent."""
        return bool(self._waiting)

    @contextmanager
    def _wanting(self) -> Iterator[None]:
        self._waiting.append(None)
        try:
            yield
        finally:
            self._waiting.pop()

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """A handler in another process may open a connection of its own: there is room for it, and one less here."""
        with self._lock:
            self._lent += 1
        self._make_room()
        try:
            yield
        finally:
            with self._lock:
                self._lent -= 1

    def _usable(self) -> QueueConnection | None:
        while (found := self._pop(QueueConnection)) is not None:
            since, conn = found
            if _is_sound(since, conn) or _try(partial(_check, conn)):
                return conn
            _finish(conn)
        return None

    async def _usable_async(self) -> AsyncQueueConnection | None:
        while (found := self._pop(AsyncQueueConnection)) is not None:
            since, conn = found
            if _is_sound(since, conn) or await _try_async(_check_async(conn)):
                return conn
            _finish(conn)
        return None

    @property
    def _conninfo(self) -> str:
        return conninfo(present(self._url), "tenure handler", PATIENCE, settings=False)

    def _open(self) -> QueueConnection:
        self._make_room()
        conn = QueueConnection.connect(self._conninfo, autocommit=True)
        try:
            conn.doubts = doubts(self._url, PATIENCE)
            find_pooler(conn)
        except BaseException:
            _finish(conn)
            raise
        return conn

    async def _open_async(self) -> AsyncQueueConnection:
        self._make_room()
        conn = await AsyncQueueConnection.connect(self._conninfo, autocommit=True)
        try:
            conn.doubts = doubts(self._url, PATIENCE)
            await find_pooler_async(conn)
        except BaseException:
            _finish(conn)
            raise
        return conn

    # -- keeping

    def _pop(self, kind: type[L]) -> tuple[float, L] | None:
        """The idle connection of this kind that was used last."""
        with self._lock:
            for each in reversed(self._idle):
                since, conn = each
                if isinstance(conn, kind):
                    self._idle.remove(each)
                    return since, conn
        return None

    def _make_room(self) -> None:
        """One more is opened: if that makes too many with those that are idle, close the one idle longest."""
        with self._lock:
            spare = self._idle.pop(0)[1] if self._idle and self._lent + len(self._idle) > self._most else None
        if spare is not None:
            _finish(spare)

    def _take_back(self, conn: Lent | None) -> None:
        """Keep it for the next handler, if it can be used again."""
        keep = conn is not None and self._idle_seconds > 0 and not conn.closed and _as_it_was(conn)
        with self._lock:
            self._lent -= 1
            if keep and conn is not None and not self._closed and self._lent + len(self._idle) < self._most:
                self._idle.append((time.monotonic(), conn))
                self._tidy_later()
                conn = None
        if conn is not None:
            _finish(conn)
        self._room.release()

    def _tidy_later(self) -> None:
        if self._tidying is None:
            self._tidying = threading.Timer(self._idle_seconds / 2, self._tidy)
            self._tidying.daemon = True
            self._tidying.start()

    def _tidy(self) -> None:
        """Close what has been idle for long enough."""
        with self._lock:
            before = time.monotonic() - self._idle_seconds
            old = [conn for since, conn in self._idle if since <= before]
            self._idle = [each for each in self._idle if each[0] > before]
            self._tidying = None
            if self._idle:
                self._tidy_later()
        for conn in old:
            _finish(conn)

    async def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            if self._tidying is not None:
                self._tidying.cancel()
        for _, conn in idle:
            _finish(conn)


def _no_room() -> OperationalError:
    return OperationalError(f"every connection for handlers has been in use for {WAIT_SECONDS_MAX:g} s")


def _finish(conn: Lent) -> None:
    """Close it from any thread: an idle connection belongs to no loop."""
    conn._closed = True
    conn.pgconn.finish()


def _in_doubt(conn: Lent) -> bool:
    return not conn.closed and conn.pgconn.transaction_status != pq.TransactionStatus.IDLE


def _as_it_was(conn: Lent) -> bool:
    """In no transaction, and without a setting of its borrower: the next one would lose writes by autocommit=False."""
    plain = conn.autocommit and conn.row_factory is tuple_row and conn.cursor_factory in (Cursor, AsyncCursor)
    ours = (conn.isolation_level, conn.read_only, conn.deferrable) == (None, None, None)
    return plain and ours and not _in_doubt(conn)


def _try(action: Callable[[], object]) -> bool:
    try:
        action()
    except Error:
        return False
    return True


async def _try_async(action: Awaitable[object]) -> bool:
    try:
        await action
    except Error:
        return False
    return True


def _is_sound(since: float, conn: Lent) -> bool:
    """True if a connection need not be asked: it was used lately, and has nothing to read (mostly its end)."""
    poll = select.poll()
    poll.register(conn.fileno(), select.POLLIN)
    return time.monotonic() - since < FRESH_SECONDS and not poll.poll(0)


def _check(conn: QueueConnection) -> None:
    """Ask it something: it may have ended, or be stranded."""
    conn.answer_seconds = CHECK_SECONDS_MAX
    conn.execute("", prepare=False)
    conn.answer_seconds = None


async def _check_async(conn: AsyncQueueConnection) -> None:
    conn.answer_seconds = CHECK_SECONDS_MAX
    await conn.execute("", prepare=False)
    conn.answer_seconds = None
