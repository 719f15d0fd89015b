"""Ordered keys beside others: open claims, locked rows, lost replies, paused queues, clocks that are set back."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import psycopg
import pytest

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import fleet, operators, questions, queues, settle
from tenure.worker.key_memory import NO_FLOORS, KeyMemory
from world import World


def _send(world: World, key: str = "k", queue: str = "q", conn: Any = None, **options: Any) -> UUID:
    row = NewRow("work", queue=queue, key=key, ordered=True, **options)
    return world.run(verbs.enqueue(row), conn).id


def _claim(world: World, n: int = 10, conn: Any = None, **options: Any) -> list[Claimed]:
    return world.run(verbs.claim_ordered("A", n, **{"queues": ["q"], **options}), conn)


# -- a reply that was lost


def test_rows_of_a_claim_whose_reply_was_lost_come_in_the_order_of_the_claim(world: World) -> None:
    """They came by number alone: the runs of two keys were mixed, and their rows started side by side."""
    for _ in range(3):
        for queue in ("q", "p"):
            for key in ("b", "a"):
                _send(world, key, queue)
    claimed = _claim(world, queues=["q", "p"], run_length=10, claim_id=77)
    assert len(claimed) == 12
    assert world.run(questions.claimed("A", 77)) == claimed


# -- a row that had begun and is gone


@pytest.mark.parametrize("limited", [False, True])
def test_the_row_behind_one_that_had_begun_does_not_overtake_an_earlier_one(world: World, limited: bool) -> None:
    late = user_connection(world)
    first = _send(world, conn=late)
    begun, behind = _send(world), _send(world)
    (job,) = _claim(world)
    assert job.id == begun
    world.retry(job.lease, delay=0)
    late.commit()
    world.sql("SELECT refresh_heads(ARRAY['q'], 0)")
    if limited:
        world.run(queues.limit("q", max_running=9))
    world.run(verbs.cancel([begun]))
    other = user_connection(world)  # another claim has the arrival, and not yet the head
    other.execute("SELECT FROM arrivals FOR UPDATE")
    got: list[Claimed] = []
    for _ in range(2):
        more = world.run(queues.claim_limited("B", 9, "q")) if limited else _claim(world)
        got += more
        assert behind not in [job.id for job in got]
        other.rollback()
    assert [job.id for job in got] == [first]


# -- heads that another claim makes


def test_a_claim_that_stays_open_stops_no_other_key(world: World) -> None:
    _send(world, "new")
    other = user_connection(world)
    assert len(_claim(world, 1, other)) == 1
    _send(world, "new")
    others = {_send(world, f"other {n}") for n in range(200)}
    world.sql("SET lock_timeout = '30s'")
    found: set[UUID] = set()
    for _ in range(5):
        found |= {job.id for job in Beside(lambda: _claim(world, 300)).result()}
    assert len(found) > len(others) * 0.9  # the rest shares a lock with the key that is being made
    other.rollback()
    assert found | {job.id for job in _claim(world, 300)} >= others


def test_two_claims_make_the_heads_of_many_keys_and_do_not_deadlock(world: World) -> None:
    """Arrivals of many pages, the keys of each in another order."""
    world.sql(
        "INSERT INTO live (kind, payload, queue, partition_key, ordered)"
        " SELECT 'work', '{}', 'q', 'k' || (n * 7919 % 900), true FROM generate_series(1, 3000) AS n"
    )
    world.sql("TRUNCATE arrivals")
    world.sql(
        "INSERT INTO arrivals (queue, partition_key, seq)"
        " SELECT queue, partition_key, seq FROM live ORDER BY md5(seq::text)"
    )
    connections = [world.connect() for _ in range(2)]
    for _ in range(5):
        together(2, lambda n: _claim(world, 10, connections[n]))
        world.sql(
            "UPDATE live SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,"
            " claim_id = NULL WHERE status = 'processing'"
        )
        world.sql("DELETE FROM heads")
        world.sql(
            "INSERT INTO arrivals (queue, partition_key, seq) SELECT queue, partition_key, seq FROM live"
            " ORDER BY md5(seq::text)"
        )


# -- rows that somebody has locked


def _expired_run(world: World) -> tuple[list[Claimed], list[Claimed]]:
    """A run of two whose leases are over, and rows of another queue, too."""
    for _ in range(2):
        _send(world)
    for _ in range(3):
        world.enqueue(queue="other")
    run, others = _claim(world, run_length=10), world.claim("A", 3, lanes=[Lane("other")])
    world.expire(*[job.lease for job in (*run, *others)])
    return run, others


@pytest.mark.parametrize("verb", ["sweep", "sweep_pages", "evict"])
@pytest.mark.parametrize("locked", [0, 1])
def test_a_locked_row_of_a_run_stops_no_sweep(world: World, verb: str, locked: int) -> None:
    world.run(fleet.register("A"))
    run, others = _expired_run(world)
    world.sql("UPDATE workers SET status = 'dead', presence = 1, gone_at = clock_timestamp() - interval '1 hour'")
    sweep = {"sweep": verbs.sweep(), "sweep_pages": verbs.sweep_pages(), "evict": fleet.evict(grace_seconds=1)}[verb]
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [run[locked].id])
    swept = Beside(lambda: world.run(sweep)).result()
    alone = {run[1].id} if locked == 0 else set()  # nothing stands behind it
    assert {each.id for each in swept} == {job.id for job in others} | alone
    other.rollback()
    again = world.run(sweep)
    assert {each.id for each in again} == {job.id for job in run} - alone
    assert world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(0,)]
    world.sql("UPDATE live SET available_at = clock_timestamp()")
    assert [job.id for job in world.claim_ordered("B", queues=["q"])] == [run[0].id]


def test_a_locked_row_of_a_run_stops_no_operator(world: World) -> None:
    for _ in range(3):
        _send(world)
    run = _claim(world, run_length=10)
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [run[2].id])
    assert not Beside(lambda: world.run(operators.release_held([run[0].id]))).result()
    assert world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(3,)]
    other.rollback()
    assert world.run(operators.release_held([run[0].id]))
    assert world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(0,)]


def test_a_row_that_was_committed_late_into_a_run_is_not_waited_for(world: World) -> None:
    _send(world)
    slow = user_connection(world)
    late = _send(world, conn=slow)
    _send(world)
    run = _claim(world, run_length=10)
    slow.commit()
    slow.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [late])
    world.sql("SET lock_timeout = '4s'")
    assert world.retry(run[0].lease).ok
    assert [world.status(job.id) for job in run] == ["pending", "pending"]


def test_the_rest_of_each_run_goes_back_whatever_stands_beside_it(world: World) -> None:
    for key, among in (("x", "pq"), ("y", "qp")):  # of each key a later run in the one queue or in the other
        for queue in among:
            for _ in range(2):
                _send(world, key, queue)
    runs = _claim(world, run_length=2, queues=["p", "q"])
    for first, behind in sorted(zip(runs[::2], runs[1::2], strict=True), key=lambda run: -run[0].seq):
        world.retry(first.lease)
        assert world.status(behind.id) == "pending"


def test_a_holder_waits_for_a_row_behind_and_gives_it_back_if_it_is_still_its_own(world: World) -> None:
    for _ in range(3):
        _send(world)
    run = _claim(world, run_length=10)
    other = user_connection(world)
    world.run(operators.release_held([run[1].id]), other)
    conn = world.connect()
    retry = Beside(lambda: world.run(settle.retry([run[0].lease], [None], delays=[0.0]), conn))
    waits_for_a_lock(world, conn)
    other.commit()
    assert retry.result()[0].ok
    assert world.sql("SELECT attempts, lease_generation FROM live ORDER BY seq") == [(1, 1), (0, 1), (0, 1)]
    assert world.count("attempts") == 3, "each ended once"


def test_a_cancel_and_a_retry_of_one_run_do_not_deadlock(world: World) -> None:
    """Rows of two producers may have ids in another order than their numbers."""
    ids = [UUID(int=2**100 + n) for n in (2, 1)]
    for id in ids:
        columns = "id, kind, payload, queue, partition_key, ordered"
        world.sql(f"INSERT INTO live ({columns}) VALUES (%s, 'work', '{{}}', 'q', 'k', true)", id)
    run = _claim(world, run_length=10)
    assert [job.id for job in run] == ids
    gate = user_connection(world)
    gate.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [ids[0]])
    conns = [world.connect(), world.connect()]
    cancel = Beside(lambda: world.run(verbs.cancel(ids), conns[0]))  # has the second, waits for the first
    waits_for_a_lock(world, conns[0])
    retry = Beside(lambda: world.run(settle.retry([run[0].lease], [None]), conns[1]))
    waits_for_a_lock(world, conns[1])
    gate.rollback()
    assert set(cancel.result().values()) == {"asked"}
    assert retry.result()[0].ok


# -- rows that are moved by hand


@pytest.mark.parametrize("change", ["queue = 'p'", "partition_key = 'other'", "ordered = true"])
def test_a_row_that_is_moved_by_hand_is_found(world: World, change: str) -> None:
    id = world.run(verbs.enqueue(NewRow("work", queue="q", key="k", ordered="ordered" not in change))).id
    world.sql("SELECT refresh_heads(ARRAY['q'], 0)")
    world.sql("DELETE FROM arrivals")
    world.sql(f"UPDATE live SET {change}")
    assert [job.id for job in _claim(world, queues=["q", "p"])] == [id]


# -- the same key in two queues


def test_a_locked_row_does_not_hide_the_key_of_that_name_in_another_queue(world: World) -> None:
    locked, free = _send(world, "k", "a"), _send(world, "k", "b")
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [locked])
    assert [job.id for job in _claim(world, 1, queues=["a", "b"])] == [free]


# -- floors, and a queue that was paused


def test_what_arrived_while_a_queue_was_paused_is_not_below_a_floor(world: World) -> None:
    names, memory = ["q", "busy"], KeyMemory()

    def read() -> None:
        known, floors = memory.known(poll=False)
        offers = world.run(questions.board(names, {}, known_ordered=known, **floors._asdict()))
        memory.board_was_read(offers)

    def claim() -> list[UUID]:
        return [job.id for job in _claim(world, queues=names, **memory.floors()._asdict())]

    late = user_connection(world)
    first = _send(world, conn=late)
    second = _send(world, delay_seconds=1)
    assert claim() == []
    read()
    world.run(queues.pause("q"))
    late.commit()
    for n in range(4):
        _send(world, f"x{n}", "busy")
        read()
        claim()
    assert memory.floors() != NO_FLOORS
    world.run(queues.resume("q"))  # its note is not heard
    time.sleep(1.1)
    read()
    assert claim() == [first]
    assert second not in claim()


# -- settings, isolation, clocks


def test_settings_that_are_made_anew_while_a_claim_waits_hold(world: World) -> None:
    world.run(queues.limit("q", max_running=1))
    for _ in range(3):
        world.enqueue(queue="q")
    other = user_connection(world)
    other.execute("DELETE FROM queues")
    world.run(queues.limit("q", max_running=1), other)
    conn = world.connect()
    claim = Beside(lambda: world.run(queues.claim_limited("A", 9, "q"), conn))
    waits_for_a_lock(world, conn)
    other.commit()
    assert len(claim.result()) + len(world.run(queues.claim_limited("A", 9, "q"))) == 1


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_claims_that_need_read_committed_say_so(world: World, isolation: str) -> None:
    conn = user_connection(world)
    for statement in (verbs.claim_ordered("A", 1), queues.claim_limited("A", 1, "q")):
        conn.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=f"needs READ COMMITTED, not {isolation}"):
            world.run(statement, conn)
        conn.rollback()


@pytest.mark.parametrize("ahead", [True, False])
def test_after_the_clock_was_set_back_keys_are_looked_at_anew(world: World, ahead: bool) -> None:
    id = _send(world)
    world.run(queues.limit("mail", max_per_key=1))
    world.run(queues.claim_limited("A", 1, "mail"))
    world.sql("SELECT refresh_heads(ARRAY['q'], 0)")
    world.sql("UPDATE heads SET due_at = clock_timestamp() + interval '5 minutes'")
    world.sql("UPDATE chores SET ran_at = clock_timestamp() + interval '1 minute' * %s", 5 if ahead else -5)
    assert _claim(world) == []
    world.run(fleet.take_turn("A"))
    assert [job.id for job in _claim(world)] == ([id] if ahead else [])
    assert (world.count("limits_begun") == 0) is ahead
