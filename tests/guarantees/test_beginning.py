"""How a worker begins and ends at several inboxes: it looks at all of them before it writes to any."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from crew import eventually
from guarantees.test_schedule_homes import AT_B, plan_in, planned, scheduled
from pairs import Pair, at, both_ready, ready, serving
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import TRY_LATER, BadSettings, SchemaMismatch
from tenure.events import DatabaseUnreachable, ExecutionStarted, WorkerExit, WorkerStarted
from tenure.postgres import migrate
from tenure.verbs.statement import Statement
from tenure.worker.claim_rule import SentClaim
from tenure.worker.config import Terms
from tenure.worker.homes import home_of
from tenure.worker.post import LOOK_SECONDS
from tenure.worker.worker import Worker

pytestmark = pytest.mark.one_server

# A name beside which one of those that are at home in `b` would come back to `a`.
COPY = next(n for n in "cdefgh" if any(home_of(f"schedule:{of}", f"a{n}") == "a" for of in AT_B))


@contextlib.contextmanager
def another(pair: Pair, name: str) -> Iterator[str]:
    """A database without a schema, beside those of the pair."""
    pair.a.conn.execute(f"CREATE DATABASE {name}".encode())
    try:
        yield at(pair.a.url, name)
    finally:
        pair.a.conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextlib.contextmanager
def reader_of(pair: Pair) -> Iterator[str]:
    """The address of `b` as a role that may only read."""
    pair.b.sql("CREATE ROLE looks_only LOGIN")
    try:
        for right in ("USAGE ON SCHEMA tenure", "SELECT ON ALL TABLES IN SCHEMA tenure"):
            pair.b.sql(f"GRANT {right} TO looks_only")
        pair.b.sql("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure TO looks_only")
        yield psycopg.conninfo.make_conninfo(pair.b.url, user="looks_only")
    finally:
        pair.b.sql("DROP OWNED BY looks_only")
        pair.b.sql("DROP ROLE looks_only")


def refused(shards: dict[str, str], error: type[Exception]) -> list[str]:
    """The notes of the refusal: which inbox it blames."""
    with pytest.raises(error) as refusal:
        Worker(scheduled(), Terms(shards=shards)).run()
    return list(refusal.value.__notes__)


def resting(pair: Pair) -> list[tuple[str, bool]]:
    """What `a` has, and whether it rests there."""
    return sorted((each.name, each.rests) for each in planned(pair.a).values())


def test_a_worker_that_is_refused_two_addresses_has_changed_no_schedule(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    plan_in(pair, "a")  # some of them go to `b`
    before = resting(pair)
    with FaultProxy(pair.a.url) as proxy:
        assert refused({"a": pair.a.url, COPY: proxy.url}, BadSettings) == [f"inbox {COPY}"]
    assert resting(pair) == before
    assert pair.a.count("workers") == 0


def test_a_worker_that_is_refused_for_want_of_rights_names_that_inbox_and_has_changed_nothing(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    with reader_of(pair) as url:
        assert refused({"a": pair.a.url, "b": url}, InsufficientPrivilege) == ["inbox b"]
    assert not any(rests for _, rests in resting(pair))


@pytest.mark.parametrize("first", [True, False])
def test_a_missing_schema_is_blamed_on_the_inbox_that_lacks_it(pair: Pair, first: bool) -> None:
    with another(pair, "lacks_it") as url:
        shards = {"n": url, "a": pair.a.url} if first else {"a": pair.a.url, "n": url}
        assert refused(shards, SchemaMismatch) == ["inbox n"]
    assert planned(pair.a) == {}


def test_an_old_schema_is_blamed_on_the_inbox_that_has_it(pair: Pair) -> None:
    with another(pair, "is_old") as url:
        with psycopg.connect(url, autocommit=True) as conn:
            migrate.apply(conn, "tenure")
            conn.execute("DELETE FROM tenure.migrations WHERE version = (SELECT max(version) FROM tenure.migrations)")
        assert refused({"a": pair.a.url, "n": url}, SchemaMismatch) == ["inbox n"]


def test_one_that_comes_back_without_rights_does_not_end_the_others(pair: Pair) -> None:
    with reader_of(pair) as url, FaultProxy(url) as proxy:
        proxy.refuse()
        with serving(pair, scheduled(), urls={"b": proxy.url}) as hired:
            proxy.heal()
            eventually(lambda: any("permission denied" in event.error for event in hired.of(DatabaseUnreachable)))
            assert ready(hired.worker.posts[0])
            assert hired.stop() == 0


def test_a_silent_inbox_keeps_the_others_waiting_no_longer_than_a_look(pair: Pair) -> None:
    with FaultProxy(pair.b.url) as proxy:
        proxy.blackhole()
        begun = time.monotonic()
        with serving(pair, scheduled(), urls={"b": proxy.url}) as hired:
            took = time.monotonic() - begun
            assert [event.worker[-2:] for event in hired.of(WorkerStarted)] == ["@a"]
            assert not set(planned(pair.a)) & set(AT_B)
            proxy.heal()
            eventually(lambda: set(planned(pair.b)) == set(AT_B))
            both_ready(hired)
            assert [event.worker[-2:] for event in hired.of(WorkerStarted)] == ["@a", "@b"]
    assert took < 2 * LOOK_SECONDS


@pytest.mark.parametrize("statement", ["SELECT FROM schedules FOR UPDATE", "SELECT FROM chores FOR UPDATE"])
def test_a_lock_in_one_inbox_keeps_the_others_waiting_no_longer_than_a_look(pair: Pair, statement: str) -> None:
    """Nor does the worker end for it: what is locked now is served later."""
    with serving(pair, scheduled()) as hired:
        both_ready(hired)
        assert hired.stop() == 0
    with psycopg.connect(pair.b.url, options="-c search_path=tenure") as neighbour:
        neighbour.execute(statement.encode())
        with serving(pair, scheduled()) as hired:
            eventually(lambda: ready(hired.worker.posts[0]))
            assert not hired.worker.posts[1].begun
            neighbour.rollback()
            both_ready(hired)
            assert hired.stop() == 0


def test_an_idle_worker_does_not_drain_for_an_inbox_that_is_away(pair: Pair) -> None:
    away = pair.b.url.replace("/posts_", "/nowhere_")
    with serving(pair, scheduled(), urls={"b": away}, drain_seconds=60) as hired:
        asked = time.monotonic()
        assert hired.stop() == 0
        assert time.monotonic() - asked < 10


def test_an_idle_worker_does_not_drain_for_an_inbox_that_has_gone_silent(pair: Pair) -> None:
    with FaultProxy(pair.b.url) as proxy, serving(pair, scheduled(), urls={"b": proxy.url}, drain_seconds=60) as hired:
        both_ready(hired)
        proxy.blackhole()
        asked = time.monotonic()
        assert hired.stop() == 0
        assert time.monotonic() - asked < 15


def test_a_claim_without_a_reply_may_hold_rows_and_is_drained_for(pair: Pair) -> None:
    away = pair.b.url.replace("/posts_", "/nowhere_")
    with serving(pair, scheduled(), urls={"b": away}) as hired:
        post = hired.worker.posts[1]
        post.claimer.drain()
        assert post.idle
        post.claimer.claims.send(SentClaim("unordered", 1, 1, 0.0, Statement("ping", {}, lambda _: [])))
        assert not post.idle


def test_the_end_names_the_inbox_that_has_rows_left(pair: Pair) -> None:
    inbox = scheduled()

    @inbox.handler("sleeps")
    def sleeps() -> None:
        time.sleep(1)

    with FaultProxy(pair.b.url) as proxy, serving(pair, inbox, urls={"b": proxy.url}, drain_seconds=0.3) as hired:
        both_ready(hired)
        pair.b.enqueue("sleeps")
        hired.saw(ExecutionStarted)
        proxy.blackhole()
        assert hired.stop() == TRY_LATER
    ends = {event.worker[-2:]: event.reason for event in hired.of(WorkerExit)}
    assert ends == {"@a": "drained", "@b": "1 rows left behind"}
