"""A worker keeps its leases while it lives, and stops by itself when it cannot know that it still holds them."""

from __future__ import annotations

import asyncio
import threading
import time
from uuid import UUID

import pytest

from crew import eventually, working
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.drills.stage.proxy import FaultProxy
from tenure.events import (
    DatabaseBack,
    ExecutionStarted,
    JobCompleted,
    LeaseLost,
    LeasesRenewed,
    LeasesSwept,
    StaleWriteBlocked,
)
from tenure.verbs import fleet, questions
from world import World

pytestmark = pytest.mark.one_server


def lease_end(world: World, id: UUID) -> float:
    (found,) = world.sql("SELECT date_part('epoch', lease_expires_at) FROM live WHERE id = %s", id)
    return float(found[0])


def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_its_lease(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("blocks")
    async def blocks(job: Job) -> None:
        time.sleep(6.0)

    with working(world, inbox, lease_seconds=2.0, drain_seconds=0.5) as hired:
        id = blocks.enqueue(world.conn).id
        hired.saw(JobCompleted)
    assert len(hired.of(LeasesRenewed)) >= 6
    assert not hired.of(LeaseLost)
    assert (world.row(id).status, world.row(id).attempts, world.row(id).lease_generation) == ("completed", 1, 1)


def test_control_without_the_keeper_the_same_handler_loses_its_lease(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("blocks")
    async def blocks(job: Job) -> None:
        time.sleep(1.5 if job.token == 1 else 0)

    with working(world, inbox, lease_seconds=1.0, drain_seconds=0.5, housekeeping=False) as hired:
        hired.worker.lease_keeper.end()
        eventually(lambda: not hired.worker.lease_keeper.is_alive())
        blocks.enqueue(world.conn)
        hired.saw(StaleWriteBlocked)
        hired.worker.posts[0].watchdog.end()


def test_all_held_rows_are_renewed_by_one_statement(world: World) -> None:
    inbox = Inbox()
    gate = asyncio.Event()

    @inbox.handler("waits")
    async def waits(job: Job) -> None:
        await gate.wait()

    for _ in range(30):
        world.enqueue("waits")
    with working(world, inbox, slots=30, lease_seconds=3.0, drain_seconds=1.0) as hired:
        renewed = hired.saw(LeasesRenewed)
        assert renewed[0].rows == 30
        hired.worker._loop.call_soon_threadsafe(gate.set)  # type: ignore[union-attr]
        hired.saw(JobCompleted, 30)


def test_a_handlers_own_lease_length_holds_from_the_start(world: World) -> None:
    inbox = Inbox()
    gate = threading.Event()

    @inbox.handler("long", lease_seconds=600)
    def long(job: Job) -> None:
        gate.wait(90)

    with working(world, inbox, lease_seconds=30.0, drain_seconds=1.0) as hired:
        id = long.enqueue(world.conn).id
        hired.saw(LeasesRenewed)
        left = lease_end(world, id) - time.time()
        gate.set()
        hired.saw(JobCompleted)
    assert 500 < left <= 601


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_lost_lease_stops_the_handler(world: World, pool: str) -> None:
    inbox = Inbox()
    stopped: list[str] = []

    if pool == "loop":

        @inbox.handler("long")
        async def long(job: Job) -> None:
            if job.token > 1:
                return
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                stopped.append(job.lost)
                raise
    else:

        @inbox.handler("long")
        def long(job: Job) -> None:
            while job.token == 1:
                if job.lost:
                    stopped.append(job.lost)
                job.check()
                time.sleep(0.01)

    with working(world, inbox, lease_seconds=3.0, drain_seconds=1.0) as hired:
        id = world.enqueue("long")
        eventually(lambda: world.row(id).status == "processing")
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp() - interval '1 second'")
        (lost,) = hired.saw(LeaseLost)
        hired.saw(JobCompleted)
    assert lost.reason == "lease_lost"
    assert stopped == ["lease_lost"]


def test_a_worker_cut_off_stops_its_handlers_before_the_lease_ends_elsewhere(world: World) -> None:
    inbox = Inbox()
    stopped: list[float] = []

    @inbox.handler("long")
    async def long(job: Job) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.append(time.time())
            raise

    with (
        FaultProxy(world.url) as proxy,
        working(world, inbox, url=proxy.url, lease_seconds=2.0, drain_seconds=1.0, grace_seconds=600) as hired,
    ):
        id = world.enqueue("long")
        hired.saw(ExecutionStarted)  # the row is processing a moment before this worker hears of it
        proxy.blackhole()
        hired.saw(LeaseLost)
        eventually(lambda: stopped)
        ends = lease_end(world, id)
        proxy.heal()
    assert stopped[0] < ends, "the handler outlived its lease"


def test_control_without_the_watchdog_a_handler_cut_off_goes_on_past_its_lease(world: World) -> None:
    inbox = Inbox()
    stopped: list[str] = []

    @inbox.handler("long")
    async def long(job: Job) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.append(job.lost)
            raise

    with (
        FaultProxy(world.url) as proxy,
        working(world, inbox, url=proxy.url, lease_seconds=2.0, drain_seconds=1.0, grace_seconds=600) as hired,
    ):
        hired.worker.posts[0].watchdog.end()
        world.enqueue("long")
        hired.saw(ExecutionStarted)  # the row is processing a moment before this worker hears of it
        proxy.blackhole()
        eventually(lambda: world.run(questions.stuck()))
        assert stopped == []
        proxy.heal()


def test_a_worker_that_lost_its_presence_stops_its_handlers_within_half_the_grace(world: World) -> None:
    inbox = Inbox()
    stopped: list[float] = []

    @inbox.handler("long")
    async def long(job: Job) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.append(time.monotonic())
            raise

    with (
        FaultProxy(world.url) as proxy,
        working(world, inbox, url=proxy.url, lease_seconds=90, drain_seconds=1.0, grace_seconds=4.0) as hired,
    ):
        id = world.enqueue("long")
        eventually(lambda: world.row(id).status == "processing")
        eventually(lambda: hired.worker.lease_keeper.trusted_until < float("inf"))
        proxy.refuse()
        proxy.cut()
        cut = time.monotonic()
        (lost,) = hired.saw(LeaseLost)
        eventually(lambda: stopped)
        proxy.heal()
    assert lost.reason == "presence_lost"
    assert stopped[0] - cut < 4.0


def test_a_short_cut_costs_nothing(world: World) -> None:
    inbox = Inbox()
    gate = asyncio.Event()

    @inbox.handler("long")
    async def long(job: Job) -> None:
        await gate.wait()

    with (
        FaultProxy(world.url) as proxy,
        working(world, inbox, url=proxy.url, drain_seconds=1.0) as hired,
    ):
        id = world.enqueue("long")
        eventually(lambda: world.row(id).status == "processing")
        for _ in range(3):
            back = len(hired.of(DatabaseBack))
            proxy.cut()
            hired.saw(DatabaseBack, back + 1)
        hired.worker._loop.call_soon_threadsafe(gate.set)  # type: ignore[union-attr]
        hired.saw(JobCompleted)
    assert not hired.of(LeaseLost)
    assert (world.row(id).status, world.row(id).lease_generation) == ("completed", 1)


def test_housekeeping_ends_the_leases_of_a_worker_that_vanished(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    ghost = world.connect()
    world.run(fleet.register("ghost"), ghost)
    world.run(fleet.appear("ghost"), ghost)
    id = world.enqueue("work")
    world.claim_one("ghost")
    ghost.close()
    with working(world, inbox, grace_seconds=1.0) as hired:
        hired.saw(JobCompleted)
        assert [event.reason for event in hired.of(LeasesSwept)] == ["worker_gone"]
    assert world.row(id).lease_generation == 2
    assert [attempt.outcome for attempt in world.run(questions.tape(id))] == ["expired", "completed"]


def test_housekeeping_sweeps_a_lease_that_ran_out(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    world.enqueue("work")
    world.run(verbs.claim("nobody", 1, lease_seconds=0.01))
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
        assert hired.of(LeasesSwept)


def test_a_handler_that_goes_on_after_its_fenced_block_is_left_alone(world: World) -> None:
    inbox = Inbox()
    ended: list[str] = []

    @inbox.handler("work")
    async def work(job: Job) -> None:
        async with job.fenced():
            pass
        await asyncio.sleep(2.5)
        ended.append(job.lost)

    with working(world, inbox, lease_seconds=1.0, drain_seconds=0.9, grace_seconds=2.0) as hired:
        id = world.enqueue("work")
        eventually(lambda: ended)
        assert len(hired.of(LeasesRenewed)) <= 2
    assert ended == [""]
    assert world.row(id).status == "completed"
    assert not hired.of(LeaseLost)


def test_a_worker_declared_dead_stops_what_it_held_and_goes_on_under_a_new_id(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("long")
    async def long(job: Job) -> None:
        if job.token == 1:
            await asyncio.sleep(3600)

    with working(world, inbox, heartbeat_seconds=0.2, ttl_seconds=30) as hired:
        first = hired.worker.id
        id = world.enqueue("long")
        eventually(lambda: world.row(id).status == "processing")
        world.sql("UPDATE workers SET status = 'dead'")
        (lost,) = hired.saw(LeaseLost)
        hired.saw(JobCompleted)
        assert hired.worker.id != first
    assert (lost.worker, lost.reason) == (first, "presence_lost")
    assert world.row(id).status == "completed"
