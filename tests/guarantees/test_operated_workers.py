"""What operators do reaches a living worker at once: it wakes, lets go of what was taken from it, or drains."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from crew import Process, eventually, processes, working
from guarantees.test_wakeup import PROMPT_SECONDS, asleep, echoed, noop, sleeps, started
from patience import soon
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import ExecutionStarted, JobCompleted, LeaseLost, StaleWriteBlocked, WorkerDraining, WorkerExit
from tenure.verbs import fleet, operators, questions
from tenure.verbs.statement import Statement
from world import World

pytestmark = pytest.mark.one_server
HOUR = 3600.0
SELDOM: dict[str, Any] = {"heartbeat_seconds": 60.0, "ttl_seconds": 120.0}  # what is heard sooner was told


def gated() -> tuple[Inbox, threading.Event]:
    """An inbox whose handler runs until it is let go."""
    inbox, gate = Inbox(), threading.Event()

    @inbox.handler("work")
    def work(job: Job) -> None:
        gate.wait(90)

    return inbox, gate


# -- woken


def failed(world: World) -> tuple[UUID, Statement[Any]]:
    id = world.enqueue("work")
    world.fail(world.claim_one("somebody").lease)
    return id, verbs.redrive([id])


def later(world: World) -> tuple[UUID, Statement[Any]]:
    id = world.enqueue("work", delay_seconds=HOUR)
    return id, operators.retry_now([id])


def held(world: World) -> tuple[UUID, Statement[Any]]:
    id = world.enqueue("work")
    world.claim_one("somebody")
    return id, operators.release_held([id])


def behind_a_cancelled_head(world: World) -> tuple[UUID, Statement[Any]]:
    head = world.enqueue("work", key="order:1", ordered=True, delay_seconds=HOUR)
    return world.enqueue("work", key="order:1", ordered=True), verbs.cancel([head])


def behind_a_deleted_head(world: World) -> tuple[UUID, Statement[Any]]:
    head = world.enqueue("work", key="order:1", ordered=True, delay_seconds=HOUR)
    return world.enqueue("work", key="order:1", ordered=True), operators.delete([head])


def behind_a_key_on_hold(world: World) -> tuple[UUID, Statement[Any]]:
    world.enqueue("work", key="order:1", ordered=True, hold=True)
    world.dead_letter(world.claim_ordered("somebody")[0].lease)
    return world.enqueue("work", key="order:1", ordered=True), operators.free_key("default", "order:1")


SCENES = [failed, later, held, behind_a_cancelled_head, behind_a_deleted_head, behind_a_key_on_hold]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_sleeping_worker_starts_at_once_what_an_operator_let_run(world: World, scene: Any) -> None:
    id, statement = scene(world)
    with asleep(world) as hired:
        sent = time.monotonic()
        world.run(statement)
        assert started(hired) == [id]
        assert time.monotonic() - sent < soon(PROMPT_SECONDS)


def test_control_without_the_note_the_row_waits_for_the_next_look(world: World) -> None:
    scenes = [later(world) for _ in range(5)]
    with asleep(world) as hired:
        world.sql("CREATE OR REPLACE FUNCTION rouse(queues text[], buckets int[]) RETURNS void LANGUAGE sql AS ''")

        def waits(id: UUID, statement: Statement[Any]) -> bool:
            sleeps(world, hired)
            world.run(statement)
            echoed(world)
            time.sleep(0.5)  # time enough to start, for a worker that was woken after all
            return id not in {event.job_id for event in hired.of(ExecutionStarted)}

        assert any(waits(*scene) for scene in scenes)  # a note about the ring may wake it just then


# -- taken away


def test_a_living_holder_is_told_that_its_row_was_taken_and_its_completion_is_refused(world: World) -> None:
    inbox, gate = gated()
    id = world.enqueue("work")
    with working(world, inbox, poll_seconds=600.0, slots=1, **SELDOM) as hired:
        started(hired)
        asked = time.monotonic()
        world.run(fleet.drain(hired.worker.id))  # so that somebody else takes it
        assert world.run(operators.release_held([id], reason="it hangs")) == [id]
        (lost,) = hired.saw(LeaseLost)
        assert (lost.job_id, lost.reason) == (id, "lease_lost")
        assert time.monotonic() - asked < soon(PROMPT_SECONDS)  # and not at its next renewal, half a minute later
        second = world.claim_one("B")
        gate.set()
        eventually(lambda: hired.worker.held.slots_used == 0)
        assert not hired.of(JobCompleted)
        assert world.complete(second.lease).ok
    tape = world.run(questions.tape(id))
    assert [(a.worker, a.outcome, a.error) for a in tape] == [
        (hired.worker.id, "released", "it hangs"), ("B", "completed", None),
    ]  # fmt: skip


def test_a_completion_on_its_way_is_refused_when_the_row_was_taken_first(world: World) -> None:
    inbox, gate = gated()
    id = world.enqueue("work")
    with working(world, inbox, slots=1, **SELDOM) as hired:
        started(hired)
        hired.worker.lease_keeper.end()  # nobody is left to hear that the row was taken
        eventually(lambda: not hired.worker.lease_keeper.is_alive())
        world.run(fleet.drain(hired.worker.id))
        world.run(operators.release_held([id]))
        gate.set()
        (blocked,) = hired.saw(StaleWriteBlocked)
        assert (blocked.job_id, blocked.reason, blocked.verb) == (id, "already_released", "complete")
    assert (world.status(id), world.row(id).attempts) == ("pending", 0)


# -- drained


def test_a_drained_worker_finishes_what_it_holds_and_leaves(world: World) -> None:
    inbox, gate = gated()
    first, second = (world.enqueue("work") for _ in range(2))
    with working(world, inbox, slots=1, **SELDOM) as hired:
        assert started(hired) == [first]
        assert world.run(operators.drain_worker(hired.worker.id))
        hired.saw(WorkerDraining)
        gate.set()
        assert hired.gone() == 0
        (end,) = hired.of(WorkerExit)
        assert end.reason == "drained"
    assert (world.status(first), world.status(second)) == ("completed", "pending")
    assert (world.row(first).attempts, world.row(second).attempts) == (1, 0)
    assert world.count("workers") == 0


def test_a_worker_that_hears_no_notes_drains_at_its_next_heartbeat(world: World) -> None:
    with working(world, noop(), heartbeat_seconds=0.5, listen=False) as hired:
        assert world.run(operators.drain_worker(hired.worker.id))
        assert hired.gone() == 0


def test_a_drain_is_for_one_worker(world: World) -> None:
    with asleep(world) as one, asleep(world) as other:
        assert world.run(operators.drain_worker(one.worker.id))
        assert one.gone() == 0
        id = world.enqueue("work")
        assert started(other) == [id]
        assert not other.of(WorkerDraining)


def test_a_real_process_that_is_drained_exits_with_zero(world: World, tmp_path: Path) -> None:
    hired = Process(world, "apps.late:inbox", tmp_path)
    with processes(hired):
        (begun,) = hired.saw("worker_started")
        eventually(lambda: world.sql("SELECT status FROM workers") == [("alive",)])
        assert world.run(operators.drain_worker(begun["worker"]))
        assert hired.process.wait(90) == 0
    assert [event["reason"] for event in hired.events("worker_exit")] == ["drained"]
