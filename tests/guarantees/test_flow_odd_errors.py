"""What a step's body raises, of odd kinds: a failure like any other, and the same in every attempt."""

from __future__ import annotations

from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Fixed
from tenure.shapes.flow import Flow, StepFailed, Tries
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


@pytest.mark.parametrize("fenced", [False, True])
def test_a_body_that_raises_stepfailed_has_failed_in_every_later_attempt(shop: Shop, fenced: bool) -> None:
    """A body that raises is tried again, up to its retry=; then the workflow sees StepFailed in every later run too."""
    calls, saw = list[int](), list[str]()

    async def body(*tx: Any) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise StepFailed("card", "no such card")
        return "charged after all"

    @shop.flows.workflow("odd")
    async def odd(flow: Flow) -> None:
        try:
            do = flow.fenced if fenced else flow.step
            saw.append(await do("charge", body, retry=Tries(2, Fixed(0))))
        except StepFailed as error:
            saw.append(str(error))
        await flow.wait_for("go")

    with shop.work():
        id = odd.start(shop.world.conn).id
        shop.asleep(id)
        odd.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    assert len(calls) <= 2
    assert len(set(saw)) == 1, saw


def test_a_flow_with_a_body_that_raised_stepfailed_can_be_cancelled(shop: Shop) -> None:
    undone = list[Any]()

    async def body(*tx: Any) -> str:
        raise StepFailed("card", "no such card")

    async def undo(result: Any, *args: Any) -> None:
        undone.append(args)

    @shop.flows.workflow("odd")
    async def odd(flow: Flow) -> None:
        await flow.step("reserve", shop.ado, "reserve", undo=undo)
        try:
            await flow.step("charge", body, retry=Tries(1))
        except StepFailed:
            await flow.step("by invoice", shop.ado, "invoice", undo=undo)
        await flow.wait_for("go")

    with shop.work():
        id = odd.start(shop.world.conn).id
        shop.asleep(id)
        odd.of(id).cancel(shop.world.conn)
        eventually(lambda: shop.world.status(id) == "cancelled")
    assert undone == [("invoice",), ("reserve",)]


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise TypeError("not even this")


class Panic(BaseException):
    """No Exception, as extensions in Rust raise it."""


@pytest.mark.parametrize("error", [Mute(), BaseExceptionGroup("both", [Panic("x")])])
def test_a_step_that_raises_something_odd_is_tried_as_often_as_retry_says_and_the_flow_undoes(
    shop: Shop, error: BaseException
) -> None:
    calls, undone = list[int](), list[Any]()

    async def body() -> None:
        calls.append(1)
        raise error

    async def undo(result: Any, *args: Any) -> None:
        undone.append(args)

    @shop.flows.workflow("odd")
    async def odd(flow: Flow) -> None:
        await flow.step("reserve", shop.ado, "reserve", undo=undo)
        await flow.step("charge", body, retry=Tries(2, Fixed(0)))

    with shop.work():
        id = odd.start(shop.world.conn).id

        def over() -> bool:
            shop.world.due()
            return shop.world.status(id) in ("failed", "dead_letter")

        eventually(over)
    assert (shop.world.status(id), len(calls), undone) == ("failed", 2, [("reserve",)])


@pytest.mark.parametrize("said", ["declined\0", "x" * 10_000 + " declined"], ids=["nul", "long"])
def test_the_error_of_a_step_is_the_same_in_every_attempt(shop: Shop, said: str) -> None:
    saw = list[str]()

    async def body() -> None:
        raise ValueError(said)

    @shop.flows.workflow("odd")
    async def odd(flow: Flow) -> None:
        try:
            await flow.step("charge", body, retry=Tries(1))
        except StepFailed as error:
            saw.append(error.error)
        await flow.wait_for("go")

    with shop.work():
        id = odd.start(shop.world.conn).id
        shop.asleep(id)
        odd.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    assert len(set(saw)) == 1, [(len(each), each[-20:]) for each in saw]
