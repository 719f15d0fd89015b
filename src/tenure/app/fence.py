"""Fenced effects: the user's writes and the completion commit together, or not at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any

from psycopg import Rollback

from ..errors import BadSettings, NoConnection, RolledBack, StaleLease
from ..model.rows import Held, Settled
from ..postgres.callers import Awaiting, Blocking
from ..postgres.runner import run
from ..postgres.transactions import StillOpen, awaiting, blocking
from ..settings import DEFAULT_SCHEMA
from ..verbs.lifecycle import enter, guard
from ..verbs.settle import complete
from ..verbs.statement import Statement, at_its_end

NO_CONNECTION = (
    "fenced(None): there is no connection, perhaps because it is not open yet; "
    "write job.fenced() to borrow one from the worker"
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
        conn: Blocking | Awaiting,
        lease: Held,
        *,
        schema: str = DEFAULT_SCHEMA,
        accept_late: bool = False,
        keep_payload: bool = True,
        keep: bool = False,
        result: Callable[[], str | None] = lambda: None,
    ) -> None:
        if conn is None:
            raise NoConnection(NO_CONNECTION)
        self._conn: Any
        self._conn, self._lease, self._schema = conn, lease, schema
        self._how, self._result = {"accept_late": accept_late, "keep_payload": keep_payload}, result
        self._keep = keep
        self._block: Any = None

    def __enter__(self) -> Any:
        self._block = self._blocking(blocking(self._conn))
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        swallowed: bool | None = self._block.__exit__(kind, error, trace)
        return swallowed

    async def __aenter__(self) -> Any:
        self._block = self._awaiting(awaiting(self._conn))
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        swallowed: bool | None = await self._block.__aexit__(kind, error, trace)
        return swallowed

    @contextmanager
    def _blocking(self, transaction: AbstractContextManager[StillOpen]) -> Iterator[Any]:
        with transaction as still_open:
            run(self._conn, enter(self._lease), self._schema)
            try:
                yield self._conn
            except Rollback as quiet:
                raise RolledBack(self._lease) from quiet
            _require_open(still_open)
            if flush := getattr(self._conn, "flush", None):
                flush()  # what a session has not written yet comes before the end of its row
            if self._keep:
                run(self._conn, at_its_end(guard(self._lease), _ended), self._schema)
            else:
                self._complete()

    @asynccontextmanager
    async def _awaiting(self, transaction: AbstractAsyncContextManager[StillOpen]) -> AsyncIterator[Any]:
        async with transaction as still_open:
            await run(self._conn, enter(self._lease), self._schema)
            try:
                yield self._conn
            except Rollback as quiet:
                raise RolledBack(self._lease) from quiet
            _require_open(still_open)
            if flush := getattr(self._conn, "flush", None):
                await flush()
            if self._keep:
                await run(self._conn, at_its_end(guard(self._lease), _ended), self._schema)
            else:
                await self._complete_awaiting()

    def _completion(self) -> Statement[list[Settled]]:
        result = self._result()
        completing = complete([self._lease], results=None if result is None else [result], **self._how)
        return at_its_end(completing, _ended)

    def _complete(self) -> None:
        for seconds in _until_its_turn():
            (settled,) = run(self._conn, self._completion(), self._schema)
            if settled.reason != NOT_ITS_TURN:
                break
            time.sleep(seconds)
        _require_applied(settled)

    async def _complete_awaiting(self) -> None:
        for seconds in _until_its_turn():
            (settled,) = await run(self._conn, self._completion(), self._schema)
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


def _require_open(still_open: StillOpen) -> None:
    """If the body has ended the transaction itself, the completion would commit apart from its writes."""
    if not still_open():
        raise _ended()


def _ended() -> BadSettings:
    return BadSettings(
        "the body of fenced() ended its transaction, so the row is not completed: leave COMMIT and ROLLBACK to fenced()"
    )


def _require_applied(settled: Settled) -> None:
    """Only a completion by this same transaction may commit its writes; an earlier one has committed its own."""
    if settled.standing != "applied":
        raise StaleLease(settled.lease, "complete", settled.reason or "already_completed", settled.current)
