"""Guarantee 7, in the database: per key at most one row in flight, and no row before an earlier one."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from guarantees.facts import Beside, together, user_connection
from patience import SECONDS_MAX, soon
from tenure import verbs
from tenure.model.rows import NewRow
from tenure.verbs import fleet, questions, queues, settle
from world import World


def _ordered(world: World, key: str = "order:1", **options: Any) -> UUID:
    return world.enqueue(key=key, ordered=True, **options)


def _claimed(world: World, worker: str = "A", **options: Any) -> list[UUID]:
    return [job.id for job in world.claim_ordered(worker, **options)]


def test_a_key_has_one_row_in_flight_and_the_others_follow_in_order(world: World) -> None:
    ids = [_ordered(world) for _ in range(4)]
    for id in ids:
        (job,) = world.claim_ordered("A")
        assert job.id == id
        assert _claimed(world, "A") == _claimed(world, "B") == []
        assert world.complete(job.lease).ok
    assert _claimed(world) == []
    assert not world.keys_taken()


def test_keys_do_not_wait_for_each_other(world: World) -> None:
    first = [_ordered(world, f"order:{n}") for n in range(5)]
    for n in range(5):
        _ordered(world, f"order:{n}")
    assert sorted(_claimed(world)) == sorted(first)


def test_a_key_is_a_key_of_its_queue(world: World) -> None:
    mail, web = _ordered(world, queue="mail"), _ordered(world, queue="web")
    assert _claimed(world, queues=["mail"]) == [mail]
    assert _claimed(world, queues=["mail"]) == []
    assert _claimed(world, queues=["mail", "web"]) == [web]
    assert _claimed(world) == []


def _keys_of_bucket_7(world: World, n: int) -> list[str]:
    query = "SELECT key FROM generate_series(1, 9999) AS s (n), concat('order:', n) AS key WHERE bucket(key) = 7"
    return [key for (key,) in world.sql(f"{query} ORDER BY key LIMIT %s", n)]


def test_keys_of_one_bucket_are_told_apart(world: World) -> None:
    keys = _keys_of_bucket_7(world, 3)
    heads = [_ordered(world, key) for key in keys]
    for key in keys:
        _ordered(world, key)
    assert sorted(_claimed(world, buckets=[7])) == sorted(heads)
    assert _claimed(world, buckets=[7]) == []


def test_only_the_named_buckets_are_claimed(world: World) -> None:
    id = _ordered(world)
    bucket = world.row(id).partition_bucket
    assert _claimed(world, buckets=[(bucket + 1) % 1024]) == []
    assert _claimed(world, buckets=[bucket]) == [id]


def test_unordered_rows_are_left_to_the_plain_claim(world: World) -> None:
    world.enqueue(key="order:1")
    id = _ordered(world)
    assert _claimed(world) == [id]


def test_a_claim_takes_at_most_n_and_a_blocked_key_uses_up_none_of_it(world: World) -> None:
    first, second, third = (_ordered(world, f"order:{n}") for n in range(3))
    assert _claimed(world, n=1) == [first]
    assert _claimed(world, n=1) == [second]
    assert _claimed(world, n=5) == [third]


def test_a_key_held_for_an_operator_uses_up_none_of_the_claim(world: World) -> None:
    _ordered(world, "order:1", hold=True, max_attempts=1)
    _ordered(world, "order:1")
    free = _ordered(world, "order:2")
    job = next(job for job in world.claim_ordered() if job.partition_key == "order:1")
    assert world.retry(job.lease).status == "dead_letter"
    world.sql(
        "UPDATE live SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,"
        " claim_id = NULL, available_at = available_at"
    )
    assert _claimed(world, n=1) == [free]


@pytest.mark.parametrize("way", ["retry", "expiry", "schedule"])
def test_a_head_that_waits_for_its_time_blocks_its_key_and_no_other(world: World, way: str) -> None:
    if way == "schedule":
        head = _ordered(world, at=datetime.now(UTC) + timedelta(hours=1))
    else:
        head = _ordered(world)
        (job,) = world.claim_ordered("A")
        if way == "retry":
            assert world.retry(job.lease, delay=60).ok
        else:
            world.expire(job.lease)
            assert len(world.sweep()) == 1
    _ordered(world)
    other = _ordered(world, "order:2")
    assert _claimed(world, "B") == [other]
    world.due()
    assert _claimed(world, "B") == [head]


@pytest.mark.parametrize("end", ["complete", "fail", "dead_letter", "cancel"])
def test_the_next_row_goes_on_when_the_head_has_ended(world: World, end: str) -> None:
    head, follower = _ordered(world), _ordered(world)
    if end == "cancel":
        assert world.run(verbs.cancel([head])) == {head: "cancelled"}
    else:
        (job,) = world.claim_ordered("A")
        assert job.id == head
        assert getattr(world, end)(job.lease).ok
    assert _claimed(world, "B") == [follower]


@pytest.mark.parametrize("end", ["release", "retry", "expiry"])
def test_a_head_asked_to_cancel_frees_its_key_when_it_ends(world: World, end: str) -> None:
    head, follower = _ordered(world, hold=True), _ordered(world)
    (job,) = world.claim_ordered("A")
    assert world.run(verbs.cancel([head])) == {head: "asked"}
    assert _claimed(world, "B") == []
    if end == "expiry":
        world.expire(job.lease)
        assert [each.status for each in world.sweep()] == ["cancelled"]
    else:
        assert getattr(world, end)(job.lease).status == "cancelled"
    assert _claimed(world, "B") == [follower]


@pytest.mark.parametrize("end", ["fail", "dead_letter", "retry", "expiry"])
def test_a_key_on_hold_waits_for_an_operator_and_then_goes_on_in_order(world: World, end: str) -> None:
    head, follower = _ordered(world, hold=True, max_attempts=1), _ordered(world)
    (job,) = world.claim_ordered("A")
    if end == "expiry":
        world.expire(job.lease)
        world.sweep()
    else:
        getattr(world, end)(job.lease)
    assert world.status(head) == ("failed" if end == "fail" else "dead_letter")
    assert _claimed(world, "B") == []
    assert world.run(verbs.sweep_pages()) == []
    assert world.run(verbs.redrive([head])) == [head]
    (job,) = world.claim_ordered("B")
    assert job.id == head  # still the first, with its old place in the stream
    assert world.complete(job.lease).ok
    assert _claimed(world, "B") == [follower]


def test_a_key_on_hold_goes_on_when_its_head_completes_or_is_released(world: World) -> None:
    head, follower = _ordered(world, hold=True), _ordered(world, hold=True)
    (job,) = world.claim_ordered("A")
    assert world.release(job.lease).ok
    (job,) = world.claim_ordered("B")
    assert job.id == head
    assert world.complete(job.lease).ok
    assert _claimed(world) == [follower]


def test_a_redriven_row_takes_its_old_place_but_does_not_join_the_row_in_flight(world: World) -> None:
    head, second, third = (_ordered(world) for _ in range(3))
    (job,) = world.claim_ordered("A")
    world.fail(job.lease)
    (job,) = world.claim_ordered("A")
    assert job.id == second
    world.run(verbs.redrive([head]))
    assert _claimed(world, "B") == []
    world.complete(job.lease)
    assert _claimed(world, "B") == [head]
    assert world.status(third) == "pending"


@pytest.mark.parametrize("status", ["draining", "dead"])
def test_a_worker_that_drains_or_was_declared_dead_claims_nothing(world: World, status: str) -> None:
    _ordered(world)
    world.run(fleet.register("A"))
    world.sql("UPDATE workers SET status = %s", status)
    assert _claimed(world, "A") == []
    assert not world.keys_taken()
    assert len(_claimed(world, "B")) == 1


def test_a_claim_does_not_wait_for_a_head_that_is_locked(world: World) -> None:
    locked, free = _ordered(world, "order:1"), _ordered(world, "order:2")
    _ordered(world, "order:1")
    other = user_connection(world)
    other.execute("SELECT 1 FROM live WHERE id = %s FOR UPDATE", [locked])
    assert Beside(lambda: _claimed(world)).result() == [free]
    other.rollback()
    assert _claimed(world) == [locked]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_head_that_commits_late_does_not_join_the_row_in_flight(world: World, end: str) -> None:
    """A row enqueued earlier but committed later becomes the head behind the back of an open claim."""
    producer, claimer = user_connection(world), user_connection(world)
    late = world.run(verbs.enqueue(NewRow("k", key="order:1", ordered=True)), producer).id
    early = _ordered(world)
    (job,) = world.run(verbs.claim_ordered("A", 10), claimer)
    assert job.id == early
    producer.commit()
    assert Beside(lambda: _claimed(world, "B")).result() == []  # it does not wait
    getattr(claimer, end)()
    assert _claimed(world, "B") == ([] if end == "commit" else [late])
    in_flight = world.sql("SELECT count(*) FROM live WHERE status = 'processing'")
    assert in_flight == [(1,)]


def test_claimers_at_once_never_hold_two_rows_of_a_key_and_never_turn_two_round(world: World) -> None:
    keys, length = 6, 8
    for n in range(length):
        for key in range(keys):
            _ordered(world, f"order:{key}", payload={"n": n})
    connections = [world.connect() for _ in range(6)]
    deadline = time.monotonic() + SECONDS_MAX

    def work(number: int) -> None:
        conn = connections[number]
        while time.monotonic() < deadline:
            jobs = world.run(verbs.claim_ordered(f"w{number}", 3), conn)
            for job in jobs:
                conn.execute("INSERT INTO handled (key, n) VALUES (%s, %s)", [job.partition_key, job.decode()["n"]])
                held = conn.execute(
                    "SELECT count(*) FROM live WHERE status = 'processing' AND partition_key = %s", [job.partition_key]
                ).fetchone()
                assert held == (1,)
                assert world.run(settle.complete([job.lease]), conn)[0].ok
            if not jobs and conn.execute("SELECT 1 FROM live LIMIT 1").fetchone() is None:
                return

    world.sql("CREATE TABLE handled (at bigserial, key text, n int)")
    together(6, work)
    for key in range(keys):
        order = [n for (n,) in world.sql("SELECT n FROM handled WHERE key = %s ORDER BY at", f"order:{key}")]
        assert order == list(range(length))
    assert not world.keys_taken()


def test_the_tokens_of_an_ordered_row_rise_like_any_others(world: World) -> None:
    _ordered(world)
    (first,) = world.claim_ordered("A", claim_id=4711, lease_seconds=60)
    assert (first.lease.generation, first.attempts) == (1, 1)
    assert world.run(questions.claimed("A", 4711)) == [first]
    world.retry(first.lease, delay=0)
    (second,) = world.claim_ordered("A")
    assert (second.lease.generation, second.attempts) == (2, 2)
    assert second.lease.fence > first.lease.fence


@pytest.mark.parametrize("limited", [False, True])
def test_a_row_whose_arrival_somebody_else_is_looking_at_is_not_overtaken(world: World, limited: bool) -> None:
    """It is committed, and the head of its key does not know it: another claim has its arrival and not yet the head."""

    def claim() -> list[Any]:
        if limited:
            return [job.id for job in world.run(queues.claim_limited("A", 9, "default"))]
        return [job.id for job in world.claim_ordered("A", 9)]

    if limited:
        world.run(queues.limit("default", max_running=9))
    producer = user_connection(world)
    first = world.run(verbs.enqueue(NewRow("k", key="a", ordered=True)), producer).id
    seconds = soon(1.0)
    second = world.enqueue(key="a", ordered=True, delay_seconds=seconds)
    assert claim() == []  # the head knows of the second row, which is not due
    producer.commit()
    world.enqueue(key="b", ordered=True, queue="other")
    other = user_connection(world)
    other.execute("SELECT 1 FROM arrivals FOR UPDATE")
    time.sleep(seconds + 0.1)
    assert claim() == []
    beside = world.enqueue(key="b", ordered=True)
    assert claim() == [beside]  # of that key nothing is looked at, and nothing stands before it
    other.rollback()
    assert claim() == [first]
    assert second not in claim()
