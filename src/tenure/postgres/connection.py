"""Connections of our own: plans pinned, a silent peer given up within seconds, a pooler in between found out."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from time import monotonic
from typing import Any

from psycopg import AsyncConnection, Connection, OperationalError, pq
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .. import sql
from ..settings import DEFAULT_SCHEMA

# Set on connections that do nothing but run verbs: their plans must not change with the statistics of a table that is
# empty one minute and holds a million rows the next.
PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "default_transaction_isolation": "read\\ committed",
}

# PgBouncer before and after 1.20, and Amazon's RDS Proxy.
_NO_SETTINGS = re.compile(r"startup parameter|command-line options")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a connection waits before it gives up, and for what; None leaves it to the server's own settings.

    A peer that does not even acknowledge packets is given up after `silence_seconds`, by us and by the server. A peer
    that acknowledges but does not answer, such as a stopped server or a stuck pooler, is given up only where
    `statement_seconds` says when an answer is due: that long after it, again `silence_seconds`.
    """

    silence_seconds: float = 10.0
    statement_seconds: float | None = None
    lock_seconds: float | None = None
    idle_in_transaction_seconds: float | None = 60.0

    @property
    def answer_seconds(self) -> float | None:
        """How long a statement may go without a byte from the server."""
        return None if self.statement_seconds is None else self.statement_seconds + self.silence_seconds

    def of_client(self) -> dict[str, int]:
        """The words of a conninfo with which we notice that the server is gone."""
        idle, interval, count = self._keepalive()
        return {
            "connect_timeout": max(2, math.ceil(self.silence_seconds)),  # libpq knows no less
            "keepalives_idle": idle,
            "keepalives_interval": interval,
            "keepalives_count": count,
            "tcp_user_timeout": math.ceil(self.silence_seconds * 1000),
        }

    def of_server(self) -> dict[str, int]:
        """The settings with which the server notices that we are gone, and does not wait for ever if we are not."""
        idle, interval, count = self._keepalive()
        timeouts = {
            "tcp_user_timeout": self.silence_seconds,
            "statement_timeout": self.statement_seconds,
            "lock_timeout": self.lock_seconds,
            "idle_in_transaction_session_timeout": self.idle_in_transaction_seconds,
        }
        return {
            "tcp_keepalives_idle": idle,
            "tcp_keepalives_interval": interval,
            "tcp_keepalives_count": count,
            **{name: math.ceil(seconds * 1000) for name, seconds in timeouts.items() if seconds is not None},
        }

    def _keepalive(self) -> tuple[int, int, int]:
        """Idle, interval and count that add up to the silence, three questions of it where whole seconds allow."""
        silence = math.ceil(self.silence_seconds)
        idle = max(1, silence * 2 // 5)
        interval = max(1, (silence - idle) // 3)
        return idle, interval, max(1, (silence - idle) // interval)


class QueueConnection(Connection[tuple[Any, ...]]):
    """A blocking connection that does not wait for ever.

    `pooled` says that statements may each run in another session: nothing that lives in a session (LISTEN, advisory
    locks, SET, prepared statements) can be had on it.
    """

    pooled = False
    schema = DEFAULT_SCHEMA  # where its verbs and questions look, unless they are told otherwise
    answer_seconds: float | None = None

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """As psycopg's, until the server has been silent for too long."""
        return super().wait(_or_give_up(gen, self), *args, **kwargs)


class AsyncQueueConnection(AsyncConnection[tuple[Any, ...]]):
    """The same, awaiting."""

    pooled = False
    schema = DEFAULT_SCHEMA
    answer_seconds: float | None = None

    async def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """As psycopg's, until the server has been silent for too long."""
        return await super().wait(_or_give_up(gen, self), *args, **kwargs)


PATIENT = Patience()


def connect(
    url: str,
    *,
    application_name: str = "tenure",
    patience: Patience = PATIENT,
    schema: str = DEFAULT_SCHEMA,
) -> QueueConnection:
    """A connection of our own for running verbs: autocommit, and plans pinned unless a pooler forbids it."""
    try:
        conn = QueueConnection.connect(conninfo(url, application_name, patience), autocommit=True)
    except OperationalError as refusal:
        plain = _without_settings(url, application_name, patience, refusal)
        conn = QueueConnection.connect(plain, autocommit=True)
    try:
        conn.answer_seconds = patience.silence_seconds
        find_pooler(conn)
        conn.answer_seconds, conn.schema = patience.answer_seconds, schema
    except BaseException:
        conn.close()
        raise
    return conn


async def connect_async(
    url: str,
    *,
    application_name: str = "tenure",
    patience: Patience = PATIENT,
    schema: str = DEFAULT_SCHEMA,
) -> AsyncQueueConnection:
    """The same, awaiting."""
    try:
        conn = await AsyncQueueConnection.connect(conninfo(url, application_name, patience), autocommit=True)
    except OperationalError as refusal:
        plain = _without_settings(url, application_name, patience, refusal)
        conn = await AsyncQueueConnection.connect(plain, autocommit=True)
    try:
        conn.answer_seconds = patience.silence_seconds
        await find_pooler_async(conn)
        conn.answer_seconds, conn.schema = patience.answer_seconds, schema
    except BaseException:
        await conn.close()
        raise
    return conn


def conninfo(url: str, application_name: str, patience: Patience = PATIENT, *, settings: bool = True) -> str:
    """The user's address with what we need on top, settings of the session among it; what the user set stays.

    But for the encoding: what we send is UTF-8, whatever PGCLIENTENCODING or the address say.
    """
    given = conninfo_to_dict(url)
    words: dict[str, Any] = {"application_name": application_name, **patience.of_client(), **given}
    words["client_encoding"] = "UTF8"  # it goes before the options, and poolers take it
    if settings:
        ours = " ".join(f"-c {name}={value}" for name, value in {**PLANS, **patience.of_server()}.items())
        words["options"] = f"{ours} {given.get('options') or ''}".strip()  # of two settings the later one holds
    return make_conninfo(**words)


def _without_settings(url: str, application_name: str, patience: Patience, refusal: OperationalError) -> str:
    """The address to try instead, if settings are what was refused; whatever else was goes to the caller."""
    if not _NO_SETTINGS.search(str(refusal)):
        raise refusal
    return conninfo(url, application_name, patience, settings=False)


def find_pooler(conn: QueueConnection) -> None:
    """Ask a new connection whether a pooler stands in between; if so, nothing is ever prepared on it.

    Psycopg numbers its prepared statements from zero in every client. In a session that a pooler lends to two services
    the same name would stand for two statements: one service would run the other's.
    """
    _note_pooler(conn, conn.execute(_backend(), prepare=False).fetchall())


async def find_pooler_async(conn: AsyncQueueConnection) -> None:
    """The same, awaiting."""
    _note_pooler(conn, await (await conn.execute(_backend(), prepare=False)).fetchall())


@cache
def _backend() -> bytes:
    return (files(sql) / "backend.sql").read_bytes()


def _note_pooler(conn: QueueConnection | AsyncQueueConnection, answered: list[tuple[Any, ...]]) -> None:
    """A session answered that is not the one we shook hands with: there is a pooler, and there may be many sessions."""
    conn.pooled = answered != [(conn.info.backend_pid,)]
    if conn.pooled:
        conn.prepare_threshold = None


def _or_give_up(gen: PQGen[RV], conn: QueueConnection | AsyncQueueConnection) -> PQGen[RV]:
    """The same steps, within `answer_seconds` of one another if that was asked for."""
    return gen if conn.answer_seconds is None else _within(conn.answer_seconds, gen, conn)


def _within(seconds: float, gen: PQGen[RV], conn: QueueConnection | AsyncQueueConnection) -> PQGen[RV]:
    """The same steps; but when an answer is due and none comes for so long, the connection is closed."""
    heard = monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                heard = monotonic()
            elif monotonic() - heard > seconds and _is_asked(conn):
                conn.pgconn.finish()
                raise OperationalError(f"the server has not answered for {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        answer: RV = end.value
        return answer


def _is_asked(conn: QueueConnection | AsyncQueueConnection) -> bool:
    """A connection that only listens owes no answer."""
    return conn.pgconn.transaction_status == pq.TransactionStatus.ACTIVE
