"""The steps of a claim under limits, one by one: each works in its own queue, and waits for nobody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from guarantees.facts import Beside, user_connection, waits_for_a_lock
from tenure import Lane
from world import World

HOUR = 3600.0
LOCKED = "SELECT lock_lane_rows('default', %s, '{0}', '{-infinity}', 10, clock_timestamp())"


def first(rows: Iterable[tuple[Any, ...]]) -> set[Any]:
    return {row[0] for row in rows}


def claimed(world: World, **how: Any) -> UUID:
    """A row that runs; it must be the only one that is due in its queue."""
    id = world.enqueue(**how)
    assert world.claim_one(lanes=[Lane(how.get("queue", "default"))]).id == id
    return id


@pytest.mark.parametrize("key", ["a", None])
def test_the_rows_of_a_lane_are_those_of_its_queue_and_key_that_could_start(world: World, key: str | None) -> None:
    claimed(world, key=key)
    world.enqueue(key=key, delay_seconds=HOUR)
    world.enqueue(key=key, queue="other")
    world.enqueue(key="b")
    world.enqueue(key="a", ordered=True)
    wanted = world.enqueue(key=key)
    one, two = user_connection(world), user_connection(world)
    two.execute("SET lock_timeout = '5s'")
    assert first(one.execute(LOCKED, [[key or ""]])) == {wanted}
    assert first(two.execute(LOCKED, [[key or ""]])) == set(), "they are taken, and nobody waits for them"


def test_without_a_limit_by_key_the_rows_of_a_queue_are_found_by_priority(world: World) -> None:
    world.enqueue(queue="other")
    wanted = world.enqueue()
    assert first(world.sql("SELECT lock_due_rows('default', '{0}', NULL, 10, clock_timestamp())")) == {wanted}


def lane(world: World, queue: str, key: str, priority: int, due_seconds: float) -> None:
    moment = "(SELECT clock_timestamp() + %s * interval '1 second') AS n (t)"
    world.sql(f"INSERT INTO key_lanes SELECT %s, %s, %s, t, t FROM {moment}", queue, key, priority, due_seconds)


def begun(world: World, queue: str, priority: int, from_due: str = "-infinity") -> None:
    world.sql("INSERT INTO lane_priorities VALUES (%s, %s, %s)", queue, priority, from_due)


def test_the_lanes_that_are_due_are_found_once_each(world: World) -> None:
    for queue, priority in (("default", 0), ("default", 5), ("other", 0)):
        begun(world, queue, priority)
    lane(world, "default", "a", 0, -10)
    lane(world, "default", "b", 5, -10)
    lane(world, "default", "later", 0, HOUR)
    lane(world, "other", "c", 0, -10)
    found = world.sql("SELECT partition_key FROM due_lanes('default', 10, clock_timestamp())")
    assert found == [("b",), ("a",)]


def test_where_a_search_begins_is_set_by_the_first_lane_of_each_priority(world: World) -> None:
    for priority in (0, 5, 7):
        begun(world, "default", priority)
    begun(world, "other", 0, "infinity")
    begun(world, "other", 5)
    lane(world, "default", "a", 0, -10)
    lane(world, "default", "b", 7, HOUR)
    lane(world, "other", "c", 0, -100 * HOUR)
    world.sql("SELECT begin_lanes('default', clock_timestamp())")
    assert world.sql("SELECT queue, priority FROM lane_priorities ORDER BY 1, 2") == [
        *[("default", 0), ("default", 7)],
        *[("other", 0), ("other", 5)],
    ]
    ahead = "SELECT date_part('epoch', clock_timestamp() - from_due) FROM lane_priorities WHERE queue = 'default'"
    (by_lane,), (by_clock,) = world.sql(f"{ahead} ORDER BY priority")
    assert 12.0 <= by_lane < HOUR
    assert by_lane - by_clock > 5.0
    assert by_clock >= 2.0
    others = world.sql("SELECT from_due::text FROM lane_priorities WHERE queue = 'other'")
    assert first(others) == {"infinity", "-infinity"}


def test_lanes_are_filled_from_the_rows_of_their_queue_and_those_of_others_stay(world: World) -> None:
    world.enqueue(key="a")
    lane(world, "other", "b", 9, -10)
    begun(world, "other", 9)
    lane(world, "default", "gone", 3, -10)
    begun(world, "default", 3)
    for anew in (True, False):
        world.sql("SELECT fill_lanes('default', clock_timestamp(), %s)", anew)
        assert world.sql("SELECT queue, partition_key FROM key_lanes ORDER BY 1") == [("default", "a"), ("other", "b")]
        assert world.sql("SELECT queue, priority FROM lane_priorities ORDER BY 1") == [("default", 0), ("other", 9)]


def test_the_lane_of_rows_without_a_key_is_gone_when_only_rows_with_one_wait(world: World) -> None:
    world.enqueue(key="a")
    lane(world, "default", "", 0, -10)
    lane(world, "other", "b", 0, -10)
    world.sql("SELECT look_at_lanes('default', '{\"\"}', 1, 0, clock_timestamp())")
    assert world.sql("SELECT queue, partition_key FROM key_lanes") == [("other", "b")]


def adopt(world: World, in_all: int | None, by_key: int | None) -> list[tuple[str, int, UUID]]:
    """The permits of the queue, after what runs there was given some."""
    world.sql("SELECT adopt_running('default', %s, %s, 0)", in_all, by_key)
    return world.sql("SELECT partition_key, slot, row_id FROM permits WHERE queue = 'default' ORDER BY 1, 2")


def test_what_runs_when_a_limit_is_set_is_given_permits_once(world: World) -> None:
    other = claimed(world, queue="other")
    world.sql("INSERT INTO permits (queue, partition_key, slot, row_id) VALUES ('other', '', 7, %s)", other)
    world.enqueue()
    world.release(world.claim_one().lease)
    world.sql("UPDATE live SET available_at = 'tomorrow' WHERE status = 'pending'")
    key, bare = claimed(world, key="a"), claimed(world)
    assert adopt(world, None, None) == []
    in_all = adopt(world, 5, None)
    assert [each[:2] for each in in_all] == [("", 1), ("", 2)]
    assert {each[2] for each in in_all} == {key, bare}
    for _ in range(2):
        assert adopt(world, 5, 2) == [*in_all, ("a", 1, key)]
    assert first(world.sql("SELECT id FROM live WHERE limited")) == {key, bare}


def test_a_row_that_is_about_to_end_is_given_no_permit_and_not_waited_for(world: World) -> None:
    id = claimed(world)
    other = user_connection(world)
    other.execute("SELECT FROM live FOR UPDATE")
    world.sql("SET lock_timeout = '5s'")
    assert adopt(world, 5, None) == []
    other.rollback()
    assert adopt(world, 5, None) == [("", 1, id)]


def test_a_new_era_begins_in_one_queue_and_waits_for_no_permit(world: World) -> None:
    world.sql("INSERT INTO permit_eras VALUES ('other', 9, 9)")
    for slot in (1, 2):
        world.sql("INSERT INTO permits (queue, partition_key, slot, row_id) VALUES ('default', '', %s, new_id())", slot)
    other = user_connection(world)
    other.execute("SELECT FROM permits WHERE slot = 1 FOR UPDATE")
    world.sql("SET lock_timeout = '5s'")
    world.sql("SELECT begin_era('default')")
    assert world.sql("SELECT slot, era FROM permits ORDER BY 1") == [(1, 0), (2, 1)]
    assert world.sql("SELECT queue, era, from_era FROM permit_eras ORDER BY 1") == [("default", 1, 0), ("other", 9, 9)]


def test_an_arrival_that_commits_while_a_claim_waits_is_left_to_the_next(world: World) -> None:
    for queue, from_id in (("before", 1000), ("default", 0)):
        read = "INSERT INTO limits_begun (queue, open, again_at, from_id) VALUES (%s, '{}', clock_timestamp(), %s)"
        world.sql(read, queue, from_id)
    note = "INSERT INTO lane_arrivals (queue, partition_key, priority, available_at) VALUES ('default', %s, 0, 'now')"
    late = user_connection(world)
    late.execute(note, ["late"])
    world.sql(note, "a")
    lane(world, "default", "a", 0, HOUR)
    refresh = "SELECT refresh_lanes('default', 1, 0, clock_timestamp())"
    assert commits_while_waiting(world, refresh, late) == [("late",)]


def test_where_arrivals_are_read_from_goes_on_in_one_queue(world: World) -> None:
    for queue in ("default", "other"):
        read = "INSERT INTO limits_begun (queue, open, again_at, next_id) VALUES (%s, '{}', clock_timestamp(), 7)"
        world.sql(read, queue)
    world.sql(
        "INSERT INTO lane_arrivals (queue, partition_key, priority, available_at)"
        " SELECT 'default', 'a', 0, clock_timestamp() FROM generate_series(1, 510)"
    )
    world.sql("SELECT refresh_lanes('default', 1, 0, clock_timestamp())")
    places = world.sql("SELECT queue, from_id, next_id > 500 FROM limits_begun ORDER BY 1")
    assert places == [("default", 7, True), ("other", 0, False)]


def commits_while_waiting(world: World, statement: str, late: Any) -> list[tuple[Any, ...]]:
    """The arrivals left after a statement that had to wait for a lane until another transaction had committed."""
    holder, waiting = user_connection(world), world.connect()
    holder.execute("SELECT FROM key_lanes FOR UPDATE")
    running = Beside(lambda: waiting.execute(statement.encode()).fetchone())
    waits_for_a_lock(world, waiting)
    late.commit()
    holder.commit()
    running.result()
    return world.sql("SELECT partition_key FROM lane_arrivals")


def test_the_heads_that_could_go_on_are_those_that_wait_and_are_not_held(world: World) -> None:
    for key, queue in (("taken", "default"), ("held", "default"), ("free", "other"), ("held", "other")):
        world.enqueue(key=key, queue=queue, ordered=True, hold=True)
    running = {(job.queue, job.partition_key): job for job in world.claim_ordered(queues=["default", "other"])}
    for place in (("default", "held"), ("other", "free"), ("other", "held")):
        world.dead_letter(running[place].lease)
    world.enqueue(key="dead", ordered=True)
    world.dead_letter(world.claim_ordered()[0].lease)
    for key in ("held", "dead", "free", "later"):
        world.enqueue(key=key, ordered=True, delay_seconds=HOUR if key == "later" else 0.0)
    found = world.sql("SELECT partition_key FROM live WHERE id IN (SELECT free_heads('default', 0, 256)) ORDER BY 1")
    assert found == [("dead",), ("free",)]


def test_heads_are_told_from_a_bucket_on_and_a_row_of_the_transaction_is_due(world: World) -> None:
    with world.conn.transaction():
        world.sql("SELECT now()")
        for key in ("a", "b", "c"):
            world.enqueue(key=key, ordered=True)
        buckets = sorted(bucket for (bucket,) in world.sql("SELECT bucket(partition_key) FROM live"))
        assert len(set(buckets)) == 3
        for nth, bucket in enumerate(buckets):
            assert world.sql("SELECT count(*) FROM free_heads('default', %s, 256)", bucket) == [(3 - nth,)]
            assert world.sql("SELECT count(*) FROM free_heads('default', %s, 256)", bucket + 1) == [(2 - nth,)]
