"""Tasks of the author's own beside the calls of a flow: their steps count as work, and their failures as failures."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow, Tries
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


async def slowly(shop: Shop, what: str) -> str:
    shop.did.append(what)
    await asyncio.sleep(0.3)
    return what


def test_a_step_in_a_task_is_at_work_before_the_flow_sleeps(shop: Shop) -> None:
    @shop.flows.workflow("beside")
    async def beside(flow: Flow) -> None:
        task = asyncio.create_task(flow.step("work", slowly, shop, "work"))
        await flow.sleep(1.5)
        await flow.sleep(1.5)
        shop.did.append(await task)

    with shop.work():
        shop.ended(beside.start(shop.world.conn).id)
    assert shop.did == ["work", "work"]


def test_a_step_in_a_group_of_tasks_runs_once_beside_waits(shop: Shop) -> None:
    @shop.flows.workflow("in a group")
    async def in_a_group(flow: Flow) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(flow.sleep(1.5))
            group.create_task(flow.wait_for("go"))
            group.create_task(flow.step("work", slowly, shop, "work"))

    with shop.work():
        id = in_a_group.start(shop.world.conn).id
        eventually(lambda: shop.world.sql("SELECT 1 FROM steps WHERE name = 'work' AND state = 'done'"))
        in_a_group.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    assert shop.did == ["work"]


def test_a_gathered_step_runs_once_beside_waits(shop: Shop) -> None:
    @shop.flows.workflow("gathers")
    async def gathers(flow: Flow) -> None:
        await asyncio.gather(flow.sleep(1.5), flow.wait_for("go"), flow.step("work", slowly, shop, "work"))

    with shop.work():
        id = gathers.start(shop.world.conn).id
        eventually(lambda: shop.world.sql("SELECT 1 FROM steps WHERE name = 'work' AND state = 'done'"))
        gathers.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    assert shop.did == ["work"]


@pytest.mark.parametrize("depth", [1, 4])
def test_a_step_below_several_tasks_is_at_work_before_the_flow_sleeps(shop: Shop, depth: int) -> None:
    async def below(call: Any, depth: int) -> Any:
        return await (asyncio.create_task(below(call, depth - 1)) if depth else call)

    @shop.flows.workflow("deep")
    async def deep(flow: Flow) -> None:
        await asyncio.gather(flow.sleep(1.5), below(flow.step("work", slowly, shop, "work"), depth))

    with shop.work():
        shop.ended(deep.start(shop.world.conn).id)
    assert shop.did == ["work"]


def test_what_a_function_leaves_behind_when_it_returns_is_not_waited_for(shop: Shop) -> None:
    @shop.flows.workflow("leaves")
    async def leaves(flow: Flow) -> None:
        task = asyncio.create_task(flow.wait_for("never"))
        await asyncio.sleep(0)
        shop.did.append(task.done())

    with shop.work():
        for id in [leaves.start(shop.world.conn).id for _ in range(20)]:
            shop.ended(id)
    assert shop.did == [False] * 20


def test_a_call_that_is_never_awaited_does_not_keep_the_flow_awake(shop: Shop) -> None:
    @shop.flows.workflow("forgets")
    async def forgets(flow: Flow) -> None:
        kept = flow.step("never", shop.ado, "never")
        await flow.wait_for("go")
        kept.close()

    with shop.work():
        id = forgets.start(shop.world.conn).id
        shop.asleep(id)


def test_a_step_that_fails_in_a_group_of_tasks_fails_the_flow_and_all_is_undone(shop: Shop) -> None:
    async def breaks() -> None:
        await asyncio.sleep(0.3)  # the other is done by then
        raise ValueError("broken")

    @shop.flows.workflow("grouped")
    async def grouped(flow: Flow) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(flow.step("pay", shop.ado, "pay", undo=lambda *_: shop.did.append("undone")))
            group.create_task(flow.step("break", breaks, retry=Tries(1)))

    with shop.work():
        id = grouped.start(shop.world.conn).id
        shop.ended(id, "failed")
    assert shop.did == ["pay", "undone"]
    ((error,),) = shop.world.sql("SELECT last_error FROM inbox WHERE id = %s", id)
    assert error == "step 'break' failed: ValueError: broken", "no traceback"


def test_an_error_of_the_functions_own_in_a_group_is_tried_again(shop: Shop) -> None:
    async def breaks() -> None:
        shop.did.append("tried")
        if len(shop.did) < 3:
            raise KeyError("broken")

    @shop.flows.workflow("mends")
    async def mends(flow: Flow) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(breaks())

    with shop.work():
        id = mends.start(shop.world.conn).id
        shop.ended(id, forward=True)
    assert len(shop.did) == 3


def test_a_step_that_returns_a_future_is_awaited_and_so_is_its_undo(shop: Shop) -> None:
    def in_a_thread(what: str, *_: object) -> asyncio.Future[str]:
        return asyncio.get_running_loop().run_in_executor(None, functools.partial(shop.do, what, what))

    @shop.flows.workflow("futures")
    async def futures(flow: Flow) -> None:
        shop.did.append(await flow.step("pay", in_a_thread, "pay", undo=lambda *_: in_a_thread("back")) + "!")
        await flow.step("break", in_a_thread, "break")
        await flow.step("fails", _fails, retry=Tries(1))

    async def _fails() -> None:
        raise ValueError("no")

    with shop.work():
        shop.ended(futures.start(shop.world.conn).id, "failed")
    assert shop.did == ["pay", "pay!", "break", "back"]
