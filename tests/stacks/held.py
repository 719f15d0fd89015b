"""The connections that users hold, library by library, each with the same few words: say, commit, undo, savepoint."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import asyncpg
import django
import psycopg
import sqlalchemy
import sqlmodel
from django.conf import settings
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

Say = Callable[[str], Awaitable[Any]]


@dataclass(frozen=True)
class Held:
    """A connection of some library with an open transaction, and how its user speaks to it."""

    conn: Any  # what is passed to Tenure
    say: Say
    commit: Callable[[], Awaitable[None]]
    undo: Callable[[], Awaitable[None]]
    savepoint: Callable[[], contextlib.AbstractAsyncContextManager[Any]]


def _soon(call: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def later(*args: Any) -> Any:
        return call(*args)

    return later


@contextlib.asynccontextmanager
async def _entered(block: contextlib.AbstractContextManager[Any]) -> AsyncIterator[None]:
    with block:
        yield


@contextlib.asynccontextmanager
async def psycopg_connection(url: str) -> AsyncIterator[Held]:
    """psycopg, blocking."""
    with psycopg.connect(url) as conn:
        yield Held(
            conn, _soon(conn.execute), _soon(conn.commit), _soon(conn.rollback), lambda: _entered(conn.transaction())
        )


@contextlib.asynccontextmanager
async def psycopg_cursor(url: str) -> AsyncIterator[Held]:
    """A cursor of it."""
    async with psycopg_connection(url) as held:
        with held.conn.cursor() as cursor:
            yield Held(cursor, held.say, held.commit, held.undo, held.savepoint)


@contextlib.asynccontextmanager
async def psycopg_awaiting(url: str) -> AsyncIterator[Held]:
    """psycopg, async."""
    async with await psycopg.AsyncConnection.connect(url) as conn:
        yield Held(conn, conn.execute, conn.commit, conn.rollback, conn.transaction)


@contextlib.asynccontextmanager
async def psycopg_awaiting_cursor(url: str) -> AsyncIterator[Held]:
    """A cursor of it."""
    async with psycopg_awaiting(url) as held, held.conn.cursor() as cursor:
        yield Held(cursor, held.say, held.commit, held.undo, held.savepoint)


@contextlib.asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Held]:
    """asyncpg."""
    conn = await asyncpg.connect(url)
    try:
        async with _asyncpg_transaction(conn) as held:
            yield held
    finally:
        await conn.close()


@contextlib.asynccontextmanager
async def asyncpg_lent(url: str) -> AsyncIterator[Held]:
    """One lent by a pool of asyncpg."""
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as conn,
        _asyncpg_transaction(conn) as held,
    ):
        yield held


@contextlib.asynccontextmanager
async def _asyncpg_transaction(conn: Any) -> AsyncIterator[Held]:
    transaction = conn.transaction()
    await transaction.start()
    yield Held(conn, conn.execute, transaction.commit, transaction.rollback, conn.transaction)


def _sqlalchemy(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


def _of_session(session: Any, conn: Any = None) -> Held:
    async def say(words: str) -> Any:
        return session.execute(text(words))

    commit, undo = _soon(session.commit), _soon(session.rollback)
    return Held(conn or session, say, commit, undo, lambda: _entered(session.begin_nested()))


@contextlib.asynccontextmanager
async def sqlalchemy_session(url: str) -> AsyncIterator[Held]:
    """SQLAlchemy's Session."""
    engine = sqlalchemy.create_engine(_sqlalchemy(url, "psycopg"))
    with Session(engine) as session:
        yield _of_session(session)
    engine.dispose()


@contextlib.asynccontextmanager
async def sqlalchemy_scoped(url: str) -> AsyncIterator[Held]:
    """The session of this thread."""
    engine = sqlalchemy.create_engine(_sqlalchemy(url, "psycopg"))
    registry = scoped_session(sessionmaker(engine))
    yield _of_session(registry)
    registry.remove()
    engine.dispose()


@contextlib.asynccontextmanager
async def sqlmodel_session(url: str) -> AsyncIterator[Held]:
    """SQLModel's Session."""
    engine = sqlalchemy.create_engine(_sqlalchemy(url, "psycopg"))
    with sqlmodel.Session(engine) as session:

        async def say(words: str) -> Any:
            return session.connection().execute(text(words))

        yield Held(
            session, say, _soon(session.commit), _soon(session.rollback), lambda: _entered(session.begin_nested())
        )
    engine.dispose()


@contextlib.asynccontextmanager
async def sqlalchemy_connection(url: str) -> AsyncIterator[Held]:
    """SQLAlchemy's Connection."""
    engine = sqlalchemy.create_engine(_sqlalchemy(url, "psycopg"))
    with engine.connect() as conn:
        yield _of_session(conn)
    engine.dispose()


def _awaiting_session(driver: str) -> Callable[[str], contextlib.AbstractAsyncContextManager[Held]]:
    @contextlib.asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Held]:
        engine = create_async_engine(_sqlalchemy(url, driver))
        async with AsyncSession(engine) as session:
            yield _of_awaiting(session)
        await engine.dispose()

    return opened


def _awaiting_connection(driver: str) -> Callable[[str], contextlib.AbstractAsyncContextManager[Held]]:
    @contextlib.asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Held]:
        engine = create_async_engine(_sqlalchemy(url, driver))
        async with engine.connect() as conn:
            yield _of_awaiting(conn)
        await engine.dispose()

    return opened


def _of_awaiting(conn: Any) -> Held:
    async def say(words: str) -> Any:
        return await conn.execute(text(words))

    return Held(conn, say, conn.commit, conn.rollback, conn.begin_nested)


@contextlib.asynccontextmanager
async def django_connection(url: str) -> AsyncIterator[Held]:
    """Django's, inside atomic()."""
    conn = django_alias(url)
    block = transaction.atomic(using=conn.alias)
    block.__enter__()

    async def say(words: str) -> None:
        with conn.cursor() as cursor:
            cursor.execute(words)

    async def commit() -> None:
        block.__exit__(None, None, None)

    async def undo() -> None:
        transaction.set_rollback(True, using=conn.alias)
        block.__exit__(None, None, None)

    try:
        yield Held(conn, say, commit, undo, lambda: _entered(transaction.atomic(using=conn.alias)))
    finally:
        conn.close()


def django_alias(url: str) -> Any:
    """The connection that Django has for this database, under a name of its own."""
    if not settings.configured:
        settings.configure()
        django.setup()
    found = conninfo_to_dict(url)
    of_ours = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    named = {"ENGINE": "django.db.backends.postgresql", **{name: found.get(ours, "") for name, ours in of_ours.items()}}
    alias = f"d{crc32(url.encode())}"
    connections.settings[alias] = ConnectionHandler({"default": named}).settings["default"]
    return connections[alias]


EVERY = {
    "psycopg": psycopg_connection,
    "psycopg cursor": psycopg_cursor,
    "psycopg async": psycopg_awaiting,
    "psycopg async cursor": psycopg_awaiting_cursor,
    "asyncpg": asyncpg_connection,
    "asyncpg from a pool": asyncpg_lent,
    "sqlalchemy Session": sqlalchemy_session,
    "sqlalchemy scoped_session": sqlalchemy_scoped,
    "sqlalchemy Connection": sqlalchemy_connection,
    "sqlmodel Session": sqlmodel_session,
    "sqlalchemy AsyncSession on psycopg": _awaiting_session("psycopg"),
    "sqlalchemy AsyncSession on asyncpg": _awaiting_session("asyncpg"),
    "sqlalchemy AsyncConnection on psycopg": _awaiting_connection("psycopg"),
    "sqlalchemy AsyncConnection on asyncpg": _awaiting_connection("asyncpg"),
    "django": django_connection,
}
