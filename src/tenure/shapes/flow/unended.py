"""The body of a fenced step: however it leaves, its transaction must be the one that the step began."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from psycopg import AsyncConnection, Connection, Rollback

from ...model.outcome import RAISED
from ...postgres.entered import entered, entered_awaiting
from ...postgres.transactions import StillOpen
from .writing import ended, must_be_open


@contextmanager
def unended(conn: Connection[Any], still_open: StillOpen, mark: str) -> Iterator[None]:
    """Around the body: Permanent if it has ended the transaction, whether it returns or raises."""
    with _open(conn, still_open), entered(conn, mark, ended):
        yield


@asynccontextmanager
async def unended_awaiting(conn: AsyncConnection[Any], still_open: StillOpen, mark: str) -> AsyncIterator[None]:
    """The same, for `async with`."""
    with _open(conn, still_open):
        async with entered_awaiting(conn, mark, ended):
            yield


@contextmanager
def _open(conn: Any, still_open: StillOpen) -> Iterator[None]:
    try:
        yield
    except Rollback as quiet:  # it would end the transaction, and nothing would be raised
        raise ended() from quiet
    except RAISED:  # also what it met on a connection that it closed itself, which looks like a lost one
        must_be_open(conn, still_open)
        raise
    must_be_open(conn, still_open)
