"""Groups: each row is counted in the statement that ends it, once, and the last one makes the follower due, once."""

from __future__ import annotations

import random
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.errors import InvalidPayload
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import batches, operators, settle
from tenure.verbs.batches import WAITING_SECONDS, Opened
from world import World


def _open(world: World, n: int, **how: object) -> Opened:
    return world.run(batches.open_group([NewRow("part", {"n": n}, max_attempts=1) for n in range(n)], **how))  # type: ignore[arg-type]


def _follower(world: World) -> UUID:
    return world.enqueue("then", delay_seconds=WAITING_SECONDS, headers={"from": "me"})


def _due(world: World, id: UUID) -> bool:
    return bool(world.sql("SELECT available_at <= clock_timestamp() FROM live WHERE id = %s", id)[0][0])


def _told(world: World, id: UUID) -> dict[str, str]:
    told: dict[str, str] = world.sql("SELECT COALESCE(headers, '{}') FROM live WHERE id = %s", id)[0][0]
    return {name.removeprefix("tenure-"): word for name, word in told.items() if name.startswith("tenure-")}


def _held(world: World, n: int) -> list[Claimed]:
    return world.claim(n=n, buckets=None)


def test_the_last_row_that_ends_makes_the_follower_due_and_tells_it_how_it_went(world: World) -> None:
    then = _follower(world)
    made = _open(world, 6, then_row=then, name="nightly")
    world.run(verbs.cancel([made.ids[0]]))
    world.run(operators.delete([made.ids[1]]))
    done, failed, died, last = _held(world, 10)
    assert world.complete(done.lease).ok
    world.fail(failed.lease)
    world.retry(died.lease)  # it had one attempt
    assert not _due(world, then)
    standing = world.run(batches.group(made.id))
    assert standing is not None
    assert (standing.size, standing.open, standing.done, standing.failed, standing.cancelled) == (6, 1, 5, 2, 2)
    assert standing.ended_at is None
    world.complete(last.lease)
    assert _due(world, then)
    assert _told(world, then) == {"batch": str(made.id), "ended": "6", "failed": "2", "cancelled": "2"}
    over = world.run(batches.group(made.id))
    assert over is not None
    assert (over.name, over.open, over.failed, over.cancelled, over.ended_at is not None) == ("nightly", 0, 2, 2, True)
    assert [each.id for each in world.run(batches.groups())] == [made.id]


def test_a_row_that_goes_back_is_not_counted(world: World) -> None:
    made = world.run(batches.open_group([NewRow("part", max_attempts=5)]))
    world.retry(_held(world, 1)[0].lease, delay=0)
    world.release(_held(world, 1)[0].lease)
    standing = world.run(batches.group(made.id))
    assert standing is not None
    assert standing.open == 1


def test_an_erased_row_and_one_whose_lease_ran_out_are_counted(world: World) -> None:
    then = _follower(world)
    made = _open(world, 2, then_row=then)
    _held(world, 1)
    world.sql("UPDATE live SET lease_expires_at = clock_timestamp() WHERE status = 'processing'")
    world.run(verbs.sweep_pages())
    rest = [id for id in made.ids if world.status(id) == "pending"]
    assert world.run(operators.erase(rest)) == rest
    assert _told(world, then) == {"batch": str(made.id), "ended": "2", "failed": "1", "cancelled": "1"}


def test_what_has_ended_is_not_counted_again_when_it_is_deleted(world: World) -> None:
    made = _open(world, 2)
    world.fail(_held(world, 1)[0].lease)
    gone = [id for id in made.ids if world.status(id) == "failed"]
    world.run(operators.delete(gone))
    standing = world.run(batches.group(made.id))
    assert standing is not None
    assert (standing.open, standing.failed) == (1, 1)


def test_an_empty_group_ends_at_once(world: World) -> None:
    then = _follower(world)
    made = _open(world, 0, then_row=then)
    assert _due(world, then)
    assert _told(world, then) == {"batch": str(made.id), "ended": "0", "failed": "0", "cancelled": "0"}
    standing = world.run(batches.group(made.id))
    assert standing is not None
    assert standing.ended_at is not None


def test_a_group_may_follow_a_group(world: World) -> None:
    second = world.run(batches.open_group([NewRow("second", delay_seconds=WAITING_SECONDS) for _ in range(3)]))
    first = _open(world, 2, then_group=second.id)
    assert len(_held(world, 10)) == 2
    world.sql("UPDATE live SET lease_expires_at = clock_timestamp() WHERE status = 'processing'")
    world.run(verbs.sweep_pages())
    assert {job.id for job in _held(world, 10)} == set(second.ids)
    assert _told(world, second.ids[0])["batch"] == str(first.id)


def test_a_rolled_back_group_leaves_nothing(world: World) -> None:
    with world.conn.transaction(force_rollback=True):
        _open(world, 3)
    assert (world.count("groups"), world.count("group_slots"), world.count("live")) == (0, 0, 0)


def test_rows_of_a_group_share_slots_with_their_neighbours(world: World) -> None:
    made = _open(world, 1000)
    slots = [counted & 63 for (counted,) in world.sql("SELECT counted FROM live ORDER BY (payload ->> 'n')::int")]
    assert slots == sorted(slots)
    assert set(slots) == set(range(64))
    assert world.sql("SELECT sum(open), count(*), max(open) - min(open) FROM group_slots") == [(1000, 64, 1)]
    assert world.sql("SELECT bool_and(counted >> 6 = %s) FROM live", made.id) == [(True,)]
    assert [id for (id,) in world.sql("SELECT unnest(members) FROM groups")] == made.ids


def test_a_redriven_row_is_counted_again_while_its_group_is_open(world: World) -> None:
    then = _follower(world)
    made = _open(world, 65, then_row=then)  # one slot has two rows
    jobs = _held(world, 100)
    twin, other = jobs[0], jobs[1]  # of one slot
    world.fail(other.lease)
    world.run(verbs.redrive([other.id]))  # its slot was not empty
    world.run(settle.complete([job.lease for job in jobs if job is not other]))
    assert not _due(world, then)
    (again,) = _held(world, 1)
    assert again.id == other.id
    world.fail(again.lease)
    assert _due(world, then)
    assert _told(world, then)["failed"] == "1"
    assert twin.id != other.id
    standing = world.run(batches.group(made.id))
    assert standing is not None
    assert standing.failed == 1


def test_a_row_that_reopens_an_empty_slot_keeps_its_group_open(world: World) -> None:
    then = _follower(world)
    _open(world, 2, then_row=then)
    first, second = _held(world, 2)
    world.fail(first.lease)
    world.run(verbs.redrive([first.id]))
    world.complete(second.lease)
    assert not _due(world, then)
    world.complete(_held(world, 1)[0].lease)
    assert _told(world, then)["failed"] == "0"


def test_a_row_redriven_after_the_end_runs_uncounted_and_says_so(world: World) -> None:
    then = _follower(world)
    made = _open(world, 1, then_row=then)
    world.fail(_held(world, 1)[0].lease)
    world.sql("UPDATE live SET available_at = clock_timestamp() + interval '1 day' WHERE id = %s", then)
    for _ in range(2):
        world.run(verbs.redrive(made.ids))
        assert world.sql("SELECT counted < 0 FROM live WHERE id = %s", made.ids[0]) == [(True,)]
        world.fail(_held(world, 1)[0].lease)
    assert not _due(world, then)  # it was told once
    assert world.sql("SELECT sum(open), sum(failed) FROM group_slots") == [(0, 1)]


def test_the_first_failure_wakes_the_follower_if_it_shall_stop_then(world: World) -> None:
    patient, hasty = _follower(world), _follower(world)
    patiently = _open(world, 3, then_row=patient)
    made = _open(world, 3, then_row=hasty, stop_on_failure=True)
    jobs = {job.id: job for job in _held(world, 10)}
    for id in (patiently.ids[1], made.ids[1]):
        world.fail(jobs[id].lease)
    assert not _due(world, patient)
    assert _due(world, hasty)
    world.sql("UPDATE live SET available_at = clock_timestamp() + interval '1 day' WHERE id = %s", hasty)
    standing = world.run(batches.group(made.id))
    assert standing is not None
    assert standing.failing


def test_a_follower_that_is_held_is_left_alone(world: World) -> None:
    then = world.enqueue("then")
    (holder,) = _held(world, 1)
    assert holder.id == then
    _open(world, 1, then_row=then)
    world.complete(_held(world, 1)[0].lease)
    assert world.status(then) == "processing"
    assert _told(world, then) == {}


def test_the_end_of_a_group_waits_for_a_follower_that_is_about_to_be_parked(world: World) -> None:
    then = world.enqueue("then")
    (holder,) = _held(world, 1)
    _open(world, 1, then_row=then)
    (last,) = _held(world, 1)
    other = world.connect()
    with world.conn.transaction():
        world.run(verbs.guard(holder.lease))  # under this lock it would look at its group, and park
        world.run(settle.release([holder.lease], delays=[WAITING_SECONDS / 2]))
        ending = Beside(lambda: world.run(settle.complete([last.lease]), other))
        waits_for_a_lock(world, other)
    assert ending.result()[0].ok
    assert _due(world, then)


def test_slots_are_locked_in_order(world: World) -> None:
    """Two who end rows of the same slots in opposite order wait for each other, and neither is refused."""
    made = _open(world, 64)
    jobs = {job.id: job for job in _held(world, 100)}
    in_order = [jobs[id] for id in made.ids]
    mine, theirs = in_order[0::2], in_order[1::2]
    other = world.connect()
    with world.conn.transaction():
        world.sql("UPDATE group_slots SET open = open WHERE slot = 0")
        ending = Beside(lambda: world.run(settle.complete([job.lease for job in reversed(mine)]), other))
        waits_for_a_lock(world, other)
        world.sql("SET LOCAL lock_timeout = '2s'")
        assert len(world.sql("SELECT slot FROM group_slots WHERE slot > 0 FOR UPDATE")) == 63
    assert len(ending.result()) == 32
    world.run(settle.complete([job.lease for job in theirs]))
    assert world.sql("SELECT ended_at IS NOT NULL FROM groups") == [(True,)]


def test_many_workers_end_a_group_at_once_and_the_follower_is_due_once(world: World) -> None:
    then = _follower(world)
    made = _open(world, 400, then_row=then)
    jobs = _held(world, 400)
    random.Random(1).shuffle(jobs)

    def end(n: int) -> None:
        with world.connect() as conn:
            for i in range(n * 50, n * 50 + 50, 5):
                some = [job.lease for job in jobs[i : i + 5]]
                if i % 3:
                    world.run(settle.complete(some), conn)
                else:
                    world.run(settle.fail(some, ["no"] * 5), conn)

    together(8, end)
    failed = sum(5 for i in range(0, 400, 5) if i % 3 == 0)
    assert _told(world, then) == {"batch": str(made.id), "ended": "400", "failed": str(failed), "cancelled": "0"}
    assert world.sql("SELECT sum(open) FROM group_slots") == [(0,)]


def _run_one(world: World, statements: list[Any], conns: list[psycopg.Connection[Any]], n: int) -> None:
    world.run(statements[n], conns[n])


def test_a_redrive_and_the_last_end_at_once_leave_no_group_open_for_ever(world: World) -> None:
    for n in range(20):
        then = _follower(world)
        _open(world, 2, then_row=then)
        first, last = _held(world, 2)
        world.fail(first.lease)
        conns = [world.connect(), world.connect()]
        both = [verbs.redrive([first.id]), settle.complete([last.lease])][:: 1 if n % 2 else -1]
        together(2, partial(_run_one, world, both, conns))
        (counted,) = world.sql("SELECT counted FROM live WHERE id = %s", first.id)[0]
        assert _due(world, then) == (counted < 0)
        world.complete(_held(world, 1)[0].lease) if counted > 0 else world.run(verbs.cancel([first.id]))
        assert _due(world, then)
        for conn in conns:
            conn.close()
        world.run(verbs.cancel([then]))


def test_rows_without_a_group_touch_none(world: World) -> None:
    _open(world, 1)
    ids = [world.enqueue(priority=5) for _ in range(3)]
    before = world.sql("SELECT xmin, ctid FROM group_slots")
    jobs = world.claim(n=3, buckets=None, lanes=[Lane("default", 5)])
    assert {job.id for job in jobs} == set(ids)
    world.run(settle.complete([job.lease for job in jobs]))
    assert world.sql("SELECT xmin, ctid FROM group_slots") == before


@pytest.mark.parametrize(("n", "name", "words"), [(100_001, None, "100000"), (1, "", "name"), (1, "x" * 129, "128")])
def test_what_no_group_can_be_is_refused_in_one_sentence(world: World, n: int, name: str, words: str) -> None:
    with pytest.raises((InvalidPayload, psycopg.errors.InvalidParameterValue), match=words):
        world.run(batches.open_group([NewRow("part")] * n, name=name))


def test_a_row_with_an_idempotency_key_is_refused(world: World) -> None:
    with pytest.raises(InvalidPayload, match="counts new rows"):
        world.run(batches.open_group([NewRow("part", idempotency_key="k")]))


def test_a_single_probe_without_the_lock_would_miss_the_end(world: World) -> None:
    """The control: two who count without waiting for each other both see a group that is still open."""
    then = _follower(world)
    _open(world, 2, then_row=then)
    world.sql("CREATE TABLE naive AS SELECT 2 AS total; CREATE TABLE naive_ends (n int)")
    other = world.connect()
    seen = []
    with world.conn.transaction(), other.transaction():
        for conn in (world.conn, other):
            conn.execute("INSERT INTO naive_ends VALUES (1)")
            seen += conn.execute("SELECT total - (SELECT count(*) FROM naive_ends) FROM naive").fetchall()
    assert seen == [(1,), (1,)]  # nobody saw 0


def test_rows_are_made_due_from_now_and_no_other_is_waited_for(world: World) -> None:
    named, other = (world.enqueue(delay_seconds=3600.0) for _ in range(2))
    locker = user_connection(world)
    locker.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [other])
    world.sql("SET lock_timeout = '5s'")
    with world.conn.transaction():
        ((began,),) = world.sql("SELECT clock_timestamp() FROM pg_sleep(0.02)")
        world.sql("SELECT make_due(%s, '{}')", [named])
    ((due, now),) = world.sql("SELECT available_at, clock_timestamp() FROM live WHERE id = %s", named)
    assert began <= due <= now
