"""A body of a fenced step that ends its transaction itself: its record would commit apart from its writes."""

from __future__ import annotations

from typing import Any

import pytest

from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow
from world import World

pytestmark = pytest.mark.one_server


@pytest.mark.parametrize(
    ("ends", "left"),
    [
        ("ROLLBACK", []),
        ("COMMIT", ["reserved"]),
        ("COMMIT AND CHAIN", ["reserved"]),
        ("ROLLBACK; BEGIN", []),
        ("close", []),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_that_ends_its_transaction_itself_has_failed_at_once(
    world: World, ends: str, left: list[str], plain: bool
) -> None:
    shop = Shop(world)

    def reserve(tx: Any) -> None:
        shop.do("reserve")
        tx.execute(shop.insert("reserved"))
        tx.close() if ends == "close" else tx.execute(ends.encode())

    async def areserve(tx: Any) -> None:
        shop.do("reserve")
        await tx.execute(shop.insert("reserved"))
        await (tx.close() if ends == "close" else tx.execute(ends.encode()))

    if plain:

        @shop.flows.workflow("hasty")
        def hasty(flow: Flow) -> None:
            flow.fenced("reserve", reserve)
    else:

        @shop.flows.workflow("hasty")
        async def hasty(flow: Flow) -> None:
            await flow.fenced("reserve", areserve)

    with shop.work():
        id = hasty.start(world.conn).id
        shop.ended(id, "failed")
    assert "leave COMMIT and ROLLBACK to the step" in str(world.row(id).last_error)
    assert (shop.did, shop.ours()) == (["reserve"], left)
