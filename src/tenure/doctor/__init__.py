"""Doctor: checks of everything a queue depends on; each takes bounded time, and none changes anything."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import psycopg

from .. import __version__, settings
from ..errors import BadSettings, SchemaMismatch
from ..postgres import migrate
from ..postgres.connection import QueueConnection, connect
from ..postgres.patience import Patience
from ..postgres.runner import run
from ..verbs import queues, search
from ..verbs.batches import lost_members
from ..verbs.endpoints import endpoint_states
from ..verbs.fleet import echo
from ..verbs.journal import journal_facts
from ..verbs.projections import projections
from ..verbs.questions import at_work, blocked_keys, queue_lags, workers
from ..verbs.roles import grants
from ..verbs.statement import Statement
from . import bottleneck, config, fleet, questions, server, shapes, standbys, tables
from .finding import Finding as Finding

T = TypeVar("T")
F = TypeVar("F", bound=Finding | None)
STATEMENT_SECONDS = 5.0
NOTE_SECONDS = 2.0
LOOKS = 20  # at what sessions of workers do
LOOK_SECONDS = 0.1


def examine(url: str, schema: str, environ: Mapping[str, str] | None = None, *, flag: str = "") -> Iterator[Finding]:
    """Every finding, as soon as it is known; raises if the database does not answer. `flag` gave the address."""
    yield config.lease(environ)
    if patience := _look("termination", lambda: config.termination(environ)):
        yield patience
    with connect(url, application_name="tenure doctor", patience=Patience(statement_seconds=STATEMENT_SECONDS)) as conn:
        yield from _server(conn, url, environ)
        version = _schema(conn, schema, flag)
        yield version
        if version.level != "fault":
            yield from _inside(conn, schema, environ)


def _server(conn: QueueConnection, url: str, environ: Mapping[str, str] | None) -> Iterator[Finding]:
    asked = time.time()
    facts = run(conn, questions.server_facts())
    here = (asked + time.time()) / 2
    yield server.versions(facts, __version__, psycopg.__version__, _libpq())
    yield server.clock(facts, here)
    yield server.primary(facts)
    yield server.durability(facts)
    yield from _standbys(conn, url)
    yield server.public(facts)
    inboxes = config.inboxes_at(url, environ)
    yield server.connections(facts, config.wanted_connections(environ, url), inboxes)
    yield _look("pooler", lambda: server.pooler(conn.pooled, settings.session_url(environ=environ) is not None))
    if not conn.pooled:
        yield _look("listen", lambda: server.notes(_round_trip(conn)))


def _standbys(conn: QueueConnection, url: str) -> Iterator[Finding]:
    follow, address = run(conn, questions.standbys()), standbys.address_of(url, pooled=conn.pooled)
    yield _look("standbys", lambda: standbys.synchronous(follow, address))
    yield _look("address", lambda: standbys.address(follow, address))


def _schema(conn: QueueConnection, schema: str, flag: str) -> Finding:
    """Whether the schema has the version that this package needs."""
    at = 0
    try:
        at = len(done := migrate.applied(conn, schema))
        migrate.judge(done, schema)
    except (SchemaMismatch, BadSettings) as refused:
        told = refused.at(flag) if isinstance(refused, SchemaMismatch) else refused
        return Finding("schema", "fault", at, str(told))
    return Finding("schema", "ok", at, f"{schema} is at migration {at}, as this package needs")


def _inside(conn: QueueConnection, schema: str, environ: Mapping[str, str] | None) -> Iterator[Finding]:
    """The checks that need a schema."""

    def ask(statement: Statement[T]) -> T:
        return run(conn, statement, schema)

    facts = run(conn, questions.server_facts())
    yield _look("roles", lambda: server.roles(ask(grants())))
    yield _look("indexes", lambda: tables.indexes_there(ask(questions.indexes()), tables.indexes_wanted()))
    yield _look("autovacuum", lambda: tables.autovacuum(facts, ask(questions.hot_table())))
    yield _look("bloat", lambda: tables.bloat(ask(questions.hot_table())))
    yield _look("horizon", lambda: tables.horizon(ask(questions.transactions()), facts.sees_all))
    yield _look("idle_in_transaction", lambda: tables.idle(ask(questions.transactions())))
    yield _look("archive", lambda: tables.archive(ask(questions.archive_days())))
    yield _look("housekeeping", lambda: _housekeeping(ask))
    yield _look("leases", lambda: fleet.leases(*ask(questions.overdue())))
    yield _look("paused", lambda: fleet.paused(ask(queues.queues())))
    yield _look("fleet", lambda: fleet.fleet(ask(workers())))
    yield _look("schedules", lambda: fleet.schedules(ask(workers())))
    yield _look("gap", lambda: standbys.gap(ask(workers()), environ))
    yield _look("served", lambda: _served(ask))
    yield _look("kinds", lambda: _kinds(ask))
    yield _look("encryption", lambda: fleet.encryption(ask(search.page(fleet.LEFT, n=1000, head=0)).rows))
    yield _look("keys", lambda: fleet.keys(ask(blocked_keys(fleet.KEYS_MAX))))
    yield _look("lag", lambda: fleet.lag(ask(search.overview()), _unserved(ask)))
    yield _look("batches", lambda: shapes.batches(ask(lost_members()), schema))
    yield _look("journal", lambda: shapes.journal(ask(journal_facts())))
    yield _look("projections", lambda: shapes.projections(ask(projections())))
    yield _look("webhooks", lambda: shapes.webhooks(ask(endpoint_states())))
    yield _look("bottleneck", lambda: _bottleneck(ask))


def _housekeeping(ask: Callable[[Statement[Any]], Any]) -> Finding:
    alive = sum(1 for worker in ask(workers()) if worker.status == "alive")
    return fleet.housekeeping(ask(questions.chores()), alive)


def _served(ask: Callable[[Statement[Any]], Any]) -> Finding:
    return fleet.served(ask(queue_lags()), _unserved(ask))


def _unserved(ask: Callable[[Statement[Any]], Any]) -> dict[str, float]:
    return fleet.unserved(ask(queue_lags()), ask(queues.queues()), ask(workers()))


def _kinds(ask: Callable[[Statement[Any]], Any]) -> Finding:
    turned_away = ask(search.page(fleet.TURNED_AWAY, n=1000, head=0)).rows
    return fleet.kinds(turned_away, ask(workers()), _unserved(ask))


def _bottleneck(ask: Callable[[Statement[Any]], Any]) -> Finding:
    """What is full; it takes two seconds, if rows wait while workers live."""
    due, alive = ask(search.overview()).oldest_runnable_seconds or 0.0, fleet.alive(ask(workers()))
    samples = []
    for _ in range(LOOKS if alive and due >= bottleneck.DUE_SECONDS_MIN else 0):
        samples.append(ask(at_work([worker.id for worker in alive])))
        time.sleep(LOOK_SECONDS)
    return bottleneck.bottleneck(bottleneck.measured(due, alive, samples))


def _look(check: str, look: Callable[[], F]) -> F | Finding:
    """Run one check. If it takes too long, if this user may not run it, or if its settings are bad, that is a finding.

    The next check runs all the same.
    """
    try:
        return look()
    except BadSettings as refused:
        return Finding(check, "fault", None, str(refused), "correct it, then run doctor again")
    except psycopg.errors.QueryCanceled:
        return Finding(
            check, "warn", None, f"no answer within {STATEMENT_SECONDS:g} s", "run doctor again when there is less load"
        )
    except psycopg.errors.InsufficientPrivilege as refused:
        step = "connect as a member of tenure_readonly, or as the schema's owner"
        return Finding(check, "warn", None, str(refused).splitlines()[0], step)


def _round_trip(conn: QueueConnection) -> float | None:
    """Seconds until a note to ourselves arrives; None if it does not."""
    channel = f"tenure_doctor_{secrets.token_hex(8)}"
    conn.execute(f'LISTEN "{channel}"'.encode())
    try:
        sent = time.monotonic()
        run(conn, echo(channel, "here"))
        for _ in conn.notifies(timeout=NOTE_SECONDS, stop_after=1):
            return time.monotonic() - sent
        return None
    finally:
        conn.execute(b"UNLISTEN *")


def _libpq() -> str:
    version = psycopg.pq.version()
    return f"{version // 10_000}.{version % 10_000}"
