"""The database as the web sees it: questions awaited on a few connections, changes made in threads on a few others.

Not psycopg_pool: that answers a server that is away with a timeout; here whoever asks learns the reason at once, and
the first question after the server's return finds it. Every wait has an end: for a slot, for a kept connection to
answer, for a new one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from .. import postgres
from ..postgres.connection import AsyncQueueConnection, Patience, QueueConnection
from ..verbs.questions import ping
from ..verbs.statement import Statement
from .http_errors import Refused

T = TypeVar("T")
# How many at once. Whoever is slow by nature waits among its own kind: a change never stands behind a long count.
Slots = Literal["read", "probe", "change", "action", "count", "metrics"]
SLOTS: dict[Slots, int] = {"read": 8, "probe": 2, "change": 4, "action": 2, "count": 2, "metrics": 1}
SLOT_SECONDS = 2.0
PING_SECONDS = 2.0
READ_SECONDS = 10.0
CHANGE_SECONDS = 60.0
SILENCE_SECONDS = 5.0
NAME = "tenure serve"
READING = Patience(silence_seconds=SILENCE_SECONDS, statement_seconds=READ_SECONDS, lock_seconds=2.0)
CHANGING = Patience(silence_seconds=SILENCE_SECONDS, statement_seconds=CHANGE_SECONDS, lock_seconds=5.0)


class Store:
    """Connections made when they are first needed, kept while they are good, and given up by `aclose`."""

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self.closed = False
        self._reading: list[AsyncQueueConnection] = []
        self._changing: list[QueueConnection] = []
        self._busy: set[QueueConnection] = set()
        self._slots = {name: asyncio.Semaphore(n) for name, n in SLOTS.items()}

    @property
    def open(self) -> int:
        """How many connections are kept."""
        return len(self._reading) + len(self._changing)

    async def ask(self, statement: Statement[T], slots: Slots = "read") -> T:
        """The answer to one question."""
        async with self.reading(slots) as conn:
            return await postgres.run(conn, statement, self.schema)

    @asynccontextmanager
    async def reading(self, slots: Slots = "read") -> AsyncIterator[AsyncQueueConnection]:
        """A connection for a few questions in a row."""
        async with self._slot(slots):
            conn = await self._readable()
            try:
                yield conn
            finally:
                if _is_good(conn):
                    self._reading.append(conn)
                else:
                    await asyncio.shield(_end(conn))  # whoever asked may have left in the middle of an answer

    async def blocking(self, do: Callable[[QueueConnection], T], slots: Slots = "change") -> T:
        """What a blocking function of operate answers, run in a thread on a connection of its own."""
        async with self._slot(slots):
            return await in_thread(lambda: self._blocked(do))

    def _blocked(self, do: Callable[[QueueConnection], T]) -> T:
        self._check_open()
        conn = self._changeable()
        self._busy.add(conn)
        try:
            self._check_open()
            return do(conn)
        finally:
            self._busy.discard(conn)
            if _is_good(conn) and not self.closed:
                self._changing.append(conn)
            else:
                conn.close()

    def _check_open(self) -> None:
        """What has waited for the database until nobody waits for the answer any more is not done late."""
        if self.closed:
            raise Refused(503, "the server is about to stop, this was not done: come back in a moment")

    @asynccontextmanager
    async def _slot(self, name: Slots) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(SLOT_SECONDS):
                await self._slots[name].acquire()
        except TimeoutError:
            raise Refused(503, f"{SLOTS[name]} requests of this kind ({name}) are at work already: try again") from None
        try:
            yield
        finally:
            self._slots[name].release()

    async def _readable(self) -> AsyncQueueConnection:
        """One that has just answered: kept ones may have been cut off since, and then all of them."""
        while (conn := _taken(self._reading)) is not None:
            patience, conn.answer_seconds = conn.answer_seconds, PING_SECONDS
            try:
                await postgres.run(conn, ping(), self.schema)
            except psycopg.Error:
                await self._drop_readable(conn)
            else:
                conn.answer_seconds = patience
                return conn
        return await postgres.connect_async(self.url, application_name=NAME, patience=READING)

    async def _drop_readable(self, conn: AsyncQueueConnection | None) -> None:
        while conn is not None:
            await _end(conn)
            conn = _taken(self._reading)

    def _changeable(self) -> QueueConnection:
        while (conn := _taken(self._changing)) is not None:
            patience, conn.answer_seconds = conn.answer_seconds, PING_SECONDS
            try:
                postgres.run(conn, ping(), self.schema)
            except psycopg.Error:
                self._drop_changeable(conn)
            else:
                conn.answer_seconds = patience
                return conn
        return postgres.connect(self.url, application_name=NAME, patience=CHANGING)

    def _drop_changeable(self, conn: QueueConnection | None) -> None:
        while conn is not None:
            conn.close()
            conn = _taken(self._changing)

    async def listen(self) -> AsyncQueueConnection:
        """A connection outside the count, for whoever keeps it."""
        return await postgres.connect_async(self.url, application_name=f"{NAME} events", patience=READING)

    def close(self) -> None:
        """Begin no further change and break off those that are made: none of them is half made; from any thread."""
        self.closed = True
        for conn in list(self._busy):
            threading.Thread(target=_cancel, args=[conn], daemon=True).start()

    async def aclose(self) -> None:
        """Let every connection go; the next question makes new ones."""
        await self._drop_readable(_taken(self._reading))
        self._drop_changeable(_taken(self._changing))


def in_thread(do: Callable[[], T]) -> Awaitable[T]:
    """What a function answers that takes a while, from a thread of its own, which no end of the process waits for."""
    answer: concurrent.futures.Future[T] = concurrent.futures.Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            found = do()
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(found)

    threading.Thread(target=run, daemon=True).start()
    return asyncio.wrap_future(answer)


def _taken(kept: list[T]) -> T | None:
    """The last one, if there is one: several threads take from the same list."""
    with suppress(IndexError):
        return kept.pop()
    return None


def _is_good(conn: QueueConnection | AsyncQueueConnection) -> bool:
    return not conn.closed and conn.info.transaction_status == TransactionStatus.IDLE


def _cancel(conn: QueueConnection) -> None:
    with suppress(psycopg.Error):
        conn.cancel_safe(timeout=1.0)


async def _end(conn: AsyncQueueConnection) -> None:
    with suppress(Exception):
        await conn.close()


def address(url: str) -> str:
    """host:port/name of a database, never a password."""
    known: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
    host, port = known.get("host") or known.get("hostaddr") or "local socket", known.get("port") or 5432
    return f"{host}:{port}/{known.get('dbname') or known.get('user') or 'postgres'}"
