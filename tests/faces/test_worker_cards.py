"""What the API tells of a worker agrees with itself: the rows it holds, and the slots they take."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from crew import eventually, working
from faces.web_tools import served
from tenure import Inbox, Job
from tenure.verbs import fleet
from world import World

pytestmark = pytest.mark.one_server


def test_slots_and_rows_held_are_of_the_same_moment(world: World) -> None:
    """A card said "1 of 4 slots" beside "3 rows held": the one was of the last heartbeat, the other of now."""
    said: dict[str, Any] = {"slots": 4, "slots_used": 1, "queues": ["default"]}
    world.run(fleet.register("w", said))
    for _ in range(3):
        world.enqueue()
    assert len(world.claim("w", 3)) == 3
    with served(world) as client:
        (card,) = client.get("/api/workers").json()["workers"]
    assert (card["slots_used"], card["held"], card["slots"], card["slots_stuck"]) == (3, 3, 4, 0)


def test_the_rows_of_a_run_share_a_slot(world: World) -> None:
    world.run(fleet.register("w", {"slots": 4, "slots_used": 0, "queues": ["default"]}))
    for key in ("a", "a", "a", "b"):
        world.enqueue(key=key, ordered=True)
    world.enqueue(queue="other", key="a", ordered=True)
    held = world.claim_ordered("w", 10, run_length=5, queues=["default", "other"]) + world.claim_ordered(
        "w", 10, run_length=5, queues=["default", "other"]
    )
    with served(world) as client:
        (card,) = client.get("/api/workers").json()["workers"]
    keys = {(row.queue, row.partition_key) for row in held}
    assert (card["slots_used"], card["held"]) == (len(keys), len(held))
    assert len(held) > len(keys)


def test_a_handler_that_does_not_stop_takes_a_slot_without_a_row(world: World) -> None:
    inbox, go_on = Inbox(), threading.Event()

    @inbox.handler("stubborn", timeout_seconds=0.1, max_attempts=1)
    def stubborn(job: Job) -> None:
        go_on.wait(60)

    with working(world, inbox, heartbeat_seconds=0.2) as hired, served(world) as client:
        world.enqueue("stubborn")
        eventually(lambda: hired.worker.held.slots_stuck == 1)

        def card() -> Any:
            return client.get("/api/workers").json()["workers"][0]

        eventually(lambda: (card()["slots_stuck"], card()["slots_used"], card()["held"]) == (1, 1, 0))
        go_on.set()
        eventually(lambda: (card()["slots_stuck"], card()["slots_used"]) == (0, 0))
