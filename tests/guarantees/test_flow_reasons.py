"""Why a flow was cancelled: what its row says in the end is what somebody gave as the reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Fixed
from tenure.shapes.flow import Flow, Tries
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


@pytest.mark.parametrize("at", ["a step", "a fenced step", "a step that fails", "a wait", "a wait beside a step"])
def test_a_cancel_that_comes_while_the_flow_works_keeps_its_reason(shop: Shop, at: str) -> None:
    async def held(*_: Any) -> None:
        while "asked" not in shop.did:
            await asyncio.sleep(0.01)
        if at == "a step that fails":
            raise ValueError("no")

    async def until_the_wait_is_over() -> None:
        while not await asyncio.to_thread(shop.recorded, "wait:never", "cancelled"):
            await asyncio.sleep(0.01)

    @shop.flows.workflow("work")
    async def work(flow: Flow) -> None:
        shop.do("begun")
        if at == "a fenced step":
            await flow.fenced("held", held)
        elif at == "a wait":
            await held()
        elif at == "a wait beside a step":
            await flow.parallel(flow.wait_for("never"), flow.step("held", until_the_wait_is_over))
        else:
            await flow.step("held", held, retry=Tries(3, Fixed(60)))
        await flow.wait_for("never")

    with shop.work():
        id = work.start(shop.world.conn).id
        eventually(lambda: "begun" in shop.did)
        work.of(id).cancel(shop.world.conn, reason="no stock")
        shop.do("asked")
        shop.ended(id, "cancelled")
    assert (shop.world.row(id).last_error or "").removeprefix("cancelled: ") == "no stock"
    assert shop.world.sql("SELECT DISTINCT error FROM steps WHERE state = 'cancelled'") == [("no stock",)]
    assert shop.did == ["begun", "asked"]
