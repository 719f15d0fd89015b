"""Run a Statement on the connection of another library: SQLAlchemy, asyncpg, Django; see callers.py."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from .. import sql
from ..errors import ServerBehind
from ..verbs.statement import Statement, text_array
from .callers import Caller, caller_of

T = TypeVar("T")


def run(conn: Any, statement: Statement[T], schema: str) -> T | Awaitable[T]:
    """Run it in the transaction that is open there; awaitable if the connection is."""
    caller = caller_of(conn)
    return _blocking(caller, statement, schema) if caller.fetch else _awaiting(caller, statement, schema)


def _blocking(caller: Caller, statement: Statement[T], schema: str) -> T:
    assert caller.fetch
    with _translated():
        rows = caller.fetch(*_sent(caller, statement, schema))
    answer = statement.read(rows)
    return _blocking(caller, answer, schema) if isinstance(answer, Statement) else answer


async def _awaiting(caller: Caller, statement: Statement[T], schema: str) -> T:
    assert caller.fetch_awaiting
    with _translated():
        rows = await caller.fetch_awaiting(*_sent(caller, statement, schema))
    answer = statement.read(rows)
    return await _awaiting(caller, answer, schema) if isinstance(answer, Statement) else answer


def _sent(caller: Caller, statement: Statement[Any], schema: str) -> tuple[str, Any]:
    dollar = caller.style == "dollar"
    text, names = sql.portable(statement.name, schema, dollar=dollar)
    values = {}
    for name in names:
        plain = name.removesuffix("::text")
        value = statement.params[plain]
        values[name] = value if plain is name else _as_text(value)
    return text, tuple(values.values()) if dollar else values


def _as_text(value: Any) -> str | None:
    """As Postgres reads it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return text_array([_as_text(each) for each in value])
    return str(value)


@contextmanager
def _translated() -> Iterator[None]:
    """Our one own SQLSTATE becomes its exception; every other error is as the library raises it."""
    try:
        yield
    except Exception as error:
        for each in (error, getattr(error, "orig", None), error.__cause__):
            if getattr(each, "sqlstate", None) == ServerBehind.sqlstate:
                raise ServerBehind(str(each)) from error
        raise
