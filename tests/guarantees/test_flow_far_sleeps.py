"""A sleep until a time that is too far away is refused, as a sleep of so many days is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow, FlowLimit
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def test_sleep_until_is_at_most_400_days(shop: Shop) -> None:
    @shop.flows.workflow("far")
    async def far(flow: Flow) -> None:
        for at in (flow.now() + timedelta(days=401), datetime.max.replace(tzinfo=UTC)):
            with pytest.raises(FlowLimit, match="must be within 400 days: sleep until then again, or begin anew"):
                await flow.sleep_until(at)
        await flow.sleep_until(flow.now() + timedelta(days=399))

    with shop.work():
        id = far.start(shop.world.conn).id
        shop.asleep(id)
        assert far.of(id).state(shop.world.conn) is not None
