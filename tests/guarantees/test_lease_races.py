"""Guarantee 6: A claims and is stopped, B reclaims and completes, A returns: one effect, and A is refused."""

from __future__ import annotations

import random

import pytest

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.app.fence import fenced
from tenure.errors import StaleLease
from tenure.model.rows import Lease, NewRow
from tenure.verbs import questions, settle
from world import World

RACES = 200


def _effect(world: World, lease: Lease) -> None:
    with fenced(world.conn, lease, schema=world.schema) as tx:
        tx.execute("INSERT INTO receipts VALUES (%s, %s)", [lease.id, lease.generation])


def test_two_hundred_lease_races_end_in_one_effect_each(world: World) -> None:
    world.sql("CREATE TABLE receipts (row_id uuid, token bigint)")
    choices = random.Random(9182)
    for _ in range(RACES):
        id = world.enqueue()
        a = world.claim_one("A", buckets=None).lease
        world.expire(a)
        (swept,) = world.sweep()
        assert swept.id == id
        world.due()
        b = world.claim_one(choices.choice("AB"), buckets=None).lease  # now and then A races itself
        returned_early = choices.random() < 0.5
        if returned_early:
            with pytest.raises(StaleLease):
                _effect(world, a)
        _effect(world, b)
        with pytest.raises(StaleLease):
            _effect(world, a)
        refused = world.complete(a, accept_late=choices.random() < 0.5)
        assert (refused.standing, refused.reason, refused.current) == ("stale", "token_mismatch", 2)
    effects = world.sql("SELECT count(*), count(DISTINCT row_id), min(token) FROM receipts")
    assert effects == [(RACES, RACES, 2)]
    finished = world.sql("SELECT count(*), min(lease_generation), max(lease_generation) FROM archive")
    assert finished == [(RACES, 2, 2)]
    assert world.count("live") == world.count("dead") == 0


def test_completion_and_sweep_at_once_never_both_win(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(RACES)]))
    leases = [job.lease for job in world.claim("A", RACES)]
    world.expire(*leases)
    connections = [world.connect() for _ in range(2)]
    standing: dict[Lease, str] = {}

    def race(number: int) -> None:
        if number == 0:
            for lease in leases:
                (answer,) = world.run(settle.complete([lease], accept_late=True), connections[0])
                standing[lease] = answer.standing
        else:
            for _ in range(RACES // 5):
                world.run(verbs.sweep(n=5), connections[1])

    together(2, race)
    for lease in leases:
        outcomes = [attempt.outcome for attempt in world.run(questions.tape(lease.id))]
        assert outcomes == (["completed"] if standing[lease] == "applied" else ["expired"])
        assert world.status(lease.id) == ("completed" if standing[lease] == "applied" else "pending")
    assert world.count("archive") + world.count("live") == RACES


def test_a_completion_that_arrives_while_the_row_changes_hands_is_refused(world: World) -> None:
    id = world.enqueue()
    a = world.claim_one("A").lease
    world.expire(a)
    taker = user_connection(world)
    world.run(verbs.sweep(), taker)
    taker.execute("UPDATE live SET available_at = statement_timestamp()")
    (b,) = world.run(verbs.claim("B", 1), taker)
    returning = Beside(lambda: world.complete(a, accept_late=True))
    waits_for_a_lock(world, world.conn)
    taker.commit()
    refused = returning.result()
    assert (refused.standing, refused.reason, refused.current) == ("stale", "token_mismatch", 2)
    assert world.complete(b.lease).ok
    assert (world.row(id).finished_by, world.row(id).lease_generation) == ("B", 2)


def test_the_taking_waits_for_a_completion_and_then_finds_nothing(world: World) -> None:
    id = world.enqueue()
    a = world.claim_one("A").lease
    returning = user_connection(world)
    assert world.run(settle.complete([a]), returning)[0].ok
    world.sql("SELECT 1")
    assert world.sweep() == []  # the row is locked: passed over
    assert world.claim("B") == []
    returning.commit()
    assert world.sweep() == []
    assert world.claim("B") == []
    assert world.status(id) == "completed"


def test_a_hundred_returns_of_a_dead_worker_change_nothing(world: World) -> None:
    world.enqueue()
    a = world.claim_one("A").lease
    world.expire(a)
    world.sweep()
    world.due()
    b = world.claim_one("B").lease
    before = world.row(b.id)
    connections = [world.connect() for _ in range(5)]
    together(5, lambda n: [world.run(settle.complete([a], accept_late=True), connections[n]) for _ in range(20)])
    assert world.row(b.id) == before
    assert world.complete(b).ok
