"""Where a search of key lanes begins: nothing that waits is below it, and a claim passes little of what is gone."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest

from guarantees.facts import user_connection
from tenure import verbs
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import queues, settle
from world import World

MAIL = "mail"
MANY = 600  # arrivals: a claim that has dealt with so many moves the floors


@pytest.fixture
def mail(world: World) -> World:
    """A queue with a limit per key that a claim has seen."""
    world.run(queues.limit(MAIL, max_per_key=1))
    assert _claim(world) == []
    return world


def _send(world: World, *keys: str, conn: Any = None, **options: Any) -> list[UUID]:
    rows = [NewRow("k", **{"queue": MAIL, **options}, key=key) for key in keys]
    return [each.id for each in world.run(verbs.enqueue_many(rows), conn)]


def _claim(world: World, n: int = 1000, queue: str = MAIL) -> list[Claimed]:
    return world.run(queues.claim_limited("A", n, queue))


def _much_happens(world: World, rounds: int = 1, **options: Any) -> None:
    """Rows of many keys come, start and end, until floors have moved."""
    for n in range(2 * rounds):
        _send(world, *[f"{n}:{key}" for key in range(MANY // 2)], **options)
        world.run(settle.complete(_claim(world)))


def _floor(world: World, priority: int = 0, queue: str = MAIL) -> list[Any]:
    """Whether the floor of a priority has moved; nothing: no such priority is known."""
    asked = "SELECT from_due > '-infinity' FROM lane_priorities WHERE queue = %s AND priority = %s"
    return [moved for (moved,) in world.sql(asked, queue, priority)]


def _passed(world: World, index: str) -> int:
    """How many entries of an index one more claim reads."""
    read = "SELECT sum(idx_tup_read)::int FROM pg_stat_user_indexes WHERE schemaname = %s AND indexrelname = %s"
    counts = []
    for claims in (0, 1):
        for _ in range(claims):
            assert _claim(world) == []
        world.sql("SELECT pg_stat_force_next_flush()")
        world.sql("SELECT 1")
        counts += [int(count) for (count,) in world.sql(read, world.schema, index)]
    return counts[1] - counts[0]


def test_a_claim_passes_as_much_of_what_is_gone_after_many_rows_as_after_few(mail: World) -> None:
    held = user_connection(mail)
    held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    held.execute("SELECT FROM live")
    passed = []
    for rounds in (1, 5):
        _much_happens(mail, rounds)
        time.sleep(2.1)  # floors are that far behind
        _much_happens(mail)
        passed.append([_passed(mail, index) for index in ("lane_arrivals_pkey", "key_lanes_due")])
    (arrivals, lanes), (later_arrivals, later_lanes) = passed
    assert later_arrivals <= arrivals * 2
    assert later_lanes <= lanes * 2


def test_a_row_that_commits_late_is_found_although_arrivals_after_it_are_dealt_with(mail: World) -> None:
    late = user_connection(mail)
    (id,) = _send(mail, "late", conn=late)
    _much_happens(mail, rounds=4)
    late.commit()
    assert [job.id for job in _claim(mail)] == [id]


def test_floors_go_on_when_a_late_transaction_is_over(mail: World) -> None:
    late = user_connection(mail)
    _send(mail, "late", conn=late)
    _much_happens(mail, rounds=2)
    before = mail.sql("SELECT from_id, next_id FROM limits_begun")
    late.rollback()
    _much_happens(mail, rounds=2)
    assert mail.sql("SELECT from_id, next_id FROM limits_begun") > before


def test_a_row_that_waits_stays_above_the_floor(mail: World) -> None:
    """Somebody has locked it, while hundreds start beside it."""
    (id,) = _send(mail, "old")
    other = user_connection(mail)
    other.execute("SELECT FROM live FOR UPDATE")
    _much_happens(mail, rounds=3)
    assert _floor(mail) == [True]
    other.rollback()
    assert [job.id for job in _claim(mail)] == [id]


def test_rows_that_have_long_been_due_start_above_the_floor(mail: World) -> None:
    _much_happens(mail, rounds=2)
    assert _floor(mail) == [True]
    (id,) = _send(mail, "new")
    mail.sql("UPDATE live SET available_at = clock_timestamp() - interval '1 hour'")
    assert [job.id for job in _claim(mail)] == [id]


@pytest.mark.parametrize("ahead", ["1 hour", "-0.5 seconds"])
def test_after_the_clock_was_set_back_lanes_are_found(mail: World, ahead: str) -> None:
    _send(mail, "new")
    mail.sql("INSERT INTO lane_priorities VALUES ('mail', 0, clock_timestamp() + %s::interval)", ahead)
    mail.sql("INSERT INTO lane_priorities VALUES ('web', 0, clock_timestamp() + interval '1 hour')")
    assert len(_claim(mail)) == 1
    assert _floor(mail) == [False]
    assert _floor(mail, queue="web") == [True], "another queue looks for itself"


def test_a_floor_of_a_moment_ago_stays(mail: World) -> None:
    mail.sql("INSERT INTO lane_priorities VALUES ('mail', 0, clock_timestamp() - interval '2 seconds')")
    assert _claim(mail) == []
    assert _floor(mail) == [True]


def test_a_priority_without_lanes_is_forgotten_and_found_again(mail: World) -> None:
    _send(mail, "a", priority=5)
    mail.run(queues.limit("web", max_per_key=1))
    _send(mail, "a", priority=5, queue="web")
    mail.run(settle.complete(_claim(mail) + _claim(mail, queue="web")))
    assert (_floor(mail, 5), _floor(mail, 5, "web")) == ([False], [False])
    _much_happens(mail, rounds=2)
    assert (_floor(mail, 5), _floor(mail, 5, "web")) == ([], [False])
    (id,) = _send(mail, "a", priority=5)
    assert [job.id for job in _claim(mail)] == [id]


def test_the_most_urgent_come_first(mail: World) -> None:
    for priority in (0, 7, -3):
        _send(mail, f"of {priority}", priority=priority)
    mail.sql("SELECT refresh_lanes('mail', 1, 0, clock_timestamp())")
    asked = "SELECT priority FROM due_lanes('mail', %s, clock_timestamp())"
    assert mail.sql(asked, 9) == [(7,), (0,), (-3,)]
    assert mail.sql(asked, 1) == [(7,)]


def test_lanes_that_are_found_together_keep_the_order_of_their_rows(mail: World) -> None:
    names = [f"k{n}" for n in range(50)]
    _send(mail, *names)
    for n, name in enumerate(names):
        mail.sql(
            "UPDATE live SET available_at = clock_timestamp() - interval '1 hour' * %s WHERE partition_key = %s",
            n,
            name,
        )
    assert [_claim(mail, 1)[0].partition_key for _ in range(10)] == names[-1:-11:-1]


def test_a_lane_that_goes_on_keeps_its_place_and_one_that_was_full_comes_last(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=2))
    for key in "ab":
        _send(world, key, key, key)
    a, b = _claim(world, 1), []
    assert [job.partition_key for job in a] == ["a"]
    a += _claim(world, 1)
    b += _claim(world, 1)
    assert [job.partition_key for job in a + b] == ["a", "a", "b"]
    world.run(settle.complete(a[:1]))
    assert [job.partition_key for job in _claim(world, 1)] == ["b"]


def test_a_lane_is_due_from_its_row_or_from_the_moment_it_is_found(world: World) -> None:
    asked = "SELECT due_from(%s::timestamptz, '2030-01-01 12:00+00', %s) = %s::timestamptz"
    assert world.sql(asked, "2030-01-01 13:00+00", 1, "2030-01-01 13:00+00") == [(True,)]
    assert world.sql(asked, "2029-01-01 13:00+00", 500_000, "2030-01-01 11:59:59.5+00") == [(True,)]
    assert world.sql(asked, "2029-01-01 13:00+00", 9_000_000, "2030-01-01 11:59:59+00") == [(True,)]
