"""What bodies of steps and undos may do: what they raise, return and ask for is judged as theirs, and said plainly."""

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
AT_ONCE = Tries(3, Fixed(0))


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


# -- a body that raises CancelledError itself


async def _awaits_what_was_cancelled(*given: Any) -> None:
    asleep = asyncio.create_task(asyncio.sleep(60))
    asleep.cancel()
    await asleep


def _one_step(shop: Shop, how: str, body: Any, undo: Any) -> Any:
    if how == "plain":

        @shop.flows.workflow("one")
        def one(flow: Flow) -> None:
            flow.step("hold", shop.do, "hold", undo=undo)
            flow.step("charge", body, retry=AT_ONCE, undo=undo)

        return one

    @shop.flows.workflow("one")
    async def one_async(flow: Flow) -> None:
        await flow.step("hold", shop.ado, "hold", undo=undo)
        call = flow.fenced if how == "fenced" else flow.step
        terms = {"timeout_seconds": 30.0} if how == "timed" else {}
        await call("charge", body, retry=AT_ONCE, undo=undo, **terms)

    return one_async


@pytest.mark.parametrize("how", ["async", "timed", "fenced", "plain"])
def test_a_body_that_raises_cancelled_error_itself_is_tried_again_up_to_its_retry_and_fails(
    shop: Shop, how: str
) -> None:
    def body(*given: Any) -> Any:
        shop.do("charge")
        made = _awaits_what_was_cancelled()
        return asyncio.run(made) if how == "plain" else made

    def undo(*given: Any) -> None:
        shop.do("undo")

    one = _one_step(shop, how, body, undo)
    with shop.work():
        sent = one.start(shop.world.conn)
        shop.ended(sent.id, "failed")
    undone = ["undo"] if how == "fenced" else ["undo", "undo"]  # a fenced one was rolled back
    assert shop.did == ["hold", "charge", "charge", "charge", *undone]
    assert "step 'charge' failed: CancelledError" in (shop.world.row(sent.id).last_error or "")


@pytest.mark.parametrize("plain", [False, True])
def test_an_undo_that_raises_cancelled_error_itself_has_so_many_tries_and_leaves_a_dead_letter(
    shop: Shop, plain: bool
) -> None:
    def body() -> Any:
        raise RuntimeError("no")

    def undo(*given: Any) -> Any:
        shop.do("undo")
        made = _awaits_what_was_cancelled()
        return asyncio.run(made) if plain else made

    one = _one_step(shop, "plain" if plain else "async", body, undo)
    with shop.work():
        sent = one.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter")
    assert shop.did == ["hold", "undo", "undo", "undo"]
    assert "left to undo: charge, hold" in (shop.world.row(sent.id).last_error or "")


def test_a_step_that_the_function_itself_gives_up_is_not_its_failure(shop: Shop) -> None:
    @shop.flows.workflow("gives-up")
    async def gives_up(flow: Flow) -> None:
        try:
            async with asyncio.timeout(0.2):
                await flow.step("long", asyncio.sleep, 60, retry=AT_ONCE)
        except TimeoutError:
            shop.do("gave up")

    with shop.work():
        sent = gives_up.start(shop.world.conn)
        shop.ended(sent.id)
    assert shop.did == ["gave up"]
    assert shop.names() == []


def test_a_function_that_raises_cancelled_error_itself_can_be_cancelled_and_undoes(shop: Shop) -> None:
    @shop.flows.workflow("broken")
    async def broken(flow: Flow) -> None:
        await flow.step("hold", shop.ado, "hold", undo=undo)
        await _awaits_what_was_cancelled()

    async def undo(*given: Any) -> None:
        shop.do("undo")

    with shop.work():
        sent = broken.start(shop.world.conn)
        eventually(lambda: "CancelledError" in (shop.world.row(sent.id).last_error or ""))
        broken.of(sent.id).cancel(shop.world.conn)
        shop.ended(sent.id, "cancelled", forward=True)
    assert shop.did == ["hold", "undo"]
