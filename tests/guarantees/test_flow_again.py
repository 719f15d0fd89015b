"""Which failures a redrive tries again: those that the function has not gone on after, wherever they were asked for."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from guarantees.flow_shop import Rigged
from tenure.shapes.flow import Flow, StepFailed, Tries
from tenure.verbs import redrive
from tenure.verbs.flows import flow_state
from tenure.verbs.questions import why
from world import World

pytestmark = pytest.mark.one_server
ONCE = Tries(1)


class Redriven(Rigged):
    """With steps that are tried once, and a look at what a redrive runs."""

    def step(self, flow: Flow, name: str) -> Any:
        return flow.step(name, self.abody, name, retry=ONCE)

    async def lenient(self, flow: Flow, name: str) -> str:
        """A branch that catches the failure of its step, and returns."""
        try:
            return str(await self.step(flow, name))
        except StepFailed:
            return "other"

    def again(self, workflow: Any, *broken: str, says: str = "") -> list[Any]:
        """What is run by a redrive of a flow that failed with these broken, when they are mended."""
        self.broken = set(broken)
        with self.work():
            id = workflow.start(self.world.conn).id
            self.ended(id, "failed")
            assert f"redrive tries step {says} again." in self.world.run(why(id)) or not says
            self.did.clear()
            self.broken = set()
            self.world.run(redrive([id]))
            self.ended(id)
        return sorted(self.did)


@pytest.fixture
def shop(world: World) -> Redriven:
    return Redriven(world)


def _given_to_parallel(shop: Redriven, flow: Flow) -> Any:
    return flow.parallel(shop.step(flow, "good"), shop.step(flow, "bad"), shop.step(flow, "last"))


def _given_to_first(shop: Redriven, flow: Flow) -> Any:
    return flow.first(shop.step(flow, "bad"), flow.wait_for("never"))


def _given_deeper(shop: Redriven, flow: Flow) -> Any:
    return flow.parallel(flow.parallel(shop.step(flow, "bad"), _bare(shop, flow)), shop.step(flow, "good"))


async def _bare(shop: Redriven, flow: Flow) -> Any:
    return await shop.step(flow, "bare")


def _below(shop: Redriven, flow: Flow) -> Any:
    return flow.parallel(flow.parallel(_named_bad(shop, flow)), shop.step(flow, "good"))


async def _named_bad(shop: Redriven, flow: Flow) -> Any:
    return await shop.step(flow, "bad")


def _gathered(shop: Redriven, flow: Flow) -> Any:
    return asyncio.gather(shop.step(flow, "bad"), shop.step(flow, "good"))


@pytest.mark.parametrize("ask", [_given_to_parallel, _given_to_first, _given_deeper, _below, _gathered])
def test_a_step_that_was_given_as_it_is_is_tried_again(shop: Redriven, ask: Any) -> None:
    @shop.flows.workflow("given")
    async def given(flow: Flow) -> None:
        await flow.step("before", shop.abody, "before")
        await ask(shop, flow)
        await flow.step("after", shop.abody, "after")

    assert shop.again(given, "bad", says="bad") == ["after", "bad"]


def test_a_step_of_a_branch_in_a_thread_is_tried_again(shop: Redriven) -> None:
    @shop.flows.workflow("threads")
    def threads(flow: Flow) -> None:
        flow.parallel(*(partial(flow.step, name, shop.body, name, retry=ONCE) for name in ("good", "bad")))

    assert shop.again(threads, "bad", says="bad") == ["bad"]


def test_what_was_given_and_then_caught_stays_a_failure(shop: Redriven) -> None:
    @shop.flows.workflow("caught")
    async def caught(flow: Flow) -> None:
        try:
            await flow.parallel(shop.step(flow, "good"), shop.step(flow, "caught"))
        except StepFailed:
            await shop.step(flow, "instead")
        await shop.step(flow, "bad")

    assert shop.again(caught, "caught", "bad", says="bad") == ["bad"]


@pytest.mark.parametrize("bad_first", [True, False])
def test_what_a_branch_caught_before_it_returned_stays_a_failure(shop: Redriven, bad_first: bool) -> None:
    """Nothing of the branch is recorded behind it, whether the other failure is recorded before its own or after."""
    turn = asyncio.Event()

    async def body(name: str, *, waits: bool) -> str:
        if waits:
            await turn.wait()
        turn.set()
        return shop.body(name)

    async def branch(flow: Flow) -> str:
        try:
            return str(await flow.step("caught", body, "caught", waits=bad_first, retry=ONCE))
        except StepFailed:
            return "other"

    @shop.flows.workflow("half")
    async def half(flow: Flow) -> None:
        turn.clear()
        bad = flow.step("bad", body, "bad", waits=not bad_first, retry=ONCE)
        turn_over = flow.parallel(branch(flow), bad)
        if shop.broken == set():
            turn.set()
        assert await turn_over == ["other", "bad"]

    assert shop.again(half, "caught", "bad", says="bad") == ["bad"]


def test_what_a_branch_in_a_thread_caught_stays_a_failure(shop: Redriven) -> None:
    def lenient(flow: Flow) -> str:
        try:
            return str(flow.step("caught", shop.body, "caught", retry=ONCE))
        except StepFailed:
            return "other"

    @shop.flows.workflow("threads")
    def threads(flow: Flow) -> None:
        found = flow.parallel(partial(lenient, flow), partial(flow.step, "bad", shop.body, "bad", retry=ONCE))
        assert found == ["other", "bad"]

    assert shop.again(threads, "caught", "bad", says="bad") == ["bad"]


def test_what_the_winner_of_a_race_caught_stays_a_failure(shop: Redriven) -> None:
    @shop.flows.workflow("race")
    async def race(flow: Flow) -> None:
        async def both() -> str:
            return str(await flow.first(shop.lenient(flow, "caught"), flow.wait_for("never")))

        assert await flow.parallel(both(), shop.step(flow, "bad")) == ["other", "bad"]

    assert shop.again(race, "caught", "bad", says="bad") == ["bad"]


def test_two_calls_given_as_they_are_are_looked_at_again(shop: Redriven) -> None:
    @shop.inbox.handler("pack", result=True, max_attempts=1)
    async def pack(name: str) -> str:
        return shop.body(name)

    @shop.flows.workflow("calls")
    async def calls(flow: Flow) -> None:
        await flow.parallel(flow.call(pack, name="bad"), flow.call(pack, name="good"))

    _with_the_child_mended(shop, calls)


def test_the_first_part_of_a_map_is_looked_at_again(shop: Redriven) -> None:
    @shop.inbox.handler("pack", result=True, max_attempts=1)
    async def pack(name: str) -> str:
        return shop.body(name)

    @shop.flows.workflow("parts")
    async def parts(flow: Flow) -> None:
        for end in await flow.map(pack, ["bad", "good"], window=1):
            if end.status != "completed":
                raise StepFailed("pack", str(end.error))

    _with_the_child_mended(shop, parts)


def _with_the_child_mended(shop: Redriven, workflow: Any) -> None:
    """The flow fails since its child did; both are redriven, the child first, and the flow completes."""
    shop.broken = {"bad"}
    with shop.work():
        id = workflow.start(shop.world.conn).id
        shop.ended(id, "failed")
        assert " of pack and let it end, then this one" in shop.world.run(why(id))
        shop.broken = set()
        ((child,),) = shop.world.sql("SELECT id FROM dead WHERE kind = 'pack'")
        shop.world.run(redrive([child]))
        shop.ended(child)
        shop.world.run(redrive([id]))
        shop.ended(id)
    assert sorted(shop.did) == ["bad", "bad", "good"]


def test_a_failed_step_shows_no_result(shop: Redriven) -> None:
    @shop.flows.workflow("plain")
    async def plain(flow: Flow) -> None:
        await shop.step(flow, "bad")

    shop.broken = {"bad"}
    with shop.work():
        id = plain.start(shop.world.conn).id
        shop.ended(id, "failed")
    state = shop.world.run(flow_state(id))
    assert state is not None
    assert [(step.name, step.result) for step in state.steps] == [("bad", None)]
