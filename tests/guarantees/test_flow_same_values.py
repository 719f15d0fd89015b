"""What a workflow is told by a step is the same in the attempt that ran it and in every later one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from crew import eventually
from guarantees.flow_shop import Crash, Shop
from tenure.shapes.flow import Flow, FlowLimit
from tenure.shapes.flow.step_values import RESULT_BYTES_MAX, hash_of, written
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


@pytest.mark.parametrize("fenced", [False, True])
def test_a_loop_over_what_a_step_returned_does_each_once_though_an_attempt_dies(shop: Shop, fenced: bool) -> None:
    """The worker dies behind the first reservation: the other attempt walks through the same dict in another order."""
    crashes = [Crash()]

    async def cart(*tx: Any) -> Any:
        return {"peach": 1, "fig": 2}

    @shop.flows.workflow("cart")
    async def walk(flow: Flow) -> None:
        items = await (flow.fenced if fenced else flow.step)("cart", cart)
        for sku, n in items.items():
            await flow.step("reserve", shop.ado, [sku, n])
            if crashes:
                raise crashes.pop()

    with shop.work():
        shop.ended(walk.start(shop.world.conn).id, forward=True)
    assert sorted(shop.did) == [["fig", 2], ["peach", 1]]


def test_the_value_of_a_child_is_walked_through_in_the_same_order(shop: Shop) -> None:
    crashes = [Crash()]

    @shop.flows.workflow("kid", result=True)
    async def kid(flow: Flow) -> Any:
        return {"peach": 1, "fig": 2}

    @shop.flows.workflow("cart")
    async def walk(flow: Flow) -> None:
        for sku, n in (await flow.call(kid)).items():
            await flow.step("reserve", shop.ado, [sku, n])
            if crashes:
                raise crashes.pop()

    with shop.work():
        shop.ended(walk.start(shop.world.conn).id, forward=True)
    assert sorted(shop.did) == [["fig", 2], ["peach", 1]]


def test_the_payload_of_a_signal_is_walked_through_in_the_same_order(shop: Shop) -> None:
    crashes = [Crash()]

    @shop.flows.workflow("cart")
    async def walk(flow: Flow) -> None:
        for sku, n in (await flow.wait_for("cart")).items():
            await flow.step("reserve", shop.ado, [sku, n])
            if crashes:
                raise crashes.pop()

    with shop.work():
        id = walk.start(shop.world.conn).id
        walk.of(id).signal(shop.world.conn, "cart", {"peach": 1, "fig": 2})
        shop.ended(id, forward=True)
    assert sorted(shop.did) == [["fig", 2], ["peach", 1]]


def test_a_strict_flow_that_hands_on_what_a_step_returned_is_no_changed_code(shop: Shop) -> None:
    async def cart() -> Any:
        return {"peach": 1, "fig": 2}

    @shop.flows.workflow("cart", strict=True)
    async def walk(flow: Flow) -> None:
        await flow.step("reserve", shop.ado, await flow.step("cart", cart))
        await flow.wait_for("go")

    with shop.work():
        id = walk.start(shop.world.conn).id
        shop.asleep(id)
        walk.of(id).signal(shop.world.conn, "go")
        eventually(lambda: shop.world.status(id) == "completed")


def test_a_map_over_what_a_step_returned_sends_each_input_once(shop: Shop) -> None:
    """It sleeps between two parts; the second attempt divides the same dict in another order."""
    names, sent = ["peaches", "fig", "plums", "pear"], list[str]()

    async def cart() -> Any:
        return dict.fromkeys(names, 1)

    @shop.inbox.handler("kid", result=True)
    async def kid(sku: str) -> str:
        sent.append(sku)
        return sku

    @shop.flows.workflow("cart", result=True)
    async def walk(flow: Flow) -> Any:
        found = await flow.step("cart", cart)
        return [end.value for end in await flow.map(kid, [{"sku": sku} for sku in found], window=2)]

    with shop.work():
        shop.ended(walk.start(shop.world.conn).id)
    assert sorted(sent) == sorted(names)


@pytest.mark.parametrize("number", [1e16, 2.5e300, -0.0], ids=str)
def test_a_number_is_the_same_in_every_attempt(shop: Shop, number: float) -> None:
    async def count() -> Any:
        return number

    saw = list[Any]()

    @shop.flows.workflow("numbers")
    async def numbers(flow: Flow) -> None:
        saw.append(repr(await flow.step("count", count)))
        await flow.wait_for("go")

    with shop.work():
        id = numbers.start(shop.world.conn).id
        shop.asleep(id)
        numbers.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    eventually(lambda: len(saw) >= 2)
    assert len(set(saw)) == 1, saw


@pytest.mark.parametrize(
    "value", ["{*'abcdefgh'}", "{1, 'a', 'b', (2, 'c')}", "[{1: {*'abcdefgh'}}]", "{(1, 'a'): 2, 'b': {3, 'c', 'd'}}"]
)
def test_the_number_of_arguments_is_the_same_in_every_process(value: str) -> None:
    """A set has another order in each: a flow with strict=True would differ for ever after a crash."""
    code = f"from tenure.shapes.flow.step_values import hash_of; print(hash_of(({value},), {{}}))"
    numbers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(numbers) == 1
    assert numbers != {"0\n"}, "0 is not compared"


@dataclass
class Basket:
    """What a step is given."""

    amounts: dict[int, int]


ONE, TWO = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({1: 2}, {1: 3}),
        ({1: 2}, {2: 2}),
        ({ONE: 1}, {TWO: 1}),
        ([{"a": {1: 2}}], [{"a": {1: 3}}]),
        ({1, "a"}, {2, "a"}),
        ({(1, 2): 3}, {(1, 3): 3}),
        ({None: 1, True: 2}, {None: 2, True: 1}),
        (Basket({1: 2}), Basket({1: 3})),
    ],
)
def test_other_arguments_have_another_number(one: Any, other: Any) -> None:
    """Whatever the names in them are: with strict=True the definition differs."""
    numbers = {hash_of((one,), {}), hash_of((other,), {})}
    assert len(numbers) == 2
    assert 0 not in numbers, "0 is not compared"


def test_the_order_of_names_does_not_count() -> None:
    assert hash_of(({1: 2, "a": 3},), {}) == hash_of(({"a": 3, 1: 2},), {})


def test_a_result_is_measured_in_bytes_as_it_is_kept() -> None:
    """Letters of two bytes were counted as one: twice as much was kept as is said."""
    assert written("step", "é" * (RESULT_BYTES_MAX // 2 - 1))
    with pytest.raises(FlowLimit, match=f"returned {RESULT_BYTES_MAX + 2} bytes"):
        written("step", "é" * (RESULT_BYTES_MAX // 2))
