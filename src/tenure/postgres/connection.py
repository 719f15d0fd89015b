"""Tenure's own connections: fixed names and plans, a silent server is given up in seconds, a pooler is detected."""

from __future__ import annotations

import re
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial
from importlib.resources import files
from time import monotonic
from typing import Any

from psycopg import AsyncConnection, Connection, Error, OperationalError, pq
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .. import sql
from ..settings import DEFAULT_SCHEMA
from .doubt import Doubts
from .moved_nodes import present
from .own_cursor import read_any_time
from .patience import PATIENT, Patience

# For connections that only run verbs: plans must not change with the statistics of a table that is empty one minute and
# has a million rows the next.
PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "default_transaction_isolation": "read\\ committed",
}

# Nobody's functions but the server's are found. One that somebody else has made in `public` would run as us where its
# arguments fit better than those of the server's own. Poolers do not pass it on: `tenure doctor` says if it matters.
NAMES = {"search_path": "pg_catalog,pg_temp"}

POOLED_SECONDS_MAX = 600.0
CONNECT_SECONDS = 2  # to each host of one of several inboxes
CANCEL_SECONDS = 2.0

# PgBouncer before and after 1.20, and Amazon's RDS Proxy.
_NO_SETTINGS = re.compile(r"startup parameter|command-line options")


# How long a statement of a connection that has no patience of its own may take to be answered; None: any time.
ANSWER_SECONDS: ContextVar[float | None] = ContextVar("tenure_answer_seconds", default=None)


class NoAnswer(OperationalError):
    """The server was given up: nobody knows whether it has done what it was told."""


class QueueConnection(Connection[tuple[Any, ...]]):
    """A blocking connection that does not wait for ever.

    If `pooled`, each statement may run in another session: LISTEN, advisory locks, SET and prepared statements do not
    work on it.
    """

    pooled = False
    schema = DEFAULT_SCHEMA  # of its verbs and questions, unless `run` is given another
    answer_seconds: float | None = None
    doubts: Doubts | None = None
    cancels = False  # what is given up is cancelled: nothing is left to wait, and what it has committed is seen

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """As psycopg's, until the server has been silent for too long."""
        try:
            return super().wait(_or_give_up(gen, self), *args, **kwargs)
        except KeyboardInterrupt:
            # It came while our own steps ran, and ended them: psycopg could not wait for the end of what it cancelled.
            if _is_asked(self):
                with suppress(Error):
                    super().wait(_or_give_up(gen, self), *args, **kwargs)
            raise


class AsyncQueueConnection(AsyncConnection[tuple[Any, ...]]):
    """The same, awaiting."""

    pooled = False
    schema = DEFAULT_SCHEMA
    answer_seconds: float | None = None
    doubts: Doubts | None = None

    async def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """As psycopg's, until the server has been silent for too long."""
        return await super().wait(_or_give_up(gen, self), *args, **kwargs)


def connect(
    url: str,
    *,
    application_name: str = "tenure",
    patience: Patience = PATIENT,
    schema: str = DEFAULT_SCHEMA,
    writes: bool = False,
) -> QueueConnection:
    """A connection for running verbs: autocommit, and plans fixed unless a pooler forbids it.

    If it `writes`, a server that refuses every write (a standby, an old primary) is not connected to.
    """
    url = _of_writable(present(url)) if writes else present(url)
    try:
        conn = QueueConnection.connect(conninfo(url, application_name, patience), autocommit=True)
    except OperationalError as refusal:
        plain = _without_settings(url, application_name, patience, refusal)
        conn = QueueConnection.connect(plain, autocommit=True)
    try:
        conn.answer_seconds = patience.silence_seconds
        find_pooler(conn)
        conn.answer_seconds, conn.schema = patience.answer_seconds or ANSWER_SECONDS.get(), schema
        conn.cancels = ANSWER_SECONDS.get() is not None
        conn.doubts = doubts(url, patience)
        read_any_time(conn)  # by plain SQL too
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
    url = present(url)
    try:
        conn = await AsyncQueueConnection.connect(conninfo(url, application_name, patience), autocommit=True)
    except OperationalError as refusal:
        plain = _without_settings(url, application_name, patience, refusal)
        conn = await AsyncQueueConnection.connect(plain, autocommit=True)
    try:
        conn.answer_seconds = patience.silence_seconds
        await find_pooler_async(conn)
        conn.answer_seconds, conn.schema = patience.answer_seconds, schema
        conn.doubts = doubts(url, patience)
        read_any_time(conn)  # by plain SQL too
    except BaseException:
        await conn.close()
        raise
    return conn


def conninfo(url: str, application_name: str, patience: Patience = PATIENT, *, settings: bool = True) -> str:
    """The user's address with our settings added; what the user set stays.

    Except the encoding: we send UTF-8, whatever PGCLIENTENCODING or the address say.
    """
    given = conninfo_to_dict(url)
    words: dict[str, Any] = {"application_name": application_name, **patience.of_client(), **given}
    words["client_encoding"] = "UTF8"  # sent before the options, and poolers accept it
    if settings:
        ours = " ".join(f"-c {name}={value}" for name, value in {**NAMES, **PLANS, **patience.of_server()}.items())
        words["options"] = f"{ours} {given.get('options') or ''}".strip()  # the later of two settings wins
    return make_conninfo(**words)


def _of_writable(url: str) -> str:
    """The address of a server that takes writes; what the user has asked for stays."""
    words: dict[str, Any] = {"target_session_attrs": "read-write", **conninfo_to_dict(url)}
    return make_conninfo(**words)


def soon_given_up(url: str) -> str:
    """The address of one of several inboxes: a server that does not let us in within seconds is away."""
    words: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **conninfo_to_dict(url)}
    return make_conninfo(**words)


def _without_settings(url: str, application_name: str, patience: Patience, refusal: OperationalError) -> str:
    """The address without settings, if the settings were refused; any other refusal is raised."""
    if not _NO_SETTINGS.search(str(refusal)):
        raise refusal
    return conninfo(url, application_name, patience, settings=False)


def find_pooler(conn: QueueConnection) -> None:
    """Find out whether a new connection goes through a pooler; if so, statements are never prepared on it.

    Psycopg numbers its prepared statements from zero in every client. If a pooler lends one session to two services,
    the same name means two statements: one service would run the other's.
    """
    _note_pooler(conn, conn.execute(_text("backend"), prepare=False).fetchall())


async def find_pooler_async(conn: AsyncQueueConnection) -> None:
    """The same, awaiting."""
    _note_pooler(conn, await (await conn.execute(_text("backend"), prepare=False)).fetchall())


@cache
def _text(name: str) -> bytes:
    return (files(sql) / f"{name}.sql").read_bytes()


def _note_pooler(conn: QueueConnection | AsyncQueueConnection, answered: list[tuple[Any, ...]]) -> None:
    """If another session answers than the one that accepted us, there is a pooler with perhaps many sessions."""
    conn.pooled = answered != [(conn.info.backend_pid,)]
    if conn.pooled:
        conn.prepare_threshold = None


def doubts(url: str, patience: Patience) -> Doubts | None:
    """Whom to ask about a session that has been silent for too long, and when."""
    return None if patience.doubt_seconds is None else Doubts(partial(_ask, url), patience.doubt_seconds)


def _ask(url: str, pid: int) -> list[tuple[str | None, str | None]]:
    brief = Patience(silence_seconds=3, statement_seconds=2)
    with connect(url, application_name="tenure doubt", patience=brief) as conn:
        return [(state, event) for state, event in conn.execute(_text("session"), [pid], prepare=False).fetchall()]


def _or_give_up(gen: PQGen[RV], conn: QueueConnection | AsyncQueueConnection) -> PQGen[RV]:
    """The same steps, until there is a reason to give the server up."""
    return gen if conn.answer_seconds is None and conn.doubts is None else _until_given_up(gen, conn)


def _until_given_up(gen: PQGen[RV], conn: QueueConnection | AsyncQueueConnection) -> PQGen[RV]:
    """The same steps; close the connection if an answer is due and none will come."""
    heard, doubt = monotonic(), None
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                heard, doubt = monotonic(), None
            elif _is_asked(conn):
                silent = monotonic() - heard
                if doubt is None and conn.doubts is not None and not conn.pooled:
                    doubt = conn.doubts.about(conn.info.backend_pid)
                if why := _overdue(conn, silent) or (doubt and doubt.verdict(silent)):
                    _leave(conn)
                    raise NoAnswer(f"the server has not answered for {why}")
            wanted = gen.send(ready)
    except StopIteration as end:
        answer: RV = end.value
        return answer


def _leave(conn: QueueConnection | AsyncQueueConnection) -> None:
    """Close it. One that cancels ends its waits first: for a lock, or for a standby at a commit, which then counts."""
    if isinstance(conn, QueueConnection) and conn.cancels:
        with suppress(Error):
            conn.cancel_safe(timeout=CANCEL_SECONDS)
    conn.pgconn.finish()


def _overdue(conn: QueueConnection | AsyncQueueConnection, silent_seconds: float) -> str:
    """For how long it has been silent, if that is a reason to give up without asking."""
    most = POOLED_SECONDS_MAX if conn.answer_seconds is None and conn.pooled else conn.answer_seconds
    return f"{most:g} s" if most is not None and silent_seconds > most else ""


def _is_asked(conn: QueueConnection | AsyncQueueConnection) -> bool:
    """True while a statement waits for its answer; a connection that only listens waits for none."""
    return conn.pgconn.transaction_status == pq.TransactionStatus.ACTIVE
