"""Fenced effects: the user's writes and the completion commit together, or not at all."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from psycopg import AsyncConnection, Connection

from .db import run
from .errors import StaleLease
from .model import Held, Settled
from .settings import DEFAULT_SCHEMA
from .settle import complete
from .verbs import holding


class fenced:
    """A transaction that ends by completing its row: `with fenced(conn, lease) as tx:` or `async with`.

    A lease that is no longer current raises StaleLease before the body runs, or, if it was lost meanwhile, at the end;
    either way nothing of the body is committed. The row is not locked in between, so the lease can be renewed from
    another connection; the guard of the completion, in this same transaction, is what decides.
    """

    def __init__(
        self,
        conn: Connection[Any] | AsyncConnection[Any],
        lease: Held,
        *,
        schema: str = DEFAULT_SCHEMA,
        accept_late: bool = False,
    ) -> None:
        self._conn, self._lease, self._schema = conn, lease, schema
        self._transaction: Any = conn.transaction()
        self._completion = complete([lease], accept_late=accept_late)

    def __enter__(self) -> Connection[Any]:
        assert isinstance(self._conn, Connection), "this connection awaits: write `async with fenced(...)`"
        self._transaction.__enter__()
        try:
            run(self._conn, holding(self._lease), self._schema)
        except BaseException as error:
            self._transaction.__exit__(type(error), error, error.__traceback__)
            raise
        return self._conn

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert isinstance(self._conn, Connection)
        if error is None:
            try:
                _require_applied(run(self._conn, self._completion, self._schema)[0])
            except BaseException as refused:
                self._transaction.__exit__(type(refused), refused, refused.__traceback__)
                raise
        self._transaction.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncConnection[Any]:
        assert isinstance(self._conn, AsyncConnection), "this connection blocks: write `with fenced(...)`"
        await self._transaction.__aenter__()
        try:
            await run(self._conn, holding(self._lease), self._schema)
        except BaseException as error:
            await self._transaction.__aexit__(type(error), error, error.__traceback__)
            raise
        return self._conn

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert isinstance(self._conn, AsyncConnection)
        if error is None:
            try:
                _require_applied((await run(self._conn, self._completion, self._schema))[0])
            except BaseException as refused:
                await self._transaction.__aexit__(type(refused), refused, refused.__traceback__)
                raise
        await self._transaction.__aexit__(kind, error, trace)


def _require_applied(settled: Settled) -> None:
    """Only a completion made by this very transaction may commit its writes; one made before has committed its own."""
    if settled.standing != "applied":
        raise StaleLease(settled.lease, "complete", settled.reason or "already_completed", settled.current)
