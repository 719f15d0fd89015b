"""Calls about many rows at once: nothing is lost on the way in, and nothing is answered for the wrong row."""

from __future__ import annotations

import asyncio

import pytest

from tenure import postgres, verbs
from tenure.errors import BadSettings, ServerBehind
from tenure.model.rows import Lane, NewRow
from tenure.verbs import settle
from world import World


def test_rows_that_come_from_a_generator_all_go_in(world: World) -> None:
    answers = world.run(verbs.enqueue_many(NewRow("send_receipt", {"n": n}) for n in range(5)))
    assert [answer.outcome for answer in answers] == ["enqueued"] * 5
    assert world.count("live") == 5


def test_a_batch_is_completed_and_the_next_claimed_in_one_round_trip(world: World) -> None:
    ids = [world.enqueue() for _ in range(4)]
    first = world.claim("A", 2, buckets=None)
    settled, second = postgres.run_both(world.conn, settle.complete(first), verbs.claim("A", 2), world.schema)
    assert [each.standing for each in settled] == ["applied", "applied"]
    assert {job.id for job in first} | {job.id for job in second} == set(ids)
    again, none = postgres.run_both(world.conn, settle.complete(first), verbs.claim("A", 2), world.schema)
    assert [each.standing for each in again] == ["already_mine", "already_mine"]
    assert none == []


def test_when_the_claim_fails_the_completion_beside_it_is_taken_back(world: World) -> None:
    world.enqueue()
    held = world.claim("A", 1)
    world.enqueue()
    behind = verbs.claim("A", 1, seen_epoch=9)
    with pytest.raises(ServerBehind, match="epoch 9 was seen elsewhere"):
        postgres.run_both(world.conn, settle.complete(held), behind, world.schema)
    assert world.status(held[0].id) == "processing"
    assert world.complete(held[0].lease).standing == "applied"


def test_the_same_awaiting(world: World) -> None:
    for _ in range(4):
        world.enqueue()
    first = world.claim("A", 2)

    async def turn() -> tuple[int, int]:
        async with await postgres.connect_async(world.url) as conn:
            settled, second = await postgres.run_both(conn, settle.complete(first), verbs.claim("A", 2), world.schema)
            return sum(each.ok for each in settled), len(second)

    assert asyncio.run(turn()) == (2, 2)


def test_errors_and_delays_must_match_the_leases_one_by_one(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    for errors in ("boom", [], ["one", "two"]):
        with pytest.raises(BadSettings, match="one entry for each of the 1 leases"):
            settle.retry([lease], errors)
    for delay in (-1.0, 9e12, float("nan")):
        with pytest.raises(BadSettings, match="must be between 0 and"):
            settle.retry([lease], ["boom"], delays=[delay])
    assert world.status(lease.id) == "processing"


def test_floors_must_match_the_walks(world: World) -> None:
    world.enqueue()
    with pytest.raises(BadSettings, match="2 floors for 1 lanes"):
        verbs.claim("A", 1, floors=[0.0, 0.0])


def test_an_expired_row_is_swept_in_the_last_of_very_many_queues(world: World) -> None:
    world.run(verbs.enqueue_many(NewRow("send_receipt", queue=f"q{n:04}") for n in range(1100)))
    job = world.claim_one(lanes=[Lane("q1099", 0)], buckets=None)
    world.expire(job.lease)
    assert [swept.id for swept in world.sweep()] == [job.id]
