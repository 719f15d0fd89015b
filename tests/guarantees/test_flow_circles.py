"""An attempt at a flow is freed when it ends: what waits for the garbage collector costs more than the steps."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow
from tenure.shapes.flow.core import Core
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


@pytest.fixture
def before() -> Iterator[list[Core]]:
    """Attempts of other tests that are held still; no collector frees what comes after."""
    gc.collect()
    gc.disable()
    yield _attempts()
    gc.enable()


def _attempts() -> list[Core]:
    return [each for each in gc.get_objects() if type(each) is Core]


@pytest.mark.parametrize("plain", [False, True])
def test_an_attempt_is_freed_when_it_sleeps_and_when_it_ends(shop: Shop, before: list[Core], plain: bool) -> None:
    async def branch(flow: Flow) -> None:
        await flow.step("below", shop.ado, "below")

    @shop.inbox.handler("child", result=True)
    def child(n: int) -> int:
        return n

    @shop.flows.workflow("naps")
    async def naps(flow: Flow) -> None:
        await flow.step("first", lambda: shop.do(str(flow.id)))
        await flow.call(child, n=1)
        await flow.parallel(flow.step("left", shop.do, "left"), flow.step("right", shop.ado, "right"), branch(flow))
        await flow.wait_for("go")

    @shop.flows.workflow("plain naps")
    def plain_naps(flow: Flow) -> None:
        flow.step("first", lambda: shop.do(str(flow.id)))
        flow.call(child, n=1)
        flow.wait_for("go")

    workflow = plain_naps if plain else naps
    with shop.work():
        id = workflow.start(shop.world.conn).id
        shop.asleep(id)
        eventually(lambda: len(_attempts()) == len(before))
        workflow.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
        eventually(lambda: len(_attempts()) == len(before))
