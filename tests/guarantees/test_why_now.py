"""`why` tells what is so now: slots as rows take them, locks by whom they are, a row that was committed late."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from guarantees.facts import user_connection
from tenure.verbs import fleet, questions, queues
from world import World

IDLE = {"queues": ["default"], "kinds": ["send_receipt"], "slots": 2, "slots_used": 0}
FULL = {**IDLE, "slots_used": 2}


def _why(world: World, id: UUID) -> str:
    """What it says; a few seconds count as none: this machine may be slow."""
    return re.sub(r"for [1-9] s", "for 0 s", world.run(questions.why(id)))


def _wait(world: World, seconds: float) -> None:
    """As if this time had passed, for rows and heartbeats."""
    world.sql("UPDATE live SET available_at = available_at - %s * interval '1 second'", seconds)
    world.sql("UPDATE workers SET last_seen_at = last_seen_at - %s * interval '1 second'", seconds)


# -- slots


def test_slots_are_told_as_rows_take_them_now_not_as_the_last_heartbeat_says(world: World) -> None:
    world.run(fleet.register("A", IDLE))
    rows = [world.enqueue() for _ in range(3)]
    leases = [job.lease for job in world.claim("A", 2)]
    waiting = next(id for id in rows if world.status(id) == "pending")
    assert "but all 2 slots of 1 worker are taken" in _why(world, waiting)
    world.complete(leases[0])
    world.run(fleet.heartbeat("A", FULL))
    assert _why(world, waiting).endswith(" and starts with the next claim: 1 of 2 slots are free.")


def test_a_run_of_an_ordered_key_takes_one_slot(world: World) -> None:
    world.run(fleet.register("A", IDLE))
    for key in ("k", "k", "k"):
        world.enqueue(key=key, ordered=True)
    assert len(world.claim_ordered("A", run_length=3)) == 3
    waiting = world.enqueue()
    assert _why(world, waiting).endswith(" and starts with the next claim: 1 of 2 slots are free.")
    world.enqueue(key="other", ordered=True)
    assert len(world.claim_ordered("A")) == 1
    assert "but all 2 slots of 1 worker are taken" in _why(world, waiting)


def test_a_key_that_has_just_changed_waits_for_a_slot_like_others(world: World) -> None:
    world.run(fleet.register("A", IDLE))
    for _ in range(2):
        world.enqueue()
    assert len(world.claim("A", 2)) == 2
    assert "but all 2 slots of 1 worker are taken" in _why(world, world.enqueue(key="k", ordered=True))


def test_slots_that_only_the_heartbeat_knows_of_are_told_with_its_age(world: World) -> None:
    """A handler that lost its row keeps its slot until it returns."""
    id = world.enqueue()
    world.run(fleet.register("A", FULL))
    _wait(world, 12)
    assert _why(world, id) == (
        "It has been due for 12 s, but 12 s ago all 2 slots were taken, some of them by handlers that have lost their "
        "rows and not returned."
    )


# -- a row that was committed late


def test_a_row_that_was_committed_a_moment_ago_is_no_alarm(world: World) -> None:
    world.run(fleet.register("A", IDLE))
    slow = user_connection(world)
    id = slow.execute("SELECT row_id FROM enqueue('send_receipt', '{}')").fetchone()[0]  # type: ignore[index]
    slow.execute("UPDATE live SET available_at = available_at - interval '21 seconds' WHERE id = %s", [id])
    slow.commit()
    assert _why(world, id) == (
        "It has been due for 21 s, and nothing known stands in its way: if it was not committed a moment ago, see "
        "`tenure doctor` and the log of worker A."
    )


# -- who has locked it

LONG = "w" * 60


@pytest.mark.parametrize(
    ("session", "sentence"),
    [
        ("tenure claimer A", ", and worker A is claiming it at this moment."),
        (f"tenure claimer {LONG}", f", and worker {LONG} is claiming it at this moment."),
        ("tenure housekeeper A", ", but worker A (housekeeper) has locked it for 0 s: {pass_by}"),
        ("tenure lease_keeper A", ", but worker A (lease keeper) has locked it for 0 s: {pass_by}"),
        ("tenure redrive", ", but `tenure redrive` has locked it for 0 s: {pass_by}"),
        ("tenure serve events", ", but `tenure serve` has locked it for 0 s: {pass_by}"),
        ("tenure handler", ", but a handler (process {pid} of the server) has locked it for 0 s: {pass_by}"),
        ("tenure", ", but process {pid} of the server has locked it for 0 s: {pass_by}"),
        ("psql", ", but process {pid} of the server has locked it for 0 s: {pass_by}"),
    ],
)
def test_a_part_of_tenure_that_has_locked_it_is_told_by_its_name(world: World, session: str, sentence: str) -> None:
    id = world.enqueue()
    for worker in ("A", "A2", LONG):
        world.run(fleet.register(worker, IDLE))
    other = user_connection(world, application_name=session)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [id])
    words = {"pid": other.info.backend_pid, "pass_by": "claims pass it by until that ends."}
    assert _why(world, id) == f"It has been due for 0 s{sentence.format(**words)}"


# -- words


@pytest.mark.parametrize("limit", [{"max_running": 1}, {"max_per_key": 1}])
def test_a_row_that_waits_is_never_called_runnable_and_no_row_running(world: World, limit: dict[str, Any]) -> None:
    for _ in range(2):
        world.enqueue(key="k")
    later = world.enqueue(delay_seconds=60)
    world.run(fleet.register("A", IDLE))
    world.run(queues.limit("default", **limit))
    assert len(world.run(queues.claim_limited("A", 1, "default"))) == 1
    for id in (later, *(row for (row,) in world.sql("SELECT id FROM live WHERE status = 'pending'"))):
        said = _why(world, id)
        assert "runnable" not in said
        assert "running" not in said
