"""The database as the web sees it: questions awaited on a few connections, changes made in threads on a few others.

Not psycopg_pool: that answers a server that is away with a timeout; here whoever asks learns the reason at once, and
the first question after the server's return finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg

from .. import db
from ..connect import AsyncQueueConnection, Patience, QueueConnection
from ..questions import ping
from ..statement import Statement

T = TypeVar("T")
CONNECTIONS_MAX = 8
CHANGES_MAX = 4
READ_SECONDS = 10.0
CHANGE_SECONDS = 60.0
NAME = "tenure serve"
READING = Patience(statement_seconds=READ_SECONDS, lock_seconds=2.0)
CHANGING = Patience(statement_seconds=CHANGE_SECONDS, lock_seconds=5.0)


class Store:
    """Connections made when they are first needed, kept while they are good, and given up by `aclose`."""

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self._reading: list[AsyncQueueConnection] = []
        self._changing: list[QueueConnection] = []
        self._reads = asyncio.Semaphore(CONNECTIONS_MAX)
        self._changes = asyncio.Semaphore(CHANGES_MAX)

    @property
    def open(self) -> int:
        """How many connections are kept."""
        return len(self._reading) + len(self._changing)

    async def ask(self, statement: Statement[T]) -> T:
        """The answer to one question."""
        async with self.reading() as conn:
            return await db.run(conn, statement, self.schema)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncQueueConnection]:
        """A connection for a few questions in a row."""
        async with self._reads:
            conn = await self._readable()
            try:
                yield conn
            except psycopg.Error:
                await _end(conn)
                raise
            except BaseException:
                await asyncio.shield(_end(conn))  # whoever asked has left in the middle of an answer
                raise
            self._reading.append(conn)

    async def blocking(self, do: Callable[[QueueConnection], T]) -> T:
        """What a blocking function of operate answers, run in a thread on a connection of its own."""
        async with self._changes:
            return await asyncio.to_thread(self._blocked, do)

    def _blocked(self, do: Callable[[QueueConnection], T]) -> T:
        conn = self._changeable()
        try:
            answer = do(conn)
        except BaseException:
            conn.close()
            raise
        self._changing.append(conn)
        return answer

    async def _readable(self) -> AsyncQueueConnection:
        """One that has just answered: kept ones may have been cut off since."""
        while self._reading:
            conn = self._reading.pop()
            try:
                await db.run(conn, ping(), self.schema)
            except psycopg.Error:
                await _end(conn)
            else:
                return conn
        return await db.connect_async(self.url, application_name=NAME, patience=READING)

    def _changeable(self) -> QueueConnection:
        while self._changing:
            conn = self._changing.pop()
            try:
                db.run(conn, ping(), self.schema)
            except psycopg.Error:
                conn.close()
            else:
                return conn
        return db.connect(self.url, application_name=NAME, patience=CHANGING)

    async def listen(self) -> AsyncQueueConnection:
        """A connection outside the count, for whoever keeps it."""
        return await db.connect_async(self.url, application_name=f"{NAME} events", patience=READING)

    async def aclose(self) -> None:
        """Let every connection go; the next question makes new ones."""
        while self._reading:
            await _end(self._reading.pop())
        while self._changing:
            self._changing.pop().close()


async def _end(conn: AsyncQueueConnection) -> None:
    with suppress(Exception):
        await conn.close()


def address(url: str) -> str:
    """host:port/name of a database, never a password."""
    known: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
    host, port = known.get("host") or known.get("hostaddr") or "local socket", known.get("port") or 5432
    return f"{host}:{port}/{known.get('dbname') or known.get('user') or 'postgres'}"
