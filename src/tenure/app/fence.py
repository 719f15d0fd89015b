"""Fenced effects: the user's writes and the completion commit together, or not at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any

from psycopg import AsyncConnection, Connection, IsolationLevel, Rollback, pq

from ..errors import BadSettings, RolledBack, StaleLease
from ..model.rows import Held, Settled
from ..postgres.runner import run
from ..settings import DEFAULT_SCHEMA
from ..verbs.lifecycle import enter, guard
from ..verbs.settle import complete
from ..verbs.statement import Statement

NO_CONNECTION = (
    "fenced(None): there is no connection, perhaps because it is not open yet (in Django, call "
    "`connection.ensure_connection()` first); write job.fenced() to borrow one from the worker"
)
NOT_ITS_TURN = "try_again"  # why a completion is refused while the row before it in its run is not settled yet
TURN_SECONDS = 10.0  # how long to wait for that


class fenced:
    """A transaction that ends by completing its row: `with fenced(conn, lease) as tx:` or `async with`.

    With keep=True the row is not completed but stays held: the writes commit only if the lease is current at their end.

    If the lease is not current, StaleLease is raised before the body runs; if it was lost meanwhile, at the end. Either
    way nothing of the body is committed. The row is not locked in between, so the lease can be renewed on another
    connection; the guard of the completion, in this same transaction, decides. Between two of its statements the body
    may be silent for as long as the lease had left at the start; then the server ends the transaction.
    A psycopg.Rollback that leaves the body is raised as RolledBack, never suppressed; one of a savepoint stays inside.
    """

    def __init__(
        self,
        conn: Connection[Any] | AsyncConnection[Any],
        lease: Held,
        *,
        schema: str = DEFAULT_SCHEMA,
        accept_late: bool = False,
        keep_payload: bool = True,
        keep: bool = False,
        result: Callable[[], str | None] = lambda: None,
    ) -> None:
        if conn is None:
            raise TypeError(NO_CONNECTION)
        self._conn, self._lease, self._schema = conn, lease, schema
        self._how, self._result = {"accept_late": accept_late, "keep_payload": keep_payload}, result
        self._keep = keep
        self._block: Any = None

    def __enter__(self) -> Connection[Any]:
        if not isinstance(self._conn, Connection):
            raise TypeError("this connection is async: write `async with fenced(...)`")
        self._block = self._blocking(self._conn)
        conn: Connection[Any] = self._block.__enter__()
        return conn

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        swallowed: bool | None = self._block.__exit__(kind, error, trace)
        return swallowed

    async def __aenter__(self) -> AsyncConnection[Any]:
        if not isinstance(self._conn, AsyncConnection):
            raise TypeError("this connection is not async: write `with fenced(...)`")
        self._block = self._awaiting(self._conn)
        conn: AsyncConnection[Any] = await self._block.__aenter__()
        return conn

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        swallowed: bool | None = await self._block.__aexit__(kind, error, trace)
        return swallowed

    @contextmanager
    def _blocking(self, conn: Connection[Any]) -> Iterator[Connection[Any]]:
        _require_idle(conn)
        before, conn.isolation_level = conn.isolation_level, IsolationLevel.READ_COMMITTED
        try:
            with conn.transaction():
                run(conn, enter(self._lease), self._schema)
                try:
                    yield conn
                except Rollback as quiet:
                    raise RolledBack(self._lease) from quiet
                _require_open(conn)
                if self._keep:
                    run(conn, guard(self._lease), self._schema)
                else:
                    self._complete(conn)
        finally:
            if not conn.closed:
                conn.isolation_level = before

    @asynccontextmanager
    async def _awaiting(self, conn: AsyncConnection[Any]) -> AsyncIterator[AsyncConnection[Any]]:
        _require_idle(conn)
        before = conn.isolation_level
        await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
        try:
            async with conn.transaction():
                await run(conn, enter(self._lease), self._schema)
                try:
                    yield conn
                except Rollback as quiet:
                    raise RolledBack(self._lease) from quiet
                _require_open(conn)
                if self._keep:
                    await run(conn, guard(self._lease), self._schema)
                else:
                    await self._complete_awaiting(conn)
        finally:
            if not conn.closed:
                await conn.set_isolation_level(before)

    def _completion(self) -> Statement[list[Settled]]:
        result = self._result()
        return complete([self._lease], results=None if result is None else [result], **self._how)

    def _complete(self, conn: Connection[Any]) -> None:
        for seconds in _until_its_turn():
            (settled,) = run(conn, self._completion(), self._schema)
            if settled.reason != NOT_ITS_TURN:
                break
            time.sleep(seconds)
        _require_applied(settled)

    async def _complete_awaiting(self, conn: AsyncConnection[Any]) -> None:
        for seconds in _until_its_turn():
            (settled,) = await run(conn, self._completion(), self._schema)
            if settled.reason != NOT_ITS_TURN:
                break
            await asyncio.sleep(seconds)
        _require_applied(settled)


def _until_its_turn() -> Iterator[float]:
    """How long to wait before each further try: the row before it in its run may be about to be settled."""
    by, seconds = time.monotonic() + TURN_SECONDS, 0.002
    while True:
        yield seconds
        if time.monotonic() > by:
            return
        seconds = min(0.1, seconds * 2)


def _require_idle(conn: Connection[Any] | AsyncConnection[Any]) -> None:
    """Inside another transaction the block would be only a savepoint: its writes could still be undone."""
    if conn.info.transaction_status != pq.TransactionStatus.IDLE:
        raise BadSettings(
            "fenced() needs a connection that is not in a transaction: open it with autocommit=True, or commit first"
        )


def _require_open(conn: Connection[Any] | AsyncConnection[Any]) -> None:
    """If the body has ended the transaction itself, the completion would commit apart from its writes."""
    if conn.info.transaction_status == pq.TransactionStatus.IDLE:
        raise BadSettings(
            "the body of fenced() ended its transaction, so the row is not completed: "
            "leave COMMIT and ROLLBACK to fenced()"
        )


def _require_applied(settled: Settled) -> None:
    """Only a completion by this same transaction may commit its writes; an earlier one has committed its own."""
    if settled.standing != "applied":
        raise StaleLease(settled.lease, "complete", settled.reason or "already_completed", settled.current)
