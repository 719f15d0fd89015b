"""The thread that records for all flows of a worker: an error is told to who asked, and the thread goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow
from tenure.shapes.flow.recorder import Recorder
from world import World

pytestmark = pytest.mark.one_server


class Away:
    """Lends nothing, each time for another reason."""

    def __init__(self) -> None:
        self.asked = 0

    @contextlib.contextmanager
    def blocking(self) -> Iterator[Any]:
        self.asked += 1
        raise RuntimeError(f"no connection, {self.asked}")
        yield


def test_the_recorder_outlives_any_error() -> None:
    told, recorder = list[Any](), Recorder(Away(), "tenure")  # type: ignore[arg-type]
    job: Any = SimpleNamespace(id=1, lost=None)
    for n in (1, 2):
        recorder.send(job, 1, told.append)
        eventually(lambda n=n: len(told) == n)  # type: ignore[misc]
    assert [str(error) for error in told] == ["no connection, 1", "no connection, 2"]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_flows_run_where_another_isolation_is_the_default(world: World, isolation: str) -> None:
    shop = Shop(world)

    @shop.inbox.handler("double", result=True)
    async def double(n: int) -> int:
        return 2 * n

    @shop.flows.workflow("strict", name="strict")
    async def strict(flow: Flow) -> list[int]:
        doubled = [each.value for each in await flow.map(double, [{"n": n} for n in range(20)])]
        await flow.step("step", shop.do, "step")
        await flow.sleep(1)
        return [*doubled[:2], await flow.wait_for("go")]

    option = urlencode({"options": f"-c default_transaction_isolation={isolation.replace(' ', chr(92) + ' ')}"})
    with shop.work(url=f"{world.url}{'&' if '?' in world.url else '?'}{option.replace('+', '%20')}"):
        id = strict.start(world.conn).id
        strict.of("strict").signal(world.conn, "go", 7)
        shop.ended(id)
    assert shop.inbox.result_blocking(id, timeout_seconds=60, url=world.url).value == [0, 2, 7]
