"""Floors of ordered keys and of the sweep: what an old snapshot keeps alive is passed, and nothing is missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from guarantees.facts import user_connection
from plans import Plans
from tenure import verbs
from tenure.model.rows import NewRow, Offer
from tenure.verbs import questions
from tenure.worker.claim_rule import ORDERED, ClaimRule
from tenure.worker.key_memory import NO_FLOORS, Floors, KeyMemory
from world import World

DEAD = 3000


def _clock(world: World) -> float:
    return float(world.sql("SELECT date_part('epoch', clock_timestamp())")[0][0])


def _offer(
    at: float, *, last: int, first: int | None = None, due: float | None = None, open: int = 0, begun: int = 0
) -> Offer:
    return Offer("default", 0, True, False, None, at, due, first, last, open, begun)


# -- what a worker remembers


def test_a_number_is_a_floor_once_all_are_over_that_may_have_drawn_it() -> None:
    keys = KeyMemory()
    keys.board_was_read([_offer(100.0, last=7, open=50, begun=50)])
    assert keys.floors() == NO_FLOORS
    keys.board_was_read([_offer(200.0, last=8, open=50, begun=60)])  # one that has drawn 7, or less, may be open
    assert keys.floors() == NO_FLOORS
    keys.board_was_read([_offer(300.0, last=9, open=59, begun=61)])
    assert keys.floors() == NO_FLOORS
    keys.board_was_read([_offer(400.0, last=9, open=60, begun=62)])
    assert keys.floors() == Floors(8, 395.0)
    assert keys.known(poll=False) == (("default",), Floors(8, 395.0))
    keys.board_was_read([_offer(500.0, last=9, open=62, begun=62)])
    assert keys.floors() == Floors(10, 495.0)


def test_what_waits_is_never_below_a_floor() -> None:
    keys = KeyMemory()
    keys.board_was_read([_offer(100.0, last=7)])
    keys.board_was_read([_offer(110.0, last=9, first=3, due=50.0)])
    assert keys.floors() == Floors(3, 45.0)


def test_neither_a_poll_nor_what_follows_a_note_has_floors() -> None:
    keys = KeyMemory()
    keys.board_was_read([_offer(100.0, last=7)])
    keys.board_was_read([_offer(110.0, last=9)])
    assert keys.known(poll=True) == ((), NO_FLOORS)
    keys.note()
    assert keys.known(poll=False) == ((), NO_FLOORS)
    assert keys.floors() == NO_FLOORS
    keys.board_was_read([_offer(111.0, last=9)])
    assert keys.floors() != NO_FLOORS


@pytest.mark.parametrize(
    "now",
    [_offer(200.0, last=500, open=99, begun=99), _offer(200.0, last=2000, open=40, begun=40)],
    ids=["numbers", "transactions"],
)
def test_what_another_server_told_gives_no_floor(now: Offer) -> None:
    keys = KeyMemory()
    for _ in range(2):
        keys.board_was_read([_offer(100.0, last=1000, open=50, begun=50)])
    assert keys.floors() != NO_FLOORS
    keys.board_was_read([now])
    assert keys.floors() == NO_FLOORS


def test_the_claims_of_a_worker_have_its_floors_and_those_of_a_poll_have_none() -> None:
    rule = ClaimRule({"default": 1.0}, 90.0)
    for at in (100.0, 102.0):
        rule.learn([_offer(at, last=7)._replace(due_seconds=0.0)])
    asked = [rule.next("w", 1, 0.0, everywhere=everywhere) for everywhere in (set(), {ORDERED})]
    found = [(each.statement.params["from_arrival"], each.statement.params["from_due"]) for each in asked if each]
    assert found == [(8, 97.0), (0, float("-inf"))]


def test_a_row_of_a_long_transaction_goes_first_whatever_the_floor(world: World) -> None:
    """Its arrival has a low number and is committed late: the floor waits for it."""
    keys, long = KeyMemory(), user_connection(world)
    first = world.run(verbs.enqueue(NewRow("work", key="k", ordered=True)), long).id
    world.enqueue("work", key="k", ordered=True)
    for _ in range(5):
        world.enqueue("work", key="other", ordered=True)
        offers = world.run(questions.board(["default"], from_arrival=keys.floors().from_arrival))
        keys.board_was_read(offers)
        for job in world.claim_ordered("A", 9, from_arrival=keys.floors().from_arrival):
            if job.partition_key == "other":
                world.complete(job.lease)
            else:
                world.release(job.lease)
    long.commit()
    offers = world.run(questions.board(["default"], from_arrival=keys.floors().from_arrival))
    keys.board_was_read(offers)
    jobs = world.claim_ordered("A", 9, from_arrival=keys.floors().from_arrival)
    assert [job.id for job in jobs if job.partition_key == "k"] == [first]


def test_no_floor_is_above_what_the_newest_transaction_has_drawn(world: World) -> None:
    """A snapshot ends after the last transaction that is over: it did not know of one that is open behind it."""
    keys, late = KeyMemory(), user_connection(world)
    world.enqueue("work", key="other", ordered=True)
    world.run(verbs.enqueue(NewRow("work", key="k", ordered=True)), late)
    ((drawn,),) = world.sql("SELECT last_value FROM arrivals_id_seq")
    for _ in range(4):
        offers = world.run(questions.board(["default"]))
        keys.board_was_read(offers)
        world.claim_ordered("A")
        assert keys.floors().from_arrival <= drawn
    late.commit()
    for _ in range(4):
        offers = world.run(questions.board(["default"], known_ordered=["default"]))
        keys.board_was_read(offers)
        world.claim_ordered("A")
    assert keys.floors().from_arrival > drawn


def test_transactions_that_have_begun_are_told_every_now_and_then() -> None:
    keys = KeyMemory()
    assert [keys.asks(at) for at in (10.0, 10.4, 10.5, 10.9, 99.0)] == [True, False, True, False, True]


def test_a_board_that_did_not_ask_for_them_gives_no_new_floor(world: World) -> None:
    keys = KeyMemory()
    for n in range(4):
        world.enqueue("work", key=f"k{n}", ordered=True)
        (offer,) = world.run(questions.board(["default"], begun=False))
        assert offer.next_begun is None
        keys.board_was_read([offer])
    assert keys.floors() == NO_FLOORS


def test_arrivals_that_are_left_are_looked_at_again_a_few_times_and_for_as_long_as_they_get_fewer() -> None:
    keys = KeyMemory()
    more = []
    for first in (None, 5, 5, 5, 5, 6, 7, 7, 7, 7, None):
        keys.board_was_read([_offer(100.0, last=9)._replace(first_arrival=first)])
        more.append(keys.more)
    assert more == [False, True, True, True, False, True, True, True, True, False, False]


# -- what becomes due is never below a floor that was told


@pytest.mark.parametrize("how", ["the next of a run", "a new key"])
def test_a_row_that_was_due_long_ago_is_found_above_the_floor(world: World, how: str) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    rows = [NewRow("work", key="k", ordered=True, at=past) for _ in range(2)]
    if how == "the next of a run":
        world.run(verbs.enqueue_many(rows))
        (job,) = world.claim_ordered("A", run_length=1)
        floor = _clock(world) - 1.0
        world.complete(job.lease)
    else:
        floor = _clock(world) - 1.0
        world.run(verbs.enqueue_many(rows))
    assert len(world.claim_ordered("A", run_length=1, from_due=floor)) == 1


def test_new_keys_take_their_turns_by_when_they_are_due(world: World) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    ages = {"a": 3, "b": 9, "c": 1, "d": 5}
    rows = [NewRow("work", key=key, ordered=True, at=past - timedelta(minutes=age)) for key, age in ages.items()]
    world.run(verbs.enqueue_many(rows))
    taken = [world.claim_ordered("A", 1)[0].partition_key for _ in ages]
    assert taken == ["b", "d", "a", "c"]


def test_a_queue_whose_keys_are_all_taken_stays_on_the_board(world: World) -> None:
    world.enqueue(key="k", ordered=True)
    world.claim_ordered("A")
    for known in ((), ("default",)):
        (offer,) = world.run(questions.board(["default"], known_ordered=known, from_arrival=1 << 40))
        assert (offer.ordered, offer.due_seconds, offer.first_arrival) == (True, None, None)


# -- an old snapshot


@pytest.fixture
def dead(world: World) -> World:
    """Thousands of arrivals, heads and listed claims that are gone, for everybody but one old snapshot."""
    world.sql("ALTER TABLE arrivals SET (autovacuum_enabled = false)")
    old = user_connection(world)
    old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    old.execute("SELECT count(*) FROM live")
    world.sql(
        "INSERT INTO arrivals (queue, partition_key, seq)"
        " SELECT 'default', 'gone:' || n, n FROM generate_series(1, %s) AS n",
        DEAD,
    )
    world.sql(
        "INSERT INTO heads (queue, partition_key, bucket, from_seq, due_at) SELECT 'default', 'gone:' || n, 7, n, "
        "clock_timestamp() - interval '10 minutes' FROM generate_series(1, %s) AS n",
        DEAD,
    )
    world.sql(
        "INSERT INTO claims (until, claim_id, ids) SELECT clock_timestamp() - interval '10 minutes', n, '{}'"
        " FROM generate_series(1, %s) AS n",
        DEAD,
    )
    for table in ("arrivals", "heads", "claims"):
        world.sql(f"DELETE FROM {table}")
    return world


def _pages(plans: Plans, statement: Any, table: str) -> int:
    plans.of(statement, table)
    return plans.buffers


def test_ordered_claims_pass_what_an_old_snapshot_keeps(dead: World) -> None:
    floors: dict[str, Any] = {
        "from_arrival": dead.sql("SELECT last_value + 1 FROM arrivals_id_seq")[0][0],
        "from_due": _clock(dead) - 1.0,
    }
    plans = Plans(dead)
    found: dict[int, int] = {}
    for given in ({}, floors):
        dead.enqueue(key=f"k{len(found)}", ordered=True)
        found[len(given)] = _pages(plans, verbs.claim_ordered("A", 1, **given), "live")
    assert found[0] > 500
    assert found[2] < 250


def test_the_board_passes_what_an_old_snapshot_keeps_of_ordered_keys(dead: World) -> None:
    last = dead.sql("SELECT last_value + 1 FROM arrivals_id_seq")[0][0]
    plans = Plans(dead)
    everything = _pages(plans, questions.board(["default"]), "heads")
    known = questions.board(["default"], known_ordered=["default"], from_arrival=last, from_due=_clock(dead) - 1.0)
    assert _pages(plans, known, "heads") < everything / 5


def test_the_sweep_passes_what_an_old_snapshot_keeps_of_the_list(dead: World) -> None:
    floor = dead.run(questions.first_claim())
    assert floor == pytest.approx(_clock(dead), abs=60)
    plans = Plans(dead)
    everything = _pages(plans, verbs.sweep(), "claims")
    assert _pages(plans, verbs.sweep(from_until=floor - 1.0), "claims") < everything / 5


def test_what_is_listed_again_is_never_below_the_floor_of_a_sweep(world: World) -> None:
    world.enqueue()
    (job,) = world.claim("A")
    world.expire(job.lease)
    other = user_connection(world)
    other.execute("SELECT FROM live FOR UPDATE")
    floor = _clock(world)
    assert world.sweep() == []
    other.rollback()
    assert world.run(questions.first_claim()) >= floor
    assert [swept.id for swept in world.sweep(from_until=floor)] == [job.id]
