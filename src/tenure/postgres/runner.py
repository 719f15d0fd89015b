"""Run a Statement on a connection: blocking or async, of psycopg or of a library that callers.py knows."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, overload

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, pq
from psycopg.rows import tuple_row

from .. import sql
from ..errors import ServerBehind
from ..model.copy_line import copy_line
from ..model.rows import NewRow
from ..settings import DEFAULT_SCHEMA, DOOR
from ..verbs.statement import Statement
from . import foreign
from .callers import awaits, is_pool
from .own_cursor import OwnAsyncCursor, OwnCursor

T = TypeVar("T")
U = TypeVar("U")
COPY_CHARS = 1 << 17  # in one write of COPY


@overload
def run(conn: Connection[Any], statement: Statement[T], schema: str | None = None) -> T: ...
@overload
def run(conn: AsyncConnection[Any], statement: Statement[T], schema: str | None = None) -> Awaitable[T]: ...
def run(conn: Any, statement: Statement[T], schema: str | None = None) -> T | Awaitable[T]:
    """Run a verb or question on the caller's connection and in its transaction; awaitable if the connection is.

    It uses the schema given here, else that of the connection, else `tenure`.
    """
    if not isinstance(statement, Statement):
        raise TypeError(f"{statement!r} is not a statement of tenure.verbs: run your own SQL with execute")
    if isinstance(conn, AsyncConnection):
        return _run_awaiting(conn, statement, schema)
    if isinstance(conn, Connection):
        return _run_blocking(conn, statement, schema)
    if isinstance(conn, Cursor | AsyncCursor):
        answer: T | Awaitable[T] = run(conn.connection, statement, schema)
        return answer
    if is_pool(conn):
        return _run_lent_awaiting(conn, statement, schema) if awaits(conn) else _run_lent(conn, statement, schema)
    return foreign.run(conn, statement, schema or DEFAULT_SCHEMA)


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
    try:
        cursor = _execute(conn, statement, schema)
        rows = cursor.fetchall() if _has_rows(cursor) else []
    except psycopg.Error as error:
        _translate(error)
        raise
    answer = statement.read(rows)
    return _run_blocking(conn, answer, schema) if isinstance(answer, Statement) else answer


async def _run_awaiting(conn: AsyncConnection[Any], statement: Statement[T], schema: str | None) -> T:
    try:
        cursor = await _execute_awaiting(conn, statement, schema)
        rows = await cursor.fetchall() if _has_rows(cursor) else []
    except psycopg.Error as error:
        _translate(error)
        raise
    answer = statement.read(rows)
    return await _run_awaiting(conn, answer, schema) if isinstance(answer, Statement) else answer


def _run_lent(pool: Any, statement: Statement[T], schema: str | None) -> T:
    with pool.connection() as conn:  # a transaction of its own, committed at the end
        return _run_blocking(conn, statement, schema)


async def _run_lent_awaiting(pool: Any, statement: Statement[T], schema: str | None) -> T:
    async with pool.connection() as conn:
        return await _run_awaiting(conn, statement, schema)


def _run_both_blocking(
    conn: Connection[Any], first: Statement[T], second: Statement[U], schema: str | None
) -> tuple[T, U]:
    try:
        with conn.pipeline():  # left before any fetch: one round trip, not two
            one, two = _execute(conn, first, schema), _execute(conn, second, schema)
    except psycopg.Error as error:
        _translate(error)
        raise
    left, right = first.read(one.fetchall()), second.read(two.fetchall())
    return (
        _run_blocking(conn, left, schema) if isinstance(left, Statement) else left,
        _run_blocking(conn, right, schema) if isinstance(right, Statement) else right,
    )


async def _run_both_awaiting(
    conn: AsyncConnection[Any], first: Statement[T], second: Statement[U], schema: str | None
) -> tuple[T, U]:
    try:
        async with conn.pipeline():
            one, two = await _execute_awaiting(conn, first, schema), await _execute_awaiting(conn, second, schema)
    except psycopg.Error as error:
        _translate(error)
        raise
    left, right = first.read(await one.fetchall()), second.read(await two.fetchall())
    return (
        await _run_awaiting(conn, left, schema) if isinstance(left, Statement) else left,
        await _run_awaiting(conn, right, schema) if isinstance(right, Statement) else right,
    )


def _execute(conn: Connection[Any], statement: Statement[Any], schema: str | None) -> Cursor[tuple[Any, ...]]:
    # Our own cursor, whatever row factory, cursor class or adapters the caller set on the connection.
    cursor = OwnCursor(conn, row_factory=tuple_row)
    return cursor.execute(
        _text(conn, statement.name, schema), statement.params, binary=True, prepare=_may_prepare(conn)
    )


async def _execute_awaiting(
    conn: AsyncConnection[Any], statement: Statement[Any], schema: str | None
) -> AsyncCursor[tuple[Any, ...]]:
    cursor = OwnAsyncCursor(conn, row_factory=tuple_row)
    return await cursor.execute(
        _text(conn, statement.name, schema), statement.params, binary=True, prepare=_may_prepare(conn)
    )


def _text(conn: Connection[Any] | AsyncConnection[Any], name: str, given: str | None) -> bytes:
    schema = _schema_of(conn, given)
    text = sql.prepared(name, schema)
    if schema.endswith(DOOR) and _is_alone(conn):
        return text.replace(b"SELECT ", b"SELECT /* alone */ ", 1)
    return text


def _is_alone(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """True if a statement is a transaction of its own: then Citus need not commit it in two phases."""
    wire = conn.pgconn
    idle = wire.transaction_status == pq.TransactionStatus.IDLE
    return conn.autocommit and idle and wire.pipeline_status == pq.PipelineStatus.OFF


def _may_prepare(conn: Connection[Any] | AsyncConnection[Any]) -> Literal[False] | None:
    """None leaves it to psycopg, False forbids it.

    We know only of our own connections whether there is a pooler. A caller's connection may go through one, where the
    name of our prepared statement could belong to another service.
    """
    return False if getattr(conn, "pooled", True) else None


def _schema_of(conn: Connection[Any] | AsyncConnection[Any], given: str | None) -> str:
    if given is not None:
        return given
    schema: str = getattr(conn, "schema", DEFAULT_SCHEMA)
    return schema


def _has_rows(cursor: Cursor[Any] | AsyncCursor[Any]) -> bool:
    """False for VACUUM, which answers nothing. Its description would be made anew for each statement.

    In a pipeline of the caller's the answer has not come yet: fetching waits for it.
    """
    return cursor.pgresult is None or cursor.pgresult.nfields > 0


def _translate(error: psycopg.Error) -> None:
    """Turn our one own SQLSTATE into its exception; every other database error passes unchanged."""
    if error.sqlstate == ServerBehind.sqlstate:
        raise ServerBehind(error.diag.message_primary or "this server is behind") from error


def copy(conn: Connection[Any], rows: Iterable[NewRow], schema: str | None = None) -> int:
    """Add rows by COPY, in the caller's transaction: the fastest way, without idempotency keys."""
    n, now = 0, _now(conn)
    with OwnCursor(conn).copy(sql.prepared("copy", _schema_of(conn, schema))) as stream:
        for lines in _some(rows, now):
            stream.write("".join(lines))
            n += len(lines)
    return n


async def copy_async(conn: AsyncConnection[Any], rows: Iterable[NewRow], schema: str | None = None) -> int:
    """The same, awaiting."""
    n, now = 0, _now(conn)
    async with OwnAsyncCursor(conn).copy(sql.prepared("copy", _schema_of(conn, schema))) as stream:
        for lines in _some(rows, now):
            await stream.write("".join(lines))
            n += len(lines)
    return n


def _now(conn: Connection[Any] | AsyncConnection[Any]) -> str:
    """When rows without a delay are due: by the clock of the server, unless a transaction began who knows when."""
    idle = conn.info.transaction_status == pq.TransactionStatus.IDLE
    return "now" if idle else datetime.now(UTC).isoformat()


def _some(rows: Iterable[NewRow], now: str) -> Iterator[list[str]]:
    """Their lines, some at a time: few writes, and no more than some megabytes at once."""
    size, some = 0, []
    for row in rows:
        some.append(line := copy_line(row, now))
        size += len(line)
        if size > COPY_CHARS:
            yield some
            size, some = 0, []
    yield some
