"""A signal that came in by SQL and that no worker can read fails its flow, which undoes what it did."""

from __future__ import annotations

import pytest

from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow, StepFailed
from world import World

pytestmark = pytest.mark.one_server
ODD = ['{"n": 1e5000}', "1e131000", "[" * 1500 + "]" * 1500]


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


@pytest.mark.parametrize("early", [True, False], ids=["it is kept", "it is waited for"])
@pytest.mark.parametrize("text", ODD, ids=["a large number", "many digits", "deep"])
def test_a_signal_that_cannot_be_read_fails_the_flow_and_all_is_undone(shop: Shop, text: str, early: bool) -> None:
    def unreserve(*_: object) -> None:
        shop.do("unreserve")

    @shop.flows.workflow("paid")
    async def paid(flow: Flow) -> None:
        await flow.step("reserve", shop.ado, "reserve", undo=unreserve)
        await flow.wait_for("go")

    def signal() -> None:
        shop.world.sql("SELECT signal(%s, NULL, 'go', %s::jsonb, NULL)", id, text)

    id = paid.start(shop.world.conn).id
    if early:
        signal()
    with shop.work():
        if not early:
            shop.asleep(id)
            signal()
        shop.ended(id, "failed")
    assert shop.did == ["reserve", "unreserve"]
    assert "step 'wait:go' failed: its signal cannot be read" in (shop.world.row(id).last_error or "")


def test_a_flow_may_catch_it_and_wait_for_the_next_one(shop: Shop) -> None:
    @shop.flows.workflow("asks")
    async def asks(flow: Flow) -> None:
        try:
            await flow.wait_for("go")
        except StepFailed as error:
            await flow.step("told", shop.ado, error.step)
        await flow.step("got", shop.ado, await flow.wait_for("go"))

    id = asks.start(shop.world.conn).id
    for text in ("1e5000", "7"):
        shop.world.sql("SELECT signal(%s, NULL, 'go', %s::jsonb, NULL)", id, text)
    with shop.work():
        shop.ended(id)
    assert shop.did == ["wait:go", 7]
