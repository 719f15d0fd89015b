"""The web's connections: a few async ones for questions, and a few blocking ones, in threads, for changes.

Not psycopg_pool: while the server is away, a pool answers with a timeout. Here the reason comes at once, and the first
question after the server's return is answered. Every wait has a limit: for a permit, an answer, a new connection.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from .. import postgres
from ..postgres.connection import AsyncQueueConnection, QueueConnection
from ..postgres.patience import Patience
from ..verbs.questions import ping
from ..verbs.statement import Statement
from .http_errors import Refused

T = TypeVar("T")
# How many at once. Each kind has its own permits, so that a change never waits behind a long count.
Permits = Literal["read", "probe", "change", "action", "count", "metrics"]
PERMITS: dict[Permits, int] = {"read": 8, "probe": 2, "change": 4, "action": 3, "count": 3, "metrics": 1}
ASKING_MAX = 100  # of one actor and kind, with those that wait
SLOT_SECONDS = 2.0
PING_SECONDS = 2.0
READ_SECONDS = 10.0
CHANGE_SECONDS = 60.0
SILENCE_SECONDS = 5.0
NAME = "tenure serve"
READING = Patience(silence_seconds=SILENCE_SECONDS, statement_seconds=READ_SECONDS, lock_seconds=2.0)
CHANGING = Patience(silence_seconds=SILENCE_SECONDS, statement_seconds=CHANGE_SECONDS, lock_seconds=5.0)


# Who asks in this context. One actor cannot have all permits of a kind; "" is nobody's own question.
ASKING: ContextVar[str] = ContextVar("asking", default="")


class Store:
    """Connections that are opened when needed, kept while they work, and closed by `aclose`."""

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self.closed = False
        self.silent_until = 0.0  # it has not answered a probe: others need not wait for it before
        self._reading: list[AsyncQueueConnection] = []
        self._changing: list[QueueConnection] = []
        self._busy: set[QueueConnection] = set()
        self._permits = {name: asyncio.Semaphore(n) for name, n in PERMITS.items()}
        self._shares: dict[tuple[Permits, str], _Share] = {}  # of those who ask now

    @property
    def open(self) -> int:
        """How many connections are kept."""
        return len(self._reading) + len(self._changing)

    async def ask(self, statement: Statement[T], permits: Permits = "read") -> T:
        """The answer to one question."""
        async with self.reading(permits) as conn:
            return await postgres.run(conn, statement, self.schema)

    @asynccontextmanager
    async def reading(self, permits: Permits = "read") -> AsyncIterator[AsyncQueueConnection]:
        """A connection for a few questions in a row."""
        async with self._permit(permits):
            conn = await self._readable()
            try:
                yield conn
            finally:
                if _is_good(conn):
                    self._reading.append(conn)
                else:
                    await asyncio.shield(_end(conn))  # the client may have left in the middle of an answer

    async def blocking(
        self, do: Callable[[QueueConnection], T], permits: Permits = "change", *, at_last: bool = False
    ) -> T:
        """The result of a blocking function, in a thread on its own connection; `at_last`: also after `close`."""
        async with self._permit(permits):
            return await in_thread(lambda: self._blocked(do, at_last=at_last))

    def _blocked(self, do: Callable[[QueueConnection], T], *, at_last: bool) -> T:
        if not at_last:
            self._check_open()
        conn = self._changeable()
        self._busy.add(conn)
        try:
            if not at_last:
                self._check_open()
            return do(conn)
        finally:
            self._busy.discard(conn)
            if _is_good(conn) and not self.closed:
                self._changing.append(conn)
            else:
                conn.close()

    def _check_open(self) -> None:
        """A change that waited until the server stops is not made: nobody would get the answer."""
        if self.closed:
            raise Refused(503, "the server is about to stop, and nothing was changed: try again in a moment")

    @asynccontextmanager
    async def _permit(self, name: Permits) -> AsyncIterator[None]:
        whose = (name, ASKING.get())
        share = self._shares.setdefault(whose, _Share(_share_of(PERMITS[name]) if whose[1] else PERMITS[name]))
        share.asking += 1
        try:
            if share.asking > ASKING_MAX:
                raise Refused(503, f"{ASKING_MAX} of your requests of this kind ({name}) wait already: try again")
            async with AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(SLOT_SECONDS):
                        await held.enter_async_context(share.permits)
                        await held.enter_async_context(self._permits[name])
                except TimeoutError:
                    sentence = f"{PERMITS[name]} requests of this kind ({name}) run already: try again"
                    raise Refused(503, sentence) from None
                yield
        finally:
            share.asking -= 1
            if not share.asking:
                self._shares.pop(whose, None)

    async def _readable(self) -> AsyncQueueConnection:
        """A connection that has just answered a ping; if a kept one is broken, all kept ones are dropped."""
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
        conn = postgres.connect(self.url, application_name=NAME, patience=CHANGING)
        conn.cancels = True
        return conn

    def _drop_changeable(self, conn: QueueConnection | None) -> None:
        while conn is not None:
            conn.close()
            conn = _taken(self._changing)

    async def listen(self) -> AsyncQueueConnection:
        """A connection that uses no permit; the caller closes it."""
        return await postgres.connect_async(self.url, application_name=f"{NAME} events", patience=READING)

    def close(self) -> None:
        """Start no more changes and cancel those under way; none is left half done. Call it from any thread."""
        self.closed = True
        for conn in list(self._busy):
            threading.Thread(target=_cancel, args=[conn], daemon=True).start()

    async def aclose(self) -> None:
        """Close every connection; the next question opens new ones."""
        await self._drop_readable(_taken(self._reading))
        self._drop_changeable(_taken(self._changing))


class _Share:
    """One actor's part of the permits of a kind."""

    def __init__(self, most: int) -> None:
        self.permits, self.asking = asyncio.Semaphore(most), 0


def _share_of(n: int) -> int:
    """How many of n permits one actor may have: all but a quarter, and all of one."""
    return n - max(1, n // 4) if n > 1 else n


def in_thread(do: Callable[[], T]) -> Awaitable[T]:
    """The result of a slow function, run in a daemon thread, so that it cannot delay the end of the process."""
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
    """The last one, or None; several threads take from the same list."""
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
