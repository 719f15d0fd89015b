"""Connections for handlers: opened when a handler first asks, at most one for each slot."""

from __future__ import annotations

import asyncio
import select
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from .connection import AsyncQueueConnection, Patience, QueueConnection, conninfo, find_pooler, find_pooler_async


class HandlerPool:
    """Lends ordinary connections in autocommit: the user's own statements run on them, so plans are not fixed.

    Behind a pooler statements are not prepared on them: a name could mean another statement in another session.
    """

    def __init__(self, url: str, most: int = 1) -> None:
        self._conninfo = conninfo(url, "tenure handler", Patience(), settings=False)
        self._most = most
        self._blocking: ConnectionPool[QueueConnection] | None = None
        self._awaiting: AsyncConnectionPool[AsyncQueueConnection] | None = None
        self._opening = asyncio.Lock()
        self._lock = threading.Lock()

    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        """For `with`, from any thread."""
        with self._lock:
            if self._blocking is None:
                self._blocking = ConnectionPool(
                    self._conninfo,
                    connection_class=QueueConnection,
                    configure=find_pooler,
                    check=_check,
                    open=True,
                    **self._shape(),
                )
        with self._blocking.connection() as conn:
            yield conn

    @asynccontextmanager
    async def awaiting(self) -> AsyncIterator[AsyncConnection[Any]]:
        """For `async with`, on the worker's loop."""
        async with self._opening:
            if self._awaiting is None:
                self._awaiting = AsyncConnectionPool(
                    self._conninfo,
                    connection_class=AsyncQueueConnection,
                    configure=find_pooler_async,
                    check=_check_async,
                    open=False,
                    **self._shape(),
                )
                await self._awaiting.open()
        async with self._awaiting.connection() as conn:
            yield conn

    def _shape(self) -> dict[str, Any]:
        return {
            "min_size": 0,
            "max_size": self._most,
            "timeout": 30.0,
            "kwargs": {"autocommit": True},
        }

    async def close(self) -> None:
        """Close what was opened."""
        if self._awaiting is not None:
            await self._awaiting.close(timeout=1.0)
        if self._blocking is not None:
            self._blocking.close(timeout=1.0)


def _has_news(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """True if an idle connection has something to read, mostly its end. All others need no round trip to be checked."""
    poll = select.poll()
    poll.register(conn.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _check(conn: Connection[Any]) -> None:
    if _has_news(conn):
        ConnectionPool.check_connection(conn)


async def _check_async(conn: AsyncConnection[Any]) -> None:
    if _has_news(conn):
        await AsyncConnectionPool.check_connection(conn)
