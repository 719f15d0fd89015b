"""A flow that undoes goes on with that until all is undone, in whatever attempt, and never forward again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from crew import eventually
from guarantees.test_flow_redrive import Redriven
from tenure import Fail, Fixed, Job
from tenure.shapes.flow import Flow, Tries
from tenure.verbs import steps
from world import World

pytestmark = pytest.mark.one_server
ONCE, LATER = Tries(1), Tries(3, Fixed(3600))


@pytest.fixture
def shop(world: World) -> Redriven:
    return Redriven(world)


def _parked(shop: Redriven, id: Any) -> None:
    """Wait until it waits for long."""
    far = "clock_timestamp() + interval '1 min'"
    later = f"SELECT 1 FROM live WHERE id = %s AND status = 'pending' AND available_at > {far}"
    eventually(lambda: shop.world.sql(later, id))


def _undone_at_last(shop: Redriven, id: Any, status: str, broken: str) -> None:
    """Its first undo has failed and waits; that is mended, and the flow ends."""
    eventually(lambda: broken in shop.did)
    _parked(shop, id)
    shop.broken = set()
    shop.forward()
    shop.ended(id, status)


def test_a_flow_that_undoes_does_not_go_on_though_its_child_is_well_again(shop: Redriven) -> None:
    shop.broken = {"child", "unone"}

    @shop.inbox.handler("child", max_attempts=1)
    async def child(job: Job) -> None:
        await shop.abody("child")

    @shop.flows.workflow("parent")
    async def parent(flow: Flow) -> None:
        for name in ("one", "two"):
            await flow.step(name, shop.abody, name, undo=shop.undo, retry=ONCE)
        await flow.call(child)
        await flow.step("ship", shop.abody, "ship")

    with shop.work():
        sent = parent.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter")
        assert shop.did[-2:] == ["untwo", "unone"]
        ((failed,),) = shop.world.sql("SELECT id FROM dead WHERE kind = 'child'")
        shop.broken = set()
        shop.redrive(failed)
        eventually(lambda: shop.did == ["child"])
        shop.redrive(sent.id)
        shop.ended(sent.id, "failed")
    assert shop.did == ["unone"]


@pytest.mark.parametrize("how", ["parallel", "first"])
@pytest.mark.parametrize("naps", [False, True])
def test_a_cancelled_flow_undoes_all_branches_also_in_a_second_attempt(shop: Redriven, how: str, naps: bool) -> None:
    shop.broken = {"unb2"}

    @shop.flows.workflow("branched")
    async def branched(flow: Flow) -> None:
        async def waits() -> None:
            await flow.wait_for("never")

        async def works() -> None:
            for name in ("b1", "b2"):
                await flow.step(name, shop.abody, name, undo=shop.undo, retry=LATER)
                if naps:
                    await flow.sleep(0.001)
            await flow.wait_for("never either")

        await getattr(flow, how)(waits(), works())

    with shop.work():
        sent = branched.start(shop.world.conn)
        eventually(lambda: "b2" in shop.did)
        _parked(shop, sent.id)
        branched.of(sent.id).cancel(shop.world.conn)
        _undone_at_last(shop, sent.id, "cancelled", "unb2")
    assert shop.did == ["b1", "b2", "unb2", "unb2", "unb1"]


def test_a_cancelled_flow_undoes_all_threads_also_in_a_second_attempt(shop: Redriven) -> None:
    def do(name: str) -> str:
        shop.do(name)
        return name

    def undo(result: Any, name: str) -> None:
        shop.do(f"un{name}")
        if f"un{name}" in shop.broken:
            raise ValueError("not yet")

    shop.broken = {"unb2"}

    @shop.flows.workflow("threads")
    def threads(flow: Any) -> None:
        def works() -> None:
            for name in ("b1", "b2"):
                flow.step(name, do, name, undo=undo, retry=LATER)
            flow.wait_for("never either")

        flow.parallel(lambda: flow.wait_for("never"), works)

    with shop.work():
        sent = threads.start(shop.world.conn)
        eventually(lambda: "b2" in shop.did)
        _parked(shop, sent.id)
        threads.of(sent.id).cancel(shop.world.conn)
        _undone_at_last(shop, sent.id, "cancelled", "unb2")
    assert shop.did == ["b1", "b2", "unb2", "unb2", "unb1"]


def test_a_step_in_doubt_of_a_branch_that_lost_is_undone_in_a_second_attempt(shop: Redriven) -> None:
    begun = asyncio.Event()
    shop.broken = {"unlast"}

    @shop.flows.workflow("raced")
    async def raced(flow: Flow) -> None:
        async def wins() -> None:
            await begun.wait()
            await flow.step("wins", shop.abody, "wins")

        async def loses() -> None:
            await flow.step("doubt", doubt, "doubt", undo=shop.undo)

        await flow.first(wins(), loses())
        await flow.step("last", shop.abody, "last", undo=shop.undo, retry=LATER)
        raise RuntimeError("a fault of the function")

    async def doubt(name: str) -> None:
        shop.do(name)
        begun.set()
        await asyncio.sleep(3600)

    with shop.work():
        sent = raced.start(shop.world.conn)
        eventually(lambda: "RuntimeError" in (shop.world.row(sent.id).last_error or ""))
        raced.of(sent.id).cancel(shop.world.conn)
        shop.forward()
        _undone_at_last(shop, sent.id, "cancelled", "unlast")
    assert shop.did == ["doubt", "wins", "last", "unlast", "unlast", "undoubt"]


def test_a_cancel_that_comes_in_the_last_attempt_undoes(shop: Redriven) -> None:
    tried, asked = threading.Event(), threading.Event()

    @shop.flows.workflow("last")
    async def last(flow: Flow) -> None:
        await flow.step("one", shop.abody, "one", undo=shop.undo)
        tried.set()
        while not asked.is_set():
            await asyncio.sleep(0.01)
        raise RuntimeError("a fault of the function")

    with shop.work():
        sent = last.start(shop.world.conn)
        eventually(tried.is_set)
        shop.world.sql("UPDATE live SET attempts = max_attempts WHERE id = %s", sent.id)
        assert shop.world.run(steps.cancel_flow(sent.id, reason="enough"))[1] == "asked"
        asked.set()
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["one", "unone"]


def test_a_flow_that_failed_ends_as_failed_after_several_attempts_to_undo(shop: Redriven) -> None:
    shop.broken = {"untwo"}

    @shop.flows.workflow("failing")
    async def failing(flow: Flow) -> Any:
        for name in ("one", "two"):
            await flow.step(name, shop.abody, name, undo=shop.undo, retry=LATER)
        return Fail("no such card")

    with shop.work():
        sent = failing.start(shop.world.conn)
        _undone_at_last(shop, sent.id, "failed", "untwo")
    assert "no such card" in (shop.world.row(sent.id).last_error or "")
    assert shop.did == ["one", "two", "untwo", "untwo", "unone"]
