"""Nothing that could run waits for the next poll, and no slot is lost: what ends makes room for what comes next."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from crew import eventually, working
from patience import soon
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import JobCompleted, LeaseLost
from tenure.verbs import queues
from world import World


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered key", "limited queue"])
def test_the_next_row_starts_when_the_one_before_it_ends(world: World, ordered: bool) -> None:
    inbox = Inbox()

    @inbox.handler("step", key="order:1", ordered=ordered)
    async def step(job: Job) -> None:
        """Nothing to do."""

    if not ordered:
        world.run(queues.limit("default", max_running=1))
    rows = 30
    for _ in range(rows):
        world.run(verbs.enqueue(step.row()))
    with working(world, inbox, poll_seconds=600) as hired:
        began = time.monotonic()
        hired.saw(JobCompleted, rows)
    assert time.monotonic() - began < soon(10)


def test_a_job_lost_before_its_coroutine_began_gives_its_slot_back(world: World) -> None:
    inbox = Inbox()
    blocked = threading.Event()

    @inbox.handler("blocks")
    async def blocks(job: Job) -> None:
        blocked.set()
        time.sleep(1.5)

    @inbox.handler("starts")
    async def starts(job: Job) -> None:
        await asyncio.sleep(0)

    with working(world, inbox, slots=2, lease_seconds=30, drain_seconds=5) as hired:
        blocks.enqueue(world.conn)
        eventually(blocked.is_set)
        id = starts.enqueue(world.conn).id
        (late,) = eventually(lambda: [each for each in hired.worker.held.leased() if each.job.id == id])
        hired.worker.held.lose(late, "lease_lost", hired.worker.id)
        hired.saw(LeaseLost)
        eventually(lambda: hired.worker.held.slots_used == 0)
        assert late.handler_returned
