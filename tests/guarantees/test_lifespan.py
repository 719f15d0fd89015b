"""A process resource is open before the first claim and closed after the drain; an application may add chores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crew import Hired, eventually, working
from tenure.app.inbox import Inbox
from tenure.app.lifespan import Host
from tenure.errors import BadSettings, LifespanFailed
from tenure.events import Bus, ChoreDone, ChoreFailed, JobCompleted, WorkerExit, WorkerStarted
from tenure.verbs import questions
from tenure.verbs.fleet import add_chore, take_turn
from tenure.verbs.operators import retry_now
from tenure.worker.config import Terms
from tenure.worker.worker import Worker
from world import World

pytestmark = pytest.mark.one_server


def test_a_lifespan_is_open_before_the_first_claim_and_closed_after_the_drain(world: World) -> None:
    inbox, told = Inbox(schema=world.schema), list[str]()

    @inbox.lifespan
    async def outer() -> AsyncIterator[None]:
        told.append("outer open")
        yield
        told.append("outer closed")

    @inbox.lifespan
    async def inner() -> AsyncIterator[None]:
        await asyncio.sleep(0.2)
        told.append("inner open")
        yield
        told.append("inner closed")

    @inbox.handler("work")
    async def work() -> None:
        told.append("work begins")
        await asyncio.sleep(0.3)
        told.append("work ends")

    work.enqueue(world.conn)
    with working(world, inbox) as hired:
        eventually(lambda: "work begins" in told)
        assert hired.stop() == 0
    assert told == ["outer open", "inner open", "work begins", "work ends", "inner closed", "outer closed"]


def test_a_lifespan_that_cannot_be_opened_stops_the_worker_with_one_sentence(world: World) -> None:
    inbox, closed = Inbox(schema=world.schema), list[str]()

    @inbox.lifespan
    async def first() -> AsyncIterator[None]:
        yield
        closed.append("first")

    @inbox.lifespan
    async def broker() -> AsyncIterator[None]:
        raise ConnectionRefusedError("nobody listens on port 4222")
        yield

    @inbox.handler("work")
    async def work() -> None: ...

    row = work.enqueue(world.conn)
    events: list[Any] = []
    bus = Bus()
    bus.subscribe(events.append)
    worker = Worker(inbox, Terms(world.url, schema=world.schema, queues=inbox.queues), bus)
    with pytest.raises(LifespanFailed, match=r"broker.*nothing was claimed.*nobody listens on port 4222") as failed:
        worker.run()
    assert failed.value.exit_code == 75
    assert closed == ["first"]
    assert world.row(row.id).attempts == 0
    assert not [event for event in events if isinstance(event, WorkerStarted)]
    assert "nothing was claimed" in next(event.reason for event in events if isinstance(event, WorkerExit))


def test_a_stop_while_a_lifespan_opens_is_heard(world: World) -> None:
    inbox = Inbox(schema=world.schema)
    opening = asyncio.Event()

    @inbox.lifespan
    async def slow() -> AsyncIterator[None]:
        opening.set()
        await asyncio.sleep(3600)
        yield

    @inbox.handler("work")
    async def work() -> None: ...

    hired = Hired(inbox, Terms(world.url, schema=world.schema, queues=inbox.queues))
    eventually(opening.is_set)
    assert hired.stop() == 0


def test_a_lifespan_is_told_its_host_may_run_verbs_and_tell_facts(world: World) -> None:
    inbox, seen = Inbox(schema=world.schema), list[Any]()

    @inbox.lifespan
    async def relay(host: Host) -> AsyncIterator[None]:
        seen.append((host.worker(), host.schema, await host.run(questions.bucket("k"))))
        host.tell("shop", {"away_since": "now"})
        yield

    @inbox.handler("work")
    async def work() -> None: ...

    with working(world, inbox) as hired:
        assert seen == [(hired.worker.id, world.schema, world.run(questions.bucket("k")))]
        (worker,) = world.run(questions.workers())
        assert worker.metadata["shop"] == {"away_since": "now"}


def test_what_fails_while_it_closes_is_told_and_costs_no_row(world: World) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.lifespan
    async def clumsy() -> AsyncIterator[None]:
        yield
        raise OSError("the socket is gone")

    @inbox.handler("work")
    async def work() -> None: ...

    row = work.enqueue(world.conn)
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
        assert hired.stop() == 0
        assert "the socket is gone" in hired.of(ChoreFailed)[0].error
    assert world.status(row.id) == "completed"


def test_what_is_no_lifespan_is_refused() -> None:
    async def plain() -> None: ...

    async def greedy(one: object, other: object) -> AsyncIterator[None]:
        yield

    for wrong in (plain, greedy, 7):
        with pytest.raises(BadSettings, match="lifespan"):
            Inbox().lifespan(wrong)  # type: ignore[arg-type]


# -- chores


def test_a_chore_of_an_application_is_run_by_a_worker_that_has_it(world: World) -> None:
    inbox = Inbox(schema=world.schema)
    late = world.enqueue("work", delay_seconds=3600)
    inbox.chore("shop:hurry", 0.5, lambda: retry_now([late]))

    @inbox.handler("work")
    async def work() -> None: ...

    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
        assert "shop:hurry" in {event.chore for event in hired.of(ChoreDone)}
    assert world.status(late) == "completed"


def test_a_worker_is_not_given_a_chore_that_it_does_not_know(world: World) -> None:
    world.run(add_chore("shop:hurry", 0.5))
    assert "leases" in world.run(take_turn("A")).due
    assert "shop:hurry" not in world.run(take_turn("A", chores=["other:one"])).due
    assert world.run(take_turn("A", chores=["shop:hurry"])).due == {"shop:hurry"}


def test_a_chore_entered_again_keeps_when_it_was_done_and_takes_its_new_pace(world: World) -> None:
    world.run(add_chore("shop:hurry", 600))
    world.run(take_turn("A", chores=["shop:hurry"]))
    world.run(add_chore("shop:hurry", 700))
    assert world.sql("SELECT every_seconds, ran_by FROM chores WHERE name = 'shop:hurry'") == [(700.0, "A")]
    assert not world.run(take_turn("A", chores=["shop:hurry"])).due


@pytest.mark.parametrize("wrong", [("leases", 5.0), ("shop:x", 0.0), ("shop:x", "often"), ("", 5.0)])
def test_a_chore_that_could_not_be_done_is_refused(wrong: tuple[str, Any]) -> None:
    with pytest.raises(BadSettings, match="chore"):
        Inbox().chore(*wrong, questions.ping())
    with pytest.raises(BadSettings, match="give it a Statement"):
        Inbox().chore("shop:x", 5.0, "SELECT 1")  # type: ignore[arg-type]
