"""The only I/O: run a Statement on a blocking or an awaiting psycopg connection."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Literal, TypeVar, overload

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.rows import tuple_row

from .. import sql
from ..errors import ServerBehind
from ..model.payload import copy_row
from ..model.rows import NewRow
from ..settings import DEFAULT_SCHEMA
from ..verbs.statement import Statement

T = TypeVar("T")
U = TypeVar("U")


@overload
def run(conn: Connection[Any], statement: Statement[T], schema: str | None = None) -> T: ...
@overload
def run(conn: AsyncConnection[Any], statement: Statement[T], schema: str | None = None) -> Awaitable[T]: ...
def run(
    conn: Connection[Any] | AsyncConnection[Any], statement: Statement[T], schema: str | None = None
) -> T | Awaitable[T]:
    """Run a verb or question on the caller's connection and in its transaction; awaitable if the connection is.

    It looks in the schema given here, else in that of the connection, else in `tenure`.
    """
    if isinstance(conn, AsyncConnection):
        return _run_awaiting(conn, statement, schema)
    return _run_blocking(conn, statement, schema)


@overload
def run_both(
    conn: Connection[Any], first: Statement[T], second: Statement[U], schema: str | None = None
) -> tuple[T, U]: ...
@overload
def run_both(
    conn: AsyncConnection[Any], first: Statement[T], second: Statement[U], schema: str | None = None
) -> Awaitable[tuple[T, U]]: ...
def run_both(
    conn: Connection[Any] | AsyncConnection[Any],
    first: Statement[T],
    second: Statement[U],
    schema: str | None = None,
) -> tuple[T, U] | Awaitable[tuple[T, U]]:
    """Two statements in one round trip and one transaction: end the last batch and claim the next."""
    if isinstance(conn, AsyncConnection):
        return _run_both_awaiting(conn, first, second, schema)
    return _run_both_blocking(conn, first, second, schema)


def _run_blocking(conn: Connection[Any], statement: Statement[T], schema: str | None) -> T:
    with _translated():
        cursor = _execute(conn, statement, schema)
        rows = cursor.fetchall() if cursor.description else []  # VACUUM answers nothing
    answer = statement.read(rows)
    return _run_blocking(conn, answer, schema) if isinstance(answer, Statement) else answer


async def _run_awaiting(conn: AsyncConnection[Any], statement: Statement[T], schema: str | None) -> T:
    with _translated():
        cursor = await _execute_awaiting(conn, statement, schema)
        rows = await cursor.fetchall() if cursor.description else []
    answer = statement.read(rows)
    return await _run_awaiting(conn, answer, schema) if isinstance(answer, Statement) else answer


def _run_both_blocking(
    conn: Connection[Any], first: Statement[T], second: Statement[U], schema: str | None
) -> tuple[T, U]:
    with _translated(), conn.pipeline():  # left before anything is fetched: one round trip, not two
        one, two = _execute(conn, first, schema), _execute(conn, second, schema)
    left, right = first.read(one.fetchall()), second.read(two.fetchall())
    return (
        _run_blocking(conn, left, schema) if isinstance(left, Statement) else left,
        _run_blocking(conn, right, schema) if isinstance(right, Statement) else right,
    )


async def _run_both_awaiting(
    conn: AsyncConnection[Any], first: Statement[T], second: Statement[U], schema: str | None
) -> tuple[T, U]:
    with _translated():
        async with conn.pipeline():
            one, two = await _execute_awaiting(conn, first, schema), await _execute_awaiting(conn, second, schema)
    left, right = first.read(await one.fetchall()), second.read(await two.fetchall())
    return (
        await _run_awaiting(conn, left, schema) if isinstance(left, Statement) else left,
        await _run_awaiting(conn, right, schema) if isinstance(right, Statement) else right,
    )


def _execute(conn: Connection[Any], statement: Statement[Any], schema: str | None) -> Cursor[tuple[Any, ...]]:
    # A cursor of our own kind, whatever row factory or cursor class the caller has set on the connection.
    cursor = Cursor(conn, row_factory=tuple_row)
    text = sql.prepared(statement.name, _schema_of(conn, schema))
    return cursor.execute(text, statement.params, binary=True, prepare=_may_prepare(conn))


async def _execute_awaiting(
    conn: AsyncConnection[Any], statement: Statement[Any], schema: str | None
) -> AsyncCursor[tuple[Any, ...]]:
    cursor = AsyncCursor(conn, row_factory=tuple_row)
    text = sql.prepared(statement.name, _schema_of(conn, schema))
    return await cursor.execute(text, statement.params, binary=True, prepare=_may_prepare(conn))


def _may_prepare(conn: Connection[Any] | AsyncConnection[Any]) -> Literal[False] | None:
    """None leaves it to psycopg, False forbids it.

    Only connections of our own have been asked whether a pooler stands in between. A caller's may go through one: there
    our statement would get a name that is another service's, or that it takes for its own.
    """
    return False if getattr(conn, "pooled", True) else None


def _schema_of(conn: Connection[Any] | AsyncConnection[Any], given: str | None) -> str:
    if given is not None:
        return given
    schema: str = getattr(conn, "schema", DEFAULT_SCHEMA)
    return schema


class _translated:
    """Turn the one SQLSTATE of our own into its exception; every other database error passes unwrapped."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, psycopg.Error) and error.sqlstate == "TN001":
            raise ServerBehind(error.diag.message_primary or "this server is behind") from error


def copy(conn: Connection[Any], rows: Iterable[NewRow], schema: str | None = None) -> int:
    """Stream rows in by COPY, in the caller's transaction: the quickest way in, without idempotency keys."""
    n = 0
    with Cursor(conn).copy(sql.prepared("copy", _schema_of(conn, schema))) as stream:
        for row in rows:
            stream.write_row(copy_row(row))
            n += 1
    return n


async def copy_async(conn: AsyncConnection[Any], rows: Iterable[NewRow], schema: str | None = None) -> int:
    """The same, awaiting."""
    n = 0
    async with AsyncCursor(conn).copy(sql.prepared("copy", _schema_of(conn, schema))) as stream:
        for row in rows:
            await stream.write_row(copy_row(row))
            n += 1
    return n
