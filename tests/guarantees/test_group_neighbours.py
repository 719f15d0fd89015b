"""Groups beside each other: each is counted, ended, told and followed alone, at the time of the database's clock."""

from __future__ import annotations

import psycopg
import pytest

from guarantees.test_notes import Listener
from tenure import verbs
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import batches, fleet, results, settle
from tenure.verbs.batches import WAITING_SECONDS, Opened
from world import World

pytestmark = pytest.mark.one_server
ALONE = "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"


def _open(world: World, n: int = 1, **how: object) -> Opened:
    return world.run(batches.open_group([NewRow("part", max_attempts=1)] * n, **how))  # type: ignore[arg-type]


def _held(world: World, *of: Opened) -> list[list[Claimed]]:
    """The rows of these groups, held, in the order in which they were sent."""
    jobs = {job.id: job for job in world.claim(n=500, buckets=None)}
    return [[jobs[id] for id in each.ids] for each in of]


def _standing(world: World) -> list[tuple[object, ...]]:
    return world.sql("SELECT ended_at IS NOT NULL, slots_open, failed, cancelled, failing FROM groups ORDER BY id")


def _slots(world: World) -> list[tuple[object, ...]]:
    return world.sql("SELECT open, failed, cancelled FROM group_slots ORDER BY group_id, slot")


def test_an_end_is_counted_in_its_slot_of_its_group(world: World) -> None:
    (first, second), (_, fourth) = _held(world, _open(world, 2), _open(world, 2))
    world.fail(first.lease)
    assert _slots(world) == [(0, 1, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0)]
    assert _standing(world) == [(False, 1, 0, 0, False), (False, 2, 0, 0, False)]
    world.fail(fourth.lease)
    world.complete(second.lease)
    assert _standing(world) == [(True, 0, 1, 0, False), (False, 1, 0, 0, False)]
    world.run(verbs.redrive([first.id]))  # after the end: uncounted
    assert _slots(world) == [(0, 1, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0)]
    world.run(verbs.redrive([fourth.id]))  # before it: counted again
    assert _slots(world)[2:] == [(1, 0, 0), (1, 0, 0)]
    assert _standing(world) == [(True, 0, 1, 0, False), (False, 2, 0, 0, False)]


def test_of_two_rows_of_a_slot_the_first_one_lowers_nothing(world: World) -> None:
    """65 rows in 64 slots: of those two one fails, is redriven, and fails again."""
    ((one, two, *_),) = _held(world, made := _open(world, 65))
    for _ in range(2):
        world.fail(one.lease)
        assert (_standing(world), _slots(world)[0]) == ([(False, 64, 0, 0, False)], (1, 1, 0))
        world.run(verbs.redrive([one.id]))
        assert (_standing(world), _slots(world)[0]) == ([(False, 64, 0, 0, False)], (2, 0, 0))
        one = world.claim_one(buckets=None)
    world.complete(two.lease)
    world.complete(one.lease)
    assert _standing(world) == [(False, 63, 0, 0, False)]
    assert made.ids[0] == one.id


def test_a_follower_is_due_from_the_end_on_also_late_in_a_transaction(world: World) -> None:
    then = world.enqueue("then", delay_seconds=WAITING_SECONDS)
    ((job,),) = _held(world, _open(world, then_row=then))
    with world.conn.transaction():
        world.sql("SELECT now()")
        ((moment,),) = world.sql("SELECT clock_timestamp()")
        world.complete(job.lease)
        assert world.sql("SELECT available_at >= %s FROM live", moment) == [(True,)]


def test_a_failure_that_shall_stop_a_group_stops_that_one(world: World) -> None:
    then = [world.enqueue("then", delay_seconds=WAITING_SECONDS) for _ in range(2)]
    hasty = [_open(world, 3, then_row=id, stop_on_failure=True) for id in then]
    (first, *_), _ = _held(world, *hasty)
    world.fail(first.lease)
    assert _standing(world) == [(False, 2, 0, 0, True), (False, 3, 0, 0, False)]
    assert [job.id for job in world.claim(n=9)] == [then[0]]


def test_a_group_that_follows_is_the_one_that_was_named(world: World) -> None:
    other, named = (world.run(batches.open_group([NewRow("later", delay_seconds=WAITING_SECONDS)])) for _ in range(2))
    ((last,),) = _held(world, _open(world, then_group=named.id))
    world.complete(last.lease)
    assert [job.id for job in world.claim(n=9)] == named.ids
    assert world.status(other.ids[0]) == "pending"


def test_an_end_late_in_a_transaction_has_its_own_time(world: World) -> None:
    ((last,),) = _held(world, _open(world))
    with world.conn.transaction():
        ((began,),) = world.sql("SELECT clock_timestamp() FROM pg_sleep(0.02)")
        world.complete(last.lease)
        _open(world, 0)
        world.run(batches.open_group([NewRow("later", delay_seconds=0.0)]))
        assert world.sql("SELECT min(ended_at) > %s, count(ended_at) FROM groups", began) == [(True, 2)]
        assert world.sql("SELECT available_at > %s FROM live WHERE kind = 'later'", began) == [(True,)]


def test_what_no_group_can_be_is_refused_from_sql_too(world: World) -> None:
    for call, words in (
        (f"enqueue_group(array_fill('x'::text, ARRAY[100001]), {ALONE})", "too large"),
        (f"enqueue_group('{{}}', {ALONE}, name => repeat('x', 129))", "name"),
        (f"enqueue_group('{{}}', {ALONE}, name => '')", "name"),
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=words):
            world.sql(f"SELECT {call}")


def test_a_group_wakes_who_waits_and_where_nobody_waits_it_sends_no_note(world: World) -> None:
    listener = Listener(world)
    _open(world)
    assert len(listener.notes()) == 1
    world.run(fleet.set_waiting("W", waiting=False))
    _open(world)
    assert listener.notes() == []


def test_each_batch_is_told_once_and_to_one(world: World) -> None:
    first, second, _ = made = [_open(world) for _ in range(3)]
    for (job,) in _held(world, *made)[:2]:
        world.complete(job.lease)
    other = world.connect()
    with other.transaction():
        assert [each.id for each in world.run(batches.tell_batches(n=1), other)] == [first.id]
        world.sql("SET lock_timeout = '4s'")  # who would wait for the other is refused
        assert [each.id for each in world.run(batches.tell_batches())] == [second.id]
    assert world.run(batches.tell_batches()) == []
    assert world.sql("SELECT told FROM groups ORDER BY id") == [(True,), (True,), (False,)]


def test_a_completion_tells_those_who_wait_for_it_alone(world: World) -> None:
    ids = [world.enqueue() for _ in range(2)]
    jobs = {job.id: job for job in world.claim(n=2)}
    for id in ids:
        world.run(results.await_end(id, 60.0))
    listener = world.connect()
    listener.execute(f'LISTEN "{world.sql("SELECT channel()")[0][0]}_ended"'.encode())
    world.run(settle.complete([jobs[ids[1]].lease], results=[None]))
    world.run(settle.complete([jobs[ids[0]].lease], results=["1"]))
    assert [note.payload for note in listener.notifies(stop_after=2, timeout=60)] == [str(ids[1]), str(ids[0])]
    assert world.sql("SELECT row_id FROM results") == [(ids[0],)]
