"""Before anything is done for the first time, all branches pass what is recorded: a change in one is found first."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def _differs(shop: Shop, id: Any) -> None:
    eventually(lambda: "definition differs" in (shop.world.row(id).last_error or ""))


def _branching(shop: Shop, names: list[str], how: str, pause: float = 0.0) -> Any:
    """A flow whose left branch waits for x and does something, beside a right branch that did something before."""

    async def left(flow: Flow) -> None:
        await flow.wait_for("x")
        await flow.step("charge", shop.ado, "charge", undo=shop.ado)
        await flow.wait_for("never")

    async def right(flow: Flow) -> None:
        await asyncio.sleep(pause)
        await flow.step(names[0], shop.ado, "right", undo=shop.ado)
        await flow.wait_for("go")

    async def branching(flow: Flow) -> None:
        await getattr(flow, how)(left(flow), right(flow))

    return shop.flows.workflow("branching")(branching)


@pytest.mark.parametrize("how", ["parallel", "first"])
@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_no_body_runs_in_a_branch_if_another_branch_is_changed(shop: Shop, how: str, pause: float) -> None:
    names = ["one"]
    branching = _branching(shop, names, how, pause)
    with shop.work():
        sent = branching.start(shop.world.conn)
        shop.asleep(sent.id, 2)
        names[0] = "renamed"
        branching.of(sent.id).signal(shop.world.conn, "x")
        _differs(shop, sent.id)
        assert shop.did == ["right"]
        names[0] = "one"  # the right code goes on
        shop.world.due()
        eventually(lambda: shop.did == ["right", "charge"])


def test_no_body_runs_in_a_branch_if_that_of_another_thread_is_changed(shop: Shop) -> None:
    names = ["one"]

    def left(flow: Flow) -> None:
        flow.wait_for("x")
        flow.step("charge", shop.do, "charge")
        flow.wait_for("never")

    def right(flow: Flow) -> None:
        flow.step(names[0], shop.do, "right")
        flow.wait_for("go")

    @shop.flows.workflow("threads")
    def threads(flow: Flow) -> None:
        flow.parallel(partial(left, flow), partial(right, flow))

    with shop.work():
        sent = threads.start(shop.world.conn)
        shop.asleep(sent.id, 2)
        names[0] = "renamed"
        threads.of(sent.id).signal(shop.world.conn, "x")
        _differs(shop, sent.id)
        assert shop.did == ["right"]
        names[0] = "one"
        shop.world.due()
        eventually(lambda: shop.did == ["right", "charge"])


def test_no_body_runs_beside_a_step_that_is_given_as_it_is_and_changed(shop: Shop) -> None:
    names = ["one"]

    async def left(flow: Flow) -> None:
        await flow.wait_for("x")
        await flow.step("charge", shop.ado, "charge")

    @shop.flows.workflow("as it is")
    async def as_it_is(flow: Flow) -> None:
        await flow.parallel(left(flow), flow.step(names[0], shop.ado, "right"), flow.wait_for("go"))

    with shop.work():
        sent = as_it_is.start(shop.world.conn)
        shop.asleep(sent.id, 2)
        names[0] = "renamed"
        as_it_is.of(sent.id).signal(shop.world.conn, "x")
        _differs(shop, sent.id)
    assert shop.did == ["right"]


def test_a_branch_that_never_comes_to_its_records_does_not_stop_another_for_long(shop: Shop) -> None:
    """It awaits something of its own, here what the other does: nobody waits for it for ever."""
    done, again = asyncio.Event(), list[bool]()

    async def left(flow: Flow) -> None:
        await flow.wait_for("x")
        await flow.step("charge", shop.ado, "charge")
        done.set()

    async def right(flow: Flow) -> None:
        if again:
            await done.wait()
        await flow.step("one", shop.ado, "right")
        await flow.wait_for("go")

    @shop.flows.workflow("in need")
    async def in_need(flow: Flow) -> None:
        await flow.parallel(left(flow), right(flow))

    with shop.work():
        sent = in_need.start(shop.world.conn)
        shop.asleep(sent.id, 2)
        again.append(True)
        for name in ("x", "go"):
            in_need.of(sent.id).signal(shop.world.conn, name)
        shop.ended(sent.id)
    assert shop.did == ["right", "charge"]
