"""The body of a transaction that `enter` began: if it raises in another one, it has ended that one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from psycopg import AsyncConnection, Connection, pq

from ..verbs.lifecycle import within
from ..verbs.statement import at_its_end
from .runner import run

RAISED = (Exception, SystemExit, BaseExceptionGroup)  # what counts as a failure of a body: it may be tried again


@contextmanager
def entered(conn: Connection[Any], ended: Callable[[], Exception]) -> Iterator[None]:
    """Around the body: `ended` is raised if it raises in a transaction that it began itself, as by COMMIT AND CHAIN."""
    try:
        yield
    except RAISED:
        if _can_be_asked(conn):
            run(conn, at_its_end(within(), ended))
        raise


@asynccontextmanager
async def entered_awaiting(conn: AsyncConnection[Any], ended: Callable[[], Exception]) -> AsyncIterator[None]:
    """The same, for `async with`."""
    try:
        yield
    except RAISED:
        if _can_be_asked(conn):
            await run(conn, at_its_end(within(), ended))
        raise


def _can_be_asked(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Not one that the server has aborted for an error: it answers nothing, and its mark is gone."""
    return conn.info.transaction_status == pq.TransactionStatus.INTRANS
