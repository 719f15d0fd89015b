"""A row that is due starts within the poll interval and a second, whatever lies in the tables or clocks did."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from crew import eventually, working
from patience import soon
from plans import Plans
from slices import slice_of
from tenure import postgres, verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.model.rows import Lane, NewRow
from tenure.verbs import fleet, questions
from tenure.verbs.statement import Statement
from tenure.worker.claim_rule import ClaimRule
from world import World

POLL_SECONDS = 1.0

_FOREIGN = """
INSERT INTO live (kind, payload, queue, available_at)
SELECT 'k', '{}', 'a' || k, clock_timestamp() + interval '1 hour' FROM generate_series(1, %s) AS k
"""
_CLOCK = """
CREATE SCHEMA {0};
CREATE TABLE {0}.shift AS SELECT interval '0' AS by;
CREATE FUNCTION {0}.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
  AS 'SELECT pg_catalog.statement_timestamp() + by FROM {0}.shift';
CREATE FUNCTION {0}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
  AS 'SELECT pg_catalog.clock_timestamp() + by FROM {0}.shift';
"""


def _inbox() -> tuple[Inbox, list[Any]]:
    inbox, ran = Inbox(), []

    @inbox.handler("work")
    async def work(job: Job) -> None:
        ran.append(job.id)

    return inbox, ran


@contextlib.contextmanager
def _crew(world: World, n: int, **terms: Any) -> Iterator[list[Any]]:
    """So many workers; what they ran, as it grows."""
    with contextlib.ExitStack() as stack:
        ran = []
        for _ in range(n):
            inbox, own = _inbox()
            ran.append(own)
            stack.enter_context(working(world, inbox, poll_seconds=POLL_SECONDS, **terms))
        yield ran


def _all(ran: list[Any], n: int) -> None:
    eventually(lambda: sum(map(len, ran)) >= n, seconds=soon(POLL_SECONDS + 10))


# -- queues of others


@pytest.mark.one_server
@pytest.mark.parametrize("workers", [1, 2])
def test_rows_start_beside_ten_thousand_queues_of_others(world: World, workers: int) -> None:
    world.sql(_FOREIGN, 10_050)
    world.run(verbs.enqueue_many([NewRow("work", delay_seconds=3) for _ in range(10)]))  # no note will come of them
    with _crew(world, workers) as ran:
        _all(ran, 10)


def test_the_board_is_of_the_asked_queues_complete_and_costs_nothing_for_others(world: World) -> None:
    for queue, priority in (("mail", 7), ("mail", -3), ("mail", 0), ("web", 100), ("web", -100), ("other", 1)):
        world.sql("INSERT INTO live (kind, payload, queue, priority) VALUES ('k', '{}', %s, %s)", queue, priority)
    plans = Plans(world)
    asked = questions.board(["mail", "web", "nobody"])
    lanes = [("web", 100), ("mail", 7), ("mail", 0), ("mail", -3), ("web", -100)]
    assert [(o.queue, o.priority) for o in world.run(asked)] == lanes
    plans.of(asked)
    before = plans.buffers
    world.sql(_FOREIGN, 10_050)
    assert [(o.queue, o.priority) for o in world.run(asked)] == lanes
    plans.of(asked)
    assert plans.buffers < 2 * before + 40


def test_a_board_that_knows_lanes_shows_them_empty_and_finds_those_between(world: World) -> None:
    world.enqueue(priority=5)
    world.enqueue(priority=3)
    known = {Lane("default", 9): 0.0, Lane("default", 4): 0.0, Lane("default", 3): 0.0, Lane("mail", 1): 0.0}
    board = world.run(questions.board(["default"], known))
    assert [(o.priority, o.due_seconds is not None) for o in board] == [(9, False), (5, True), (4, False), (3, True)]


def test_a_board_tells_its_clock_and_survives_any_time(world: World) -> None:
    world.enqueue()
    world.enqueue(queue="mail")
    world.sql("UPDATE live SET available_at = CASE queue WHEN 'mail' THEN 'infinity' ELSE '-infinity' END::timestamptz")
    mail, first = world.run(questions.board(["default", "mail"]))[::-1]
    assert (first.due_seconds, mail.due_seconds) == (float("-inf"), float("inf"))
    assert first.at_seconds is not None
    assert abs(first.at_seconds - world.run(questions.clock()).timestamp()) < 60
    assert len(world.claim("A", 5, buckets=None)) == 1


def test_a_paused_queue_is_not_on_the_board(world: World) -> None:
    world.enqueue()
    world.sql("INSERT INTO queues (queue, paused) VALUES ('default', true)")
    assert world.run(questions.board(["default"])) == []


# -- the database's clock


@contextlib.contextmanager
def _own_clock(world: World) -> Iterator[str]:
    """An address on which the database has a clock that the test can set."""
    name = f"{world.schema}_clock"
    world.sql(_CLOCK.format(name))
    options = conninfo_to_dict(world.url).get("options") or ""
    try:
        yield make_conninfo(world.url, options=f"{options} -c search_path={name},pg_catalog".strip())
    finally:
        world.sql(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.one_server
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seconds", [-300, 300])
def test_rows_start_after_the_clock_was_set(world: World, workers: int, seconds: int) -> None:
    with (
        _own_clock(world) as url,
        postgres.connect(url, schema=world.schema) as producer,
        _crew(world, workers, url=url) as ran,
    ):
        postgres.run(producer, verbs.enqueue_many([NewRow("work") for _ in range(20)]))
        _all(ran, 20)
        world.sql(f"UPDATE {world.schema}_clock.shift SET by = interval '{seconds} seconds'")
        postgres.run(producer, verbs.enqueue_many([NewRow("work") for _ in range(10)]))
        _all(ran, 30)


def test_a_floor_of_another_clock_is_none(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(3)]))
    ahead = world.run(questions.clock()).timestamp() + 300
    (lane,) = world.run(questions.board(["default"], {Lane(): ahead}))
    assert lane.due_seconds is not None
    assert len(world.claim("A", 1, buckets=None, floors=[ahead])) == 1
    assert len(world.claim("A", 2, floors=[ahead])) == 2


def test_chores_go_on_after_the_clock_was_set_back(world: World) -> None:
    with world.conn.transaction():
        every = world.run(fleet.take_turn("A")).due
        assert every
        assert world.run(fleet.take_turn("A")).due == frozenset(), (
            "taken after this transaction began, not by another clock"
        )
    world.sql("UPDATE chores SET ran_at = clock_timestamp() + interval '300 seconds'")
    assert world.run(fleet.take_turn("A")).due == every


# -- lanes and buckets


def test_a_claim_costs_what_is_due_and_not_what_waits(world: World) -> None:
    """One future row a queue."""
    world.sql(_FOREIGN, 300)
    world.enqueue(queue="a0")
    plans = Plans(world)
    lanes = [Lane(f"a{n}") for n in range(301)]
    plans.of(verbs.claim("A", 1, lanes=lanes))
    assert plans.buffers < 3_000


@pytest.mark.parametrize("share", [1, 2, 7, 504, 512, 1023])
def test_every_bucket_of_a_share_is_the_first_in_its_turn(share: int) -> None:
    rule = ClaimRule({"default": 1.0}, 90.0, buckets=tuple(range(share)))
    rule.look_again("default")
    claims = [rule.next("A", 1, 0.0, everywhere=set()) for _ in range(2 * share)]
    ordered = [claim.statement for claim in claims if claim and claim.statement.name == "claim_ordered"]
    firsts = [str(statement.params["buckets"]) for statement in ordered]
    assert {int(first.strip("{}").split(",")[0]) for first in firsts} == set(range(share))


@pytest.mark.one_server
def test_rows_of_other_workers_buckets_are_not_passed_over(world: World) -> None:
    """Each claim takes one row: that which has been due longest, whoever owns its bucket."""
    world.sql(
        "INSERT INTO live (kind, payload, partition_key, available_at)"
        " SELECT 'work', '{}', 'k' || k, statement_timestamp() - k * interval '1 ms' FROM generate_series(1, 50) k"
    )
    rule = ClaimRule({"default": 1.0}, 90.0, buckets=(0, 1, 2))
    rule.look_again("default")
    taken = []
    for n in range(100):  # every other one goes to ordered keys, of which there are none
        claim = rule.next("A", 1, float(n), everywhere=set())
        if claim is not None:
            rows = world.run(claim.statement)
            rule.answered(claim, rows)
            taken += [row.partition_key for row in rows]
    assert taken == [f"k{k}" for k in range(50, 0, -1)]


@pytest.mark.one_server
@pytest.mark.parametrize("workers", [1, 2])
def test_a_row_starts_beside_lanes_that_wait_and_a_hot_key(world: World, workers: int) -> None:
    world.sql(_FOREIGN, 300)
    queues = {"default": 1.0, **{f"a{n}": 1.0 for n in range(1, 301)}}
    with _crew(world, workers, queues=queues) as ran:
        world.run(verbs.enqueue_many([NewRow("work", queue=f"a{n}") for n in range(1, 11)]))
        world.run(verbs.enqueue_many([NewRow("work", key="hot") for _ in range(200)]))
        _all(ran, 210)


# -- after a burst, and under a held snapshot


def _burst(world: World, n: int) -> None:
    world.sql(
        "INSERT INTO live (kind, payload, partition_key) SELECT 'burst', '{}', 'order:' || k %% 5000"
        " FROM generate_series(1, %s) AS k", n
    )  # fmt: skip


def test_plans_made_before_a_burst_serve_after_it(world: World) -> None:
    """Planned at 400 rows that came together, a claim once took another index than with many: 769 ms against 3."""
    world.sql("ALTER TABLE live SET (autovacuum_enabled = false)")
    world.sql("INSERT INTO live (kind, payload) SELECT 'work', '{}' FROM generate_series(1, 400)")
    plans = Plans(world)
    usual = {}
    statements: dict[str, Callable[[], Statement[Any]]] = {
        "claim": lambda: verbs.claim("A", 10),
        "claim_in_crowd": lambda: verbs.claim("A", 10, in_crowd=True),
        "sweep": verbs.sweep,
        "sweep_pages": lambda: verbs.sweep_pages(0, 10),
        "board": lambda: questions.board(["default"]),
    }
    for name, make in statements.items():
        plans.of(make())
        usual[name] = plans.buffers
    world.sql("DELETE FROM live WHERE status = 'pending'")
    _burst(world, slice_of(60_000, 20_000))
    slower = {}
    for name, make in statements.items():
        plans.of(make())
        if plans.buffers > 2 * usual[name] + 2000:
            slower[name] = (usual[name], plans.buffers)
    assert not slower


@pytest.mark.one_server
@pytest.mark.parametrize("workers", [1, 2])
def test_chores_and_claims_go_on_after_a_burst(world: World, workers: int) -> None:
    world.sql("INSERT INTO live (kind, payload) SELECT 'work', '{}' FROM generate_series(1, 400)")
    with _crew(world, workers, slots=50) as ran:
        _all(ran, 400)
        world.sql(
            "INSERT INTO live (kind, payload, partition_key, available_at)"
            " SELECT 'burst', '{}', 'order:' || k %% 5000, clock_timestamp() + interval '1 hour'"
            " FROM generate_series(1, %s) AS k",
            slice_of(60_000, 20_000),
        )
        world.sql("UPDATE chores SET ran_at = '-infinity'")
        world.run(verbs.enqueue_many([NewRow("work") for _ in range(100)]))
        _all(ran, 500)
        chores = "SELECT count(*) FROM chores WHERE ran_at > '-infinity'"
        eventually(lambda: world.sql(chores) == world.sql("SELECT count(*) FROM chores"), seconds=soon(20))


def test_claims_and_board_stay_flat_under_a_held_snapshot(world: World) -> None:
    """With a floor that the last board told, what is gone costs nothing; a poll pays for it."""
    snapshot = psycopg.connect(world.url)
    snapshot.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    snapshot.execute("SELECT 1")
    try:
        world.sql(
            "INSERT INTO live (kind, payload) SELECT 'work', '{}' FROM generate_series(1, %s)", slice_of(50_000, 10_000)
        )
        world.sql("DELETE FROM live")
        world.sql(
            "INSERT INTO live (kind, payload, available_at)"
            " SELECT 'work', '{}', clock_timestamp() + interval '2 s' FROM generate_series(1, 50)"
        )
        world.sql("UPDATE live SET available_at = clock_timestamp()")
        plans, rule = Plans(world), ClaimRule({"default": 1.0}, 90.0)
        plans.of(questions.board(["default"], rule.lanes.known(deep=True)))
        poll = plans.buffers
        offers = world.run(questions.board(["default"], rule.lanes.known(deep=True)))
        rule.learn(offers)
        known = {lane: floor + 1.0 for lane, floor in rule.lanes.known().items()}  # the margin is for producers
        plans.of(questions.board(["default"], known))
        assert plans.buffers < 200 < poll
        floors = [known[Lane()]]
        plans.of(verbs.claim("A", 10, floors=floors))
        assert plans.buffers < 700
    finally:
        snapshot.close()
