"""The body of a transaction that `enter` began: did it end that one?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from psycopg import AsyncConnection, Connection, pq
from psycopg.errors import InFailedSqlTransaction

from ..model.outcome import RAISED
from ..verbs.lifecycle import last_entered, within
from ..verbs.statement import at_its_end
from .runner import run

ANEW = b"ROLLBACK AND CHAIN"  # one that the server has aborted answers nothing; behind a pooler the session stays ours


@contextmanager
def entered(conn: Connection[Any], mark: str, ended: Callable[[], Exception]) -> Iterator[None]:
    """Around the body: `ended` is raised if it raises in a transaction that it began itself, as by COMMIT AND CHAIN.

    What it raises there may be an error of the server. Then it is asked whether the one with this mark was committed:
    one that was rolled back has left nothing, and may be tried again.
    """
    try:
        yield
        _require_sound(conn)
    except RAISED as error:
        if _is(conn, pq.TransactionStatus.INTRANS):
            run(conn, at_its_end(within(), ended))
        elif _is(conn, pq.TransactionStatus.INERROR):
            conn.execute(ANEW, prepare=False)
            if run(conn, last_entered()) == mark:
                raise ended() from error
        raise


@asynccontextmanager
async def entered_awaiting(
    conn: AsyncConnection[Any], mark: str, ended: Callable[[], Exception]
) -> AsyncIterator[None]:
    """The same, for `async with`."""
    try:
        yield
        _require_sound(conn)
    except RAISED as error:
        if _is(conn, pq.TransactionStatus.INTRANS):
            await run(conn, at_its_end(within(), ended))
        elif _is(conn, pq.TransactionStatus.INERROR):
            await conn.execute(ANEW, prepare=False)
            if await run(conn, last_entered()) == mark:
                raise ended() from error
        raise


def _require_sound(conn: Connection[Any] | AsyncConnection[Any]) -> None:
    """As the server says it of the next statement: the body has caught an error that had aborted its transaction."""
    if _is(conn, pq.TransactionStatus.INERROR):
        raise InFailedSqlTransaction("its transaction was aborted by an error that the body has caught")


def _is(conn: Connection[Any] | AsyncConnection[Any], status: pq.TransactionStatus) -> bool:
    return conn.info.transaction_status == status
