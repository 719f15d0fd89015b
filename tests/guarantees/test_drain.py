"""Guarantee 11: a drained worker leaves no held row behind and costs no attempt."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from pathlib import Path

import pytest

from crew import Process, eventually, processes, working
from patience import soon
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import TRY_LATER, BadSettings
from tenure.events import JobCompleted, JobReleased, WorkerDraining, WorkerExit
from tenure.verbs import questions
from tenure.worker.config import Terms
from world import World

pytestmark = pytest.mark.one_server


def sleeper(pool: str) -> tuple[Inbox, threading.Event]:
    """An inbox whose handler runs until it is let go."""
    inbox = Inbox()
    gate = threading.Event()
    if pool == "loop":

        @inbox.handler("sleeps")
        async def sleeps(job: Job) -> None:
            while not gate.is_set():
                await asyncio.sleep(0.01)
    else:

        @inbox.handler("sleeps")
        def sleeps(job: Job) -> None:
            gate.wait(90)

    return inbox, gate


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_handlers_may_finish_and_nothing_more_is_claimed(world: World, pool: str) -> None:
    inbox, gate = sleeper(pool)
    ids = [world.enqueue("sleeps") for _ in range(5)]
    with working(world, inbox, slots=2) as hired:
        eventually(lambda: hired.worker.held.slots_used == 2)
        hired.worker.stop()
        hired.saw(WorkerDraining)
        eventually(lambda: world.sql("SELECT status FROM workers") == [("draining",)])
        gate.set()
        assert hired.gone() == 0
    assert len(hired.of(JobCompleted)) == 2
    assert sorted(world.row(id).status for id in ids) == ["completed"] * 2 + ["pending"] * 3
    assert sum(world.row(id).attempts for id in ids) == 2
    assert world.sql("SELECT * FROM workers") == []


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_handlers_that_take_too_long_give_their_rows_back_without_cost(world: World, pool: str) -> None:
    inbox, gate = sleeper(pool)
    ids = [world.enqueue("sleeps") for _ in range(3)]
    with working(world, inbox, drain_seconds=0.3) as hired:
        eventually(lambda: hired.worker.held.slots_used == 3)
        assert hired.stop() == 0
        gate.set()
    assert len(hired.of(JobReleased)) == 3
    rows = [world.row(id) for id in ids]
    assert [(row.status, row.attempts, row.claimed_by) for row in rows] == [("pending", 0, None)] * 3
    assert [tape.outcome for tape in world.run(questions.tape(ids[0]))] == ["released"]


def test_a_second_signal_does_not_wait(world: World) -> None:
    inbox, gate = sleeper("loop")
    world.enqueue("sleeps")
    with working(world, inbox, drain_seconds=80) as hired:
        eventually(lambda: hired.worker.held.slots_used == 1)
        hired.worker.stop()
        hired.saw(WorkerDraining)
        began = time.monotonic()
        assert hired.stop() == 0
    assert time.monotonic() - began < soon(10)
    gate.set()
    assert world.sql("SELECT status, attempts FROM live") == [("pending", 0)]


def test_leases_are_kept_while_draining(world: World) -> None:
    inbox, gate = sleeper("thread")
    id = world.enqueue("sleeps")
    with working(world, inbox, lease_seconds=1.0, drain_seconds=0.9) as hired:
        eventually(lambda: hired.worker.held.slots_used == 1)
        first = world.sql("SELECT lease_expires_at FROM live")
        hired.worker.stop()
        eventually(lambda: world.sql("SELECT lease_expires_at FROM live") > first)
        gate.set()
        assert hired.gone() == 0
    assert world.row(id).status == "completed"


def test_a_handler_that_neither_ends_nor_obeys_gives_its_row_back_all_the_same(world: World) -> None:
    inbox = Inbox()
    gate = threading.Event()

    @inbox.handler("deaf")
    async def deaf(job: Job) -> None:
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    id = world.enqueue("deaf")
    with working(world, inbox, drain_seconds=0.3) as hired:
        eventually(lambda: hired.worker.held.slots_used == 1)
        assert hired.stop() == 0
        gate.set()
    row = world.row(id)
    assert (row.status, row.attempts, row.claimed_by) == ("pending", 0, None)
    assert world.sql("SELECT * FROM workers") == []


def test_a_handler_that_blocks_the_loop_does_not_hold_up_the_drain(world: World) -> None:
    inbox = Inbox()
    gate, last = threading.Event(), threading.Event()
    codes: list[int] = []

    @inbox.handler("blocks")
    async def blocks(job: Job) -> None:
        gate.wait(600)  # the loop itself stands still

    id = world.enqueue("blocks")

    def at_last(code: int) -> None:
        codes.append(code)
        last.set()

    with working(world, inbox, drain_seconds=0.3, at_last=at_last) as hired:
        eventually(lambda: hired.worker.held.slots_used == 1)
        hired.worker.stop()
        assert last.wait(90), "the process would not have ended"
        row = world.row(id)
        gate.set()
    assert codes == [0]
    assert (row.status, row.attempts) == ("pending", 0)


def test_a_process_whose_loop_is_blocked_ends_on_sigterm_and_gives_its_row_back(world: World, tmp_path: Path) -> None:
    id = world.enqueue("stuck")
    process = Process(world, "apps.stuck:inbox", tmp_path, "--drain-seconds", "1")
    with processes(process):
        process.saw("execution_started")
        assert process.end() == 0
    row = world.row(id)
    assert (row.status, row.attempts) == ("pending", 0)
    assert world.sql("SELECT * FROM workers") == []


def test_a_silent_database_does_not_hold_up_the_exit(world: World) -> None:
    inbox, gate = sleeper("loop")
    id = world.enqueue("sleeps")
    with FaultProxy(world.url) as proxy, working(world, inbox, url=proxy.url, drain_seconds=0.5) as hired:
        eventually(lambda: hired.worker.held.slots_used == 1)
        proxy.blackhole()
        began = time.monotonic()
        assert hired.stop(90) == TRY_LATER
        took = time.monotonic() - began
        proxy.heal()
    gate.set()
    assert took < soon(15)
    assert "rows left behind" in hired.of(WorkerExit)[0].reason
    assert world.row(id).status == "processing", "its lease runs out, and then it runs elsewhere"


def test_control_a_worker_that_just_goes_leaves_its_row_behind(world: World) -> None:
    inbox, gate = sleeper("loop")
    id = world.enqueue("sleeps")
    with working(world, inbox) as hired:
        eventually(lambda: hired.worker.held.slots_used == 1)
        hired.worker.posts[0].end()
        eventually(lambda: not hired.worker.claimer.is_alive())
        assert world.row(id).status == "processing"
        assert world.row(id).attempts == 1
        gate.set()


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"drain_seconds": 120}, "drain_seconds=120 must be below lease_seconds=90: a drained row would expire first"),
        ({"slots": 0}, "slots=0"),
        ({"queues": {}}, "queues is empty"),
        ({"queues": {"a": -1}}, "weight -1"),
        ({"lease_seconds": 0}, "lease_seconds=0"),
        ({"poll_seconds": float("nan")}, "poll_seconds=nan"),
        ({"heartbeat_seconds": 20}, "ttl_seconds=30 must be at least twice heartbeat_seconds=20"),
        ({"schema": "Bad Name"}, "schema 'Bad Name'"),
    ],
)
def test_terms_that_contradict_each_other_are_refused(terms: dict[str, object], says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        Terms("", **terms)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_leaves_whichever_thread_gets_the_signal(world: World, tmp_path: Path, number: int) -> None:
    """Python's handler runs on the main thread, and that sleeps: it must be woken."""
    worker = Process(world, "apps.deaf_main:inbox", tmp_path)
    with processes(worker):
        worker.saw("ring_changed")
        world.enqueue("nothing")
        worker.saw("job_completed")
        time.sleep(1.0)  # now nothing happens on its loop
        assert worker.end(number) == 0
