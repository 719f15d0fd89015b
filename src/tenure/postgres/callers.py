"""The connection that a caller holds, of whatever library: recognised by the name of its class, nothing is imported."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..errors import NoConnection
from ..verbs.statement import Rows


class Executes(Protocol):
    """Most connections, sessions and cursors."""

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run a statement."""


class HasCursors(Protocol):
    """Django's connection."""

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """Something that executes."""


class Lends(Protocol):
    """A pool of connections."""

    def getconn(self, *args: Any, **kwargs: Any) -> Any:
        """One of them."""


class ExecutesAwaiting(Protocol):
    """The same, to be awaited."""

    def execute(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Run a statement."""


class LendsAwaiting(Protocol):
    """The same, to be awaited."""

    def getconn(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """One of them."""


Blocking = Executes | HasCursors | Lends
Awaiting = ExecutesAwaiting | LendsAwaiting
Style = Literal["pyformat", "dollar"]
KNOWN_ONES = (
    "pass the one of your transaction: a psycopg or asyncpg connection, an SQLAlchemy session or connection, "
    "or django.db.connection"
)


@dataclass(frozen=True, slots=True)
class Caller:
    """How to run a text with parameters on somebody's connection, in the transaction that is open there."""

    style: Style
    fetch: Callable[[str, Any], Rows] | None = None
    fetch_awaiting: Callable[[str, Any], Awaitable[Rows]] | None = None


def caller_of(conn: Any) -> Caller:
    """The way to run something on this; NoConnection, in one sentence, if it is nothing of the kind."""
    for place in _places(conn):
        if place in _WAYS:
            return _WAYS[place](conn)
    raise NoConnection(_refusal(conn))


def library_of(conn: Any) -> str:
    """sqlalchemy, asyncpg or django; NoConnection if it is a pool, or nothing of the kind."""
    if is_pool(conn) or "asyncpg.Pool" in _places(conn):
        raise NoConnection("a pool lends connections: borrow one, and pass that")
    for place in _places(conn):
        if place in _WAYS:
            return place.partition(".")[0]
    raise NoConnection(_refusal(conn))


def awaits(conn: Any) -> bool:
    """True if what is run on it must be awaited."""
    return any(place in _AWAITED for place in _places(conn))


def is_pool(conn: Any) -> bool:
    """True for a pool of psycopg: one of its connections is lent for a transaction of its own."""
    return any(place in ("psycopg_pool.ConnectionPool", "psycopg_pool.AsyncConnectionPool") for place in _places(conn))


def _places(thing: Any) -> list[str]:
    return [f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(thing).__mro__]


# -- SQLAlchemy: always by its own connection, which begins the transaction of asyncpg with its first own statement


def _of_session(session: Any) -> Caller:
    return _of_connection(session.connection())


def _of_connection(conn: Any) -> Caller:
    style = _style(conn.dialect)

    def fetch(text: str, params: Any) -> Rows:
        rows: Rows = conn.exec_driver_sql(text, params).all()
        return rows

    return Caller(style, fetch)


def _of_async_session(session: Any) -> Caller:
    async def fetch(text: str, params: Any) -> Rows:
        return await _fetch_awaiting(await session.connection(), text, params)

    return Caller(_style(session.get_bind().dialect), fetch_awaiting=fetch)


def _of_async_connection(conn: Any) -> Caller:
    async def fetch(text: str, params: Any) -> Rows:
        return await _fetch_awaiting(conn, text, params)

    return Caller(_style(conn.dialect), fetch_awaiting=fetch)


async def _fetch_awaiting(conn: Any, text: str, params: Any) -> Rows:
    rows: Rows = (await conn.exec_driver_sql(text, params)).all()
    return rows


def _style(dialect: Any) -> Style:
    if dialect.name != "postgresql" or dialect.driver not in ("psycopg", "psycopg_async", "asyncpg"):
        raise NoConnection(
            f"SQLAlchemy is connected by {dialect.name}+{dialect.driver}: Tenure takes part in transactions of "
            "postgresql+psycopg and postgresql+asyncpg"
        )
    return "dollar" if dialect.driver == "asyncpg" else "pyformat"


# -- asyncpg and Django


def _of_asyncpg(conn: Any) -> Caller:
    async def fetch(text: str, params: Any) -> Rows:
        return [tuple(row) for row in await conn.fetch(text, *params)]

    return Caller("dollar", fetch_awaiting=fetch)


def _of_django(conn: Any) -> Caller:
    if conn.vendor != "postgresql":
        raise NoConnection(f"Django's connection {conn.alias!r} leads to {conn.vendor}: {KNOWN_ONES}")

    def fetch(text: str, params: Any) -> Rows:
        with conn.cursor() as cursor:
            cursor.execute(text, params)
            rows: Rows = cursor.fetchall()
            return rows

    return Caller("pyformat", fetch)


_WAYS: dict[str, Callable[[Any], Caller]] = {
    "sqlalchemy.Session": _of_session,
    "sqlalchemy.scoped_session": _of_session,
    "sqlalchemy.Connection": _of_connection,
    "sqlalchemy.AsyncSession": _of_async_session,
    "sqlalchemy.async_scoped_session": _of_async_session,
    "sqlalchemy.AsyncConnection": _of_async_connection,
    "asyncpg.Connection": _of_asyncpg,
    "asyncpg.PoolConnectionProxy": _of_asyncpg,
    "asyncpg.Pool": _of_asyncpg,
    "django.BaseDatabaseWrapper": _of_django,
    "django.ConnectionProxy": _of_django,
}
_AWAITED = frozenset(
    {
        "psycopg.AsyncConnection",
        "psycopg.AsyncCursor",
        "psycopg_pool.AsyncConnectionPool",
        *(place for place in _WAYS if "sync_" in place.lower() or "Async" in place or place.startswith("asyncpg.")),
    }
)
_HINTS = {
    "sqlalchemy.Engine": "an Engine has no transaction of yours: pass a Session, or conn of "
    "`with engine.begin() as conn:`",
    "sqlalchemy.AsyncEngine": "an AsyncEngine has no transaction of yours: pass an AsyncSession, or conn of "
    "`async with engine.begin() as conn:`",
    "sqlalchemy.sessionmaker": "a sessionmaker makes sessions: pass the one you got by calling it",
    "sqlalchemy.async_sessionmaker": "an async_sessionmaker makes sessions: pass the one you got by calling it",
    "django.ConnectionHandler": "django.db.connections has several: pass one, e.g. connections['default']",
    "django.Atomic": "atomic() is the block around a transaction: pass django.db.connection inside it",
}


def _refusal(conn: Any) -> str:
    """Why this is no connection; an address is never repeated, it may have a password."""
    if conn is None:
        return f"there is no connection, it is None, perhaps because it is not open yet: {KNOWN_ONES}"
    if isinstance(conn, str):
        return f"a text is no connection: open it first, e.g. psycopg.connect(...), and {KNOWN_ONES}"
    if inspect.iscoroutine(conn):
        return f"this is a coroutine, await it first: {KNOWN_ONES}"
    hint = next((_HINTS[place] for place in _places(conn) if place in _HINTS), None)
    kind = conn if isinstance(conn, type) else type(conn)
    return hint or f"{kind.__module__}.{kind.__qualname__} is no connection that Tenure knows: {KNOWN_ONES}"
