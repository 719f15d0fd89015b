"""What a crash costs a flow: an attempt, until something new is recorded. The same once more is nothing new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from guarantees.flow_shop import Crash, Shop
from tenure.shapes.flow import Flow
from tenure.verbs import steps
from tenure.verbs.steps import Recording, Step
from world import World

pytestmark = pytest.mark.one_server
BEGUN = Step("", 0, "charge", "begun")
DONE = Step("", 0, "charge", "done", result="1")


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


async def _take_back(result: Any, *given: Any) -> None:
    pass


async def _kills(shop: Shop, flow: Flow) -> None:
    async def charge() -> None:
        shop.do("charge")
        raise Crash

    flow.show("stage", "charging")
    await flow.step("charge", charge, undo=_take_back)


async def _fails_beside(shop: Shop, flow: Flow) -> None:
    async def charge() -> None:
        shop.do("charge")
        await asyncio.sleep(600)

    async def fails() -> None:
        while not shop.recorded("charge", "begun"):
            await asyncio.sleep(0.01)
        raise ValueError("not mended yet")

    async with asyncio.TaskGroup() as both:
        both.create_task(flow.step("charge", charge, undo=_take_back))
        both.create_task(fails())


@pytest.mark.parametrize("body", [_kills, _fails_beside])
def test_a_step_with_undo_that_begins_in_every_attempt_ends_in_a_dead_letter(
    shop: Shop, body: Callable[[Shop, Flow], Any]
) -> None:
    @shop.flows.workflow("checkout")
    async def checkout(flow: Flow) -> None:
        await body(shop, flow)

    with shop.work():
        sent = checkout.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter", forward=True)
    assert shop.world.row(sent.id).attempts == 20


def _attempts_after(world: World, before: Step | None, *then: Step, **shown: str) -> list[int]:
    """Attempts of two flows: of one that recorded this after so many attempts, and of another that says nothing new."""
    headers = {"tenure-flow": "checkout"}
    for _ in range(2):
        world.enqueue("checkout", headers=headers, max_attempts=20)
    one, other = (claimed.lease for claimed in sorted(world.claim("A", 2), key=lambda each: each.id))
    if before is not None:
        world.run(steps.record([Recording(lease, 1, [before]) for lease in (one, other)]))
    world.sql("UPDATE live SET attempts = 7")
    again = Recording(other, 1, [], {"stage": '"charging"'}) if before is None else Recording(other, 1, [before])
    world.run(steps.record([Recording(one, 1, then, shown), again]))
    return [world.row(lease.id).attempts for lease in (one, other)]


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (None, BEGUN),
        (BEGUN, BEGUN._replace(tries=2)),
        (BEGUN, DONE),
        (BEGUN, BEGUN._replace(n=1)),
        (BEGUN, BEGUN._replace(path="0.0")),
        (BEGUN._replace(state="retrying"), BEGUN),
        (DONE, DONE._replace(n=1)),
    ],
)
def test_what_is_new_begins_the_attempts_of_its_own_flow_anew(world: World, before: Step | None, then: Step) -> None:
    assert _attempts_after(world, before, *_beside(before, then), then) == [1, 7]


def _beside(before: Step | None, then: Step) -> list[Step]:
    return [before] if before is not None and before[:2] != then[:2] else []


@pytest.mark.parametrize(
    ("before", "then"),
    [(BEGUN, [BEGUN]), (DONE, [DONE]), (DONE, [BEGUN]), (DONE, [DONE._replace(tries=2)]), (None, []), (BEGUN, [])],
)
def test_what_was_there_before_and_what_is_shown_is_no_progress(
    world: World, before: Step | None, then: list[Step]
) -> None:
    assert _attempts_after(world, before, *then, stage='"charging"') == [7, 7]
    assert world.sql("SELECT DISTINCT value FROM shown") == [("charging",)]


def test_who_sends_nothing_at_all_says_that_it_works(world: World) -> None:
    """As a projection does that has nothing to apply."""
    world.enqueue("checkout")
    lease = world.claim_one().lease
    world.sql("UPDATE live SET attempts = 7")
    world.run(steps.record([Recording(lease, 1, ())]))
    assert world.row(lease.id).attempts == 1


def test_a_step_of_the_next_run_is_new(world: World) -> None:
    world.enqueue("checkout", headers={"tenure-flow": "checkout"})
    lease = world.claim_one().lease
    for run in (1, 2):
        world.sql("UPDATE live SET attempts = 7")
        world.run(steps.record([Recording(lease, run, [DONE])]))
        assert world.row(lease.id).attempts == 1
