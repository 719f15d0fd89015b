"""An input that the code does not take is changed code: the row waits, and the right code goes on."""

from __future__ import annotations

from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure.errors import InvalidPayload
from tenure.shapes.flow import Flow
from tenure.shapes.flow.definition import Definition
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def _deploy(workflow: Any, function: Any) -> None:
    """The code of version 1 from now on."""
    workflow.versions[1] = Definition(workflow.name, 1, function, False, 600.0)


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_a_flow_whose_input_the_new_code_does_not_take_waits_for_the_right_one(
    shop: Shop, plain: bool, cancelled: bool
) -> None:
    if plain:

        @shop.flows.workflow("sizes")
        def sizes(flow: Flow, i: int) -> None:
            flow.step("one", shop.do, i, undo=lambda *_: shop.do("undo"))
            flow.wait_for("go")

        def changed(flow: Flow, i: int, size: int) -> None:
            shop.do("never")
    else:

        @shop.flows.workflow("sizes")
        async def sizes(flow: Flow, i: int) -> None:
            await flow.step("one", shop.ado, i, undo=lambda *_: shop.do("undo"))
            await flow.wait_for("go")

        async def changed(flow: Flow, i: int, size: int) -> None:  # type: ignore[misc]
            shop.do("never")

    began_with = sizes.newest.function
    said = "definition differs: sizes version 1 does not take the input that it has"
    with shop.work():
        sent = sizes.start(shop.world.conn, i=1)
        shop.asleep(sent.id)
        _deploy(sizes, changed)
        if cancelled:
            sizes.of(sent.id).cancel(shop.world.conn, "no stock")
        else:
            sizes.of(sent.id).signal(shop.world.conn, "go")
        eventually(lambda: said in (shop.world.row(sent.id).last_error or ""))
        row = shop.world.row(sent.id)
        assert (row.status, row.attempts) == ("pending", 0)
        assert ("it is to be cancelled (no stock)" in (row.last_error or "")) is cancelled
        _deploy(sizes, began_with)
        shop.ended(sent.id, "cancelled" if cancelled else "completed", forward=True)
    assert shop.did == ([1, "undo"] if cancelled else [1])


@pytest.mark.parametrize("fields", [{"wrong": 1}, {}, {"i": "one"}, {"i": 1, "more": 2}])
def test_beginning_anew_with_an_input_that_the_function_does_not_take_is_refused_in_the_function(
    shop: Shop, fields: dict[str, Any]
) -> None:
    @shop.flows.workflow("again")
    async def again(flow: Flow, i: int) -> None:
        try:
            flow.anew(**fields)
        except InvalidPayload as error:
            shop.do(str(error))

    with shop.work():
        sent = again.start(shop.world.conn, i=0)
        shop.ended(sent.id)
    (said,) = shop.did
    assert said.startswith("'again' ")
