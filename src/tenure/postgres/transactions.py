"""A transaction of our own on somebody's connection, of whatever library: READ COMMITTED, committed at the end."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, IsolationLevel, pq

from ..errors import BadSettings
from .callers import awaits, library_of

READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
IN_TRANSACTION = (
    "fenced() needs a connection that is not in a transaction: open it with autocommit=True, or commit first"
)
CLOSED = "fenced() was given a connection that is closed: open another one"
AUTOCOMMIT = (
    "this SQLAlchemy connection is in AUTOCOMMIT, so nothing commits together on it: pass one of an engine "
    "without isolation_level='AUTOCOMMIT'"
)
StillOpen = Callable[[], bool]  # False once the body has ended the transaction itself, or has marked it to be undone


def blocking(conn: Any) -> AbstractContextManager[StillOpen]:
    """For `with`; what is raised inside rolls it back."""
    if awaits(conn):
        raise TypeError("this connection is async: write `async with fenced(...)`")
    if isinstance(conn, Connection | Cursor):
        return _psycopg(conn if isinstance(conn, Connection) else conn.connection)
    return _django(conn) if library_of(conn) == "django" else _sqlalchemy(conn)


def awaiting(conn: Any) -> AbstractAsyncContextManager[StillOpen]:
    """For `async with`."""
    if isinstance(conn, AsyncConnection | AsyncCursor):
        return _psycopg_awaiting(conn if isinstance(conn, AsyncConnection) else conn.connection)
    if isinstance(conn, Connection | Cursor) or not (library_of(conn) and awaits(conn)):
        raise TypeError("this connection is not async: write `with fenced(...)`")
    return _asyncpg(conn) if library_of(conn) == "asyncpg" else _sqlalchemy_awaiting(conn)


def whole(conn: Any) -> AbstractContextManager[Any]:
    """All or nothing within the caller's transaction, or in one of its own if there is none; for `with`."""
    if awaits(conn):
        raise TypeError("this connection is async: write `async with`")
    if isinstance(conn, Connection | Cursor):
        conn = conn if isinstance(conn, Connection) else conn.connection
        return _first(conn) if _begins_by_itself(conn) else conn.transaction()
    if library_of(conn) == "django":
        return sys.modules["django.db.transaction"].atomic(using=conn.alias)  # type: ignore[no-any-return]
    return _savepoint(conn)


def whole_awaiting(conn: Any) -> AbstractAsyncContextManager[Any]:
    """The same, for `async with`."""
    if isinstance(conn, AsyncConnection | AsyncCursor):
        conn = conn if isinstance(conn, AsyncConnection) else conn.connection
        return _first_awaiting(conn) if _begins_by_itself(conn) else conn.transaction()
    if isinstance(conn, Connection | Cursor) or not (library_of(conn) and awaits(conn)):
        raise TypeError("this connection is not async: write `with`")
    return conn.transaction() if library_of(conn) == "asyncpg" else _savepoint_awaiting(conn)


def _begins_by_itself(conn: Any) -> bool:
    """True if the first statement begins the caller's transaction, which the caller ends."""
    return not conn.autocommit and conn.info.transaction_status == pq.TransactionStatus.IDLE


@contextmanager
def _first(conn: Connection[Any]) -> Iterator[None]:
    """What is first in the caller's transaction is all there is in it: with the transaction it is undone."""
    try:
        yield
    except BaseException:
        if not conn.closed:
            conn.rollback()
        raise


@asynccontextmanager
async def _first_awaiting(conn: AsyncConnection[Any]) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        if not conn.closed:
            await conn.rollback()
        raise


def _require_idle(in_transaction: bool) -> None:
    """Inside another transaction ours would be only a savepoint: its writes could still be undone."""
    if in_transaction:
        raise BadSettings(IN_TRANSACTION)


def _require_open(closed: bool) -> None:
    if closed:
        raise BadSettings(CLOSED)


@contextmanager
def _psycopg(conn: Connection[Any]) -> Iterator[StillOpen]:
    _require_open(conn.closed)
    _require_idle(conn.info.transaction_status != pq.TransactionStatus.IDLE)
    before, conn.isolation_level = conn.isolation_level, IsolationLevel.READ_COMMITTED
    try:
        with conn.transaction():
            yield lambda: conn.info.transaction_status != pq.TransactionStatus.IDLE
    finally:
        if not conn.closed:
            conn.isolation_level = before


@asynccontextmanager
async def _psycopg_awaiting(conn: AsyncConnection[Any]) -> AsyncIterator[StillOpen]:
    _require_open(conn.closed)
    _require_idle(conn.info.transaction_status != pq.TransactionStatus.IDLE)
    before = conn.isolation_level
    await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    try:
        async with conn.transaction():
            yield lambda: conn.info.transaction_status != pq.TransactionStatus.IDLE
    finally:
        if not conn.closed:
            await conn.set_isolation_level(before)


@contextmanager
def _sqlalchemy(conn: Any) -> Iterator[StillOpen]:
    conn = _itself(conn)
    _require_idle(conn.in_transaction())
    with conn.begin() as mine:
        _transactional(conn).exec_driver_sql(READ_COMMITTED)
        yield lambda: bool(mine.is_active)


@asynccontextmanager
async def _sqlalchemy_awaiting(conn: Any) -> AsyncIterator[StillOpen]:
    conn = _itself(conn)
    _require_idle(conn.in_transaction())
    async with conn.begin() as mine:
        await (await _transactional_awaiting(conn)).exec_driver_sql(READ_COMMITTED)
        yield lambda: bool(mine.is_active)


@contextmanager
def _savepoint(conn: Any) -> Iterator[None]:
    conn = _itself(conn)
    _transactional(conn)
    with conn.begin_nested():
        yield


@asynccontextmanager
async def _savepoint_awaiting(conn: Any) -> AsyncIterator[None]:
    conn = _itself(conn)
    await _transactional_awaiting(conn)
    async with conn.begin_nested():
        yield


def _transactional(conn: Any) -> Any:
    """The connection of a session, or itself; BadSettings in AUTOCOMMIT, where a block is no transaction."""
    conn = conn.connection() if hasattr(conn, "flush") else conn
    _require_transactions(conn)
    return conn


async def _transactional_awaiting(conn: Any) -> Any:
    conn = await conn.connection() if hasattr(conn, "flush") else conn
    _require_transactions(conn.sync_connection)
    return conn


def _require_transactions(conn: Any) -> None:
    if getattr(conn.connection.dbapi_connection, "autocommit", False):
        raise BadSettings(AUTOCOMMIT)


def _itself(conn: Any) -> Any:
    """The session that a scoped_session stands for."""
    return conn() if type(conn).__name__.endswith("scoped_session") else conn


@asynccontextmanager
async def _asyncpg(conn: Any) -> AsyncIterator[StillOpen]:
    _require_idle(conn.is_in_transaction())
    async with conn.transaction(isolation="read_committed"):
        yield conn.is_in_transaction


@contextmanager
def _django(conn: Any) -> Iterator[StillOpen]:
    within_test = _of_a_test_case(conn)
    _require_idle((conn.in_atomic_block or not conn.get_autocommit()) and not within_test)
    with sys.modules["django.db.transaction"].atomic(using=conn.alias):
        if not within_test:
            with conn.cursor() as cursor:
                cursor.execute(READ_COMMITTED)
        yield lambda: conn.in_atomic_block and not conn.needs_rollback


def _of_a_test_case(conn: Any) -> bool:
    """True if the block around is the one that TestCase rolls back: Django's own durable=True goes by the same mark."""
    blocks = getattr(conn, "atomic_blocks", None) or [None]
    return bool(getattr(blocks[-1], "_from_testcase", False))
