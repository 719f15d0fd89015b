"""A slice of `make soak-flows`: workers killed, a deploy in the middle, random signals; and its judge."""

from __future__ import annotations

from pathlib import Path

import pytest

import servers
from chaos.soak_flows import Order, Plan, Soak
from world import World

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


def test_all_flows_end_right_though_workers_are_killed_and_replaced(world: World, tmp_path: Path) -> None:
    soak = Soak(world, tmp_path, Plan(flows=40, workers=2, seed=3, seconds_max=400))
    assert soak.run() == []
    assert {order.version for order in soak.orders} == {1, 2, 3}
    first = soak.orders[0].id
    world.sql("INSERT INTO deeds VALUES (%s, 'reserve')", first)  # the control: an effect twice is found
    (wrong,) = soak.judge()
    assert str(first) in wrong
    soak.orders[0] = Order(first, 1, waits=False, fails=not soak.orders[0].fails)
    assert soak.judge() != []
