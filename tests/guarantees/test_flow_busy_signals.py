"""Who signals in transactions that overlap does not keep a flow from what came long ago, nor from its time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow
from tenure.verbs import steps
from world import World

pytestmark = pytest.mark.one_server
HELD_SECONDS = 0.15


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


@contextlib.contextmanager
def _busy(shop: Shop, id: Any, callers: int = 3) -> Iterator[None]:
    """Callers that signal it again and again, each in a transaction of a sixth of a second; most are duplicates."""
    over = threading.Event()

    def calls(conn: Any, n: int) -> None:
        time.sleep(n * HELD_SECONDS / callers)
        while not over.is_set():
            with conn.transaction():
                shop.world.run(steps.signal(id, "other", n, once=str(n)), conn)
                time.sleep(HELD_SECONDS)

    threads = [threading.Thread(target=calls, args=(shop.world.connect(), n)) for n in range(callers)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join()


def test_signals_that_are_committed_are_received_while_others_signal(shop: Shop) -> None:
    @shop.flows.workflow("busy")
    async def busy(flow: Flow) -> None:
        for _ in range(5):
            await flow.step("got", shop.ado, await flow.wait_for("s"))

    with shop.work():
        id = busy.start(shop.world.conn).id
        shop.asleep(id)
        with _busy(shop, id):
            time.sleep(HELD_SECONDS * 2)
            for n in range(5):
                shop.world.run(steps.signal(id, "s", n))
            eventually(lambda: shop.world.status(id) == "completed")
    assert shop.did == [0, 1, 2, 3, 4]


def test_a_wait_is_over_when_its_time_is_up_while_others_signal(shop: Shop) -> None:
    @shop.flows.workflow("busy")
    async def busy(flow: Flow) -> None:
        for n in range(3):
            await flow.wait_for("s", timeout_seconds=1)
            await flow.step("end", shop.ado, n)

    with shop.work():
        id = busy.start(shop.world.conn).id
        with _busy(shop, id):
            eventually(lambda: shop.world.status(id) == "completed")
