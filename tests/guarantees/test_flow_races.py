"""Races of branches: one wins, and what the others had not used is still there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Crash, Shop
from tenure.shapes.flow import TIMED_OUT, Flow
from tenure.verbs import steps
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def _race(shop: Shop, *branches: Any, crash: bool = False) -> Any:
    """A race of these, after a signal `begin` if they shall meet their signals at work; then a wait for b."""
    crashes = [Crash()] if crash else []

    @shop.flows.workflow("race")
    async def race(flow: Flow, held: bool) -> None:
        if held:
            await flow.step("hold", eventual)
        won = await flow.first(*(branch(flow) for branch in branches))
        if crashes:
            raise crashes.pop()
        left = await flow.wait_for("b", timeout_seconds=60)
        await flow.step("end", shop.ado, (won, "nothing" if left is TIMED_OUT else left))

    async def eventual() -> None:
        while "signalled" not in shop.did:
            await asyncio.sleep(0.01)

    return race


def _signalled(shop: Shop, race: Any, held: bool, waits: int) -> list[str]:
    """Start it, and send it a and b in one transaction: asleep, or while it works. What is answered."""
    sent = race.start(shop.world.conn, held=held)
    if held:
        eventually(lambda: shop.world.status(sent.id) == "processing")
    else:
        shop.asleep(sent.id, waits)
    with shop.world.conn.transaction():
        answers: list[str] = [shop.world.run(steps.signal(sent.id, name, name)).outcome for name in "ab"]
    shop.do("signalled")
    shop.ended(sent.id, forward=True)
    return answers


async def _a(flow: Flow) -> Any:
    return await flow.wait_for("a")


async def _b(flow: Flow) -> Any:
    return await flow.wait_for("b")


async def _both_ways(flow: Flow) -> Any:
    """Nested: what it waits for is deeper."""
    return await flow.parallel(_b(flow), flow.wait_for("never"))


async def _race_within(flow: Flow) -> Any:
    return await flow.first(flow.parallel(flow.wait_for("never"), _b(flow)), flow.wait_for("nothing"))


def _call_itself(flow: Flow) -> Any:
    return flow.wait_for("b")


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(("loser", "waits"), [(_b, 2), (_call_itself, 2), (_both_ways, 3), (_race_within, 4)])
def test_a_signal_that_came_to_a_branch_that_lost_is_there_for_the_next_wait(
    shop: Shop, loser: Any, waits: int, held: bool, crash: bool
) -> None:
    race = _race(shop, (lambda flow: flow.wait_for("a")) if loser is _call_itself else _a, loser, crash=crash)
    with shop.work():
        answers = _signalled(shop, race, held, waits)
    assert answers == (["queued", "queued"] if held else ["delivered", "delivered"])
    assert shop.did == ["signalled", ("a", "b")]
    assert shop.world.count("signals") == 0


@pytest.mark.parametrize("held", [False, True])
def test_a_branch_that_lost_is_not_let_at_its_signal(shop: Shop, held: bool) -> None:
    async def acts(flow: Flow) -> None:
        word = await flow.wait_for("b")
        await flow.step("acts", shop.ado, ("acts", word))

    race = _race(shop, _a, acts)
    with shop.work():
        _signalled(shop, race, held, 2)
    assert shop.did == ["signalled", ("a", "b")]


def test_a_signal_that_a_branch_has_used_before_it_lost_is_used(shop: Shop) -> None:
    async def acts(flow: Flow) -> None:
        word = await flow.wait_for("b")
        await flow.step("acts", shop.ado, ("acts", word))
        await flow.wait_for("never")

    race = _race(shop, _a, acts)
    with shop.work():
        sent = race.start(shop.world.conn, held=False)
        for name in "ba":
            shop.asleep(sent.id, 2)
            shop.world.run(steps.signal(sent.id, name, name))
            eventually(lambda: ("acts", "b") in shop.did)
        eventually(lambda: shop.recorded("wait:b", "waiting"))
        shop.asleep(sent.id)
        shop.forward()
        shop.ended(sent.id)
    assert shop.did == [("acts", "b"), ("a", "nothing")]


def test_a_signal_given_back_is_not_lost_when_the_attempt_dies_before_the_race_is_recorded(shop: Shop) -> None:
    died = list[int]()

    async def dies(flow: Flow) -> Any:
        word = await flow.wait_for("a")
        if not died:
            died.append(1)
            raise Crash
        return word

    race = _race(shop, dies, _b)
    with shop.work():
        _signalled(shop, race, held=False, waits=2)
    assert shop.did == ["signalled", ("a", "b")]
