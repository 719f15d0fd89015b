"""flow.now() is read from records alone: the same in every attempt, whichever branch wrote last."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from guarantees.flow_shop import Shop
from tenure import Fail
from tenure.shapes.flow import Flow, StepFailed, Tries
from tenure.shapes.flow.check import check
from tenure.shapes.flow.core import Core
from tenure.shapes.flow.effects import Call, Instance, Recall, Run, Write
from tenure.verbs.steps import Recorded, Step, recall
from world import World

pytestmark = pytest.mark.one_server
ATTEMPTS = 3


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


class Seen:
    """What each attempt read, by where it did."""

    def __init__(self) -> None:
        self.attempts, self.whole = list[dict[str, datetime]](), 0

    def begin(self) -> None:
        self.attempts.append({})

    def note(self, where: str, flow: Flow) -> None:
        self.attempts[-1][where] = flow.now()

    def crash(self) -> None:
        """The function fails at its end, until it was run often enough."""
        self.whole += 1
        if self.whole < ATTEMPTS:
            raise RuntimeError("boom")

    def check(self, *order: str) -> None:
        *others, last = self.attempts
        assert self.whole == ATTEMPTS
        assert [other for other in others if other.items() - last.items()] == []
        assert [last[each] for each in order] == sorted({last[each] for each in order})


def _run(shop: Shop, workflow: Any) -> None:
    with shop.work():
        sent = workflow.start(shop.world.conn)
        shop.ended(sent.id, forward=True)


@pytest.mark.parametrize("plain", [False, True])
def test_branches_each_have_their_own_and_the_latest_counts_behind_them(shop: Shop, plain: bool) -> None:
    seen = Seen()
    workflow = _plain_branches(shop, seen) if plain else _branches(shop, seen)
    _run(shop, workflow)
    seen.check("begun", "before", "fast", "slow", "after")


def _branches(shop: Shop, seen: Seen) -> Any:
    async def slow(flow: Flow) -> None:
        await flow.step("slow", asyncio.sleep, 0.4)
        seen.note("slow", flow)
        await flow.step("slower", shop.ado, 1)

    async def fast(flow: Flow) -> None:
        await flow.step("fast", shop.ado, 2)
        seen.note("fast", flow)

    async def reads(flow: Flow) -> None:
        await flow.sleep(0.2)  # in place: no record
        seen.note("reads", flow)

    @shop.flows.workflow("branches")
    async def branches(flow: Flow) -> None:
        seen.begin()
        seen.note("begun", flow)
        await flow.step("before", shop.ado, 0)
        seen.note("before", flow)
        await flow.parallel(slow(flow), fast(flow), reads(flow))
        seen.note("after", flow)
        seen.crash()

    return branches


def _plain_branches(shop: Shop, seen: Seen) -> Any:
    def slow(flow: Flow) -> None:
        flow.step("slow", time.sleep, 0.4)
        seen.note("slow", flow)
        flow.step("slower", shop.do, 1)

    def fast(flow: Flow) -> None:
        flow.step("fast", shop.do, 2)
        seen.note("fast", flow)

    @shop.flows.workflow("branches")
    def branches(flow: Flow) -> None:
        seen.begin()
        seen.note("begun", flow)
        flow.step("before", shop.do, 0)
        seen.note("before", flow)
        flow.parallel(partial(slow, flow), partial(fast, flow))
        seen.note("after", flow)
        seen.crash()

    return branches


def test_a_race_counts_when_it_is_decided(shop: Shop) -> None:
    seen = Seen()

    async def wins(flow: Flow) -> None:
        seen.note("wins begun", flow)
        await flow.step("wins", shop.ado, 1)
        await asyncio.sleep(0.3)
        seen.note("wins", flow)

    async def loses(flow: Flow) -> None:
        await flow.step("loses", shop.ado, 2)
        await asyncio.sleep(0.1)
        await flow.step("loses too", shop.ado, 3)
        await flow.step("never", asyncio.sleep, 60)

    @shop.flows.workflow("race")
    async def race(flow: Flow) -> None:
        seen.begin()
        await flow.first(wins(flow), loses(flow))
        seen.note("after", flow)
        seen.crash()

    _run(shop, race)
    seen.check("wins begun", "wins", "after")


def test_what_rides_along_does_not_count(shop: Shop) -> None:
    seen = Seen()

    @shop.flows.workflow("riders")
    async def riders(flow: Flow) -> None:
        seen.begin()
        await flow.step("one", shop.ado, 1)
        seen.note("one", flow)
        assert flow.patched("new")
        flow.show("at", "one")
        seen.note("patched", flow)
        await flow.sleep(1)
        seen.note("slept", flow)
        seen.crash()

    _run(shop, riders)
    seen.check("one", "slept")
    assert seen.attempts[0]["patched"] == seen.attempts[0]["one"]


def test_failures_children_and_sleeps_count(shop: Shop) -> None:
    seen = Seen()

    @shop.inbox.handler("child", result=True)
    async def child() -> int:
        return 1

    async def fails() -> Any:
        return Fail("no")

    @shop.flows.workflow("all")
    async def all_kinds(flow: Flow) -> None:
        seen.begin()
        with pytest.raises(StepFailed):
            await flow.step("fails", fails)
        seen.note("failed", flow)
        await flow.call(child)
        seen.note("called", flow)
        await flow.fenced("fenced", fenced)
        seen.note("fenced", flow)
        await asyncio.gather(flow.step("a", asyncio.sleep, 0.2), flow.step("b", shop.ado, 1))
        seen.note("gathered", flow)
        seen.crash()

    async def fenced(tx: Any) -> None:
        await tx.execute(shop.insert("fenced"))

    _run(shop, all_kinds)
    seen.check("failed", "called", "fenced", "gathered")


def test_after_a_sleep_that_was_parked_it_is_as_late_as_the_sleep_lasted(shop: Shop) -> None:
    took = list[float]()

    @shop.flows.workflow("sleeps")
    async def sleeps(flow: Flow) -> None:
        await flow.step("one", shop.ado, 1)
        before = flow.now()
        await flow.sleep(1.5)
        took.append((flow.now() - before).total_seconds())
        if len(took) < 2:
            raise RuntimeError("boom")

    _run(shop, sleeps)
    assert len(set(took)) == 1
    assert took[0] >= 1.5


@pytest.mark.parametrize("plain", [False, True])
def test_a_check_of_the_code_reads_the_same_time_and_draws(shop: Shop, plain: bool) -> None:
    def told(flow: Flow, began: datetime, drawn: Any) -> str:
        return f"{drawn}, {0 <= (flow.now() - began).total_seconds() < 60}"

    if plain:

        @shop.flows.workflow("checked")
        def checked(flow: Flow) -> None:
            began, drawn = flow.now(), (flow.uuid(), flow.random())
            flow.parallel(partial(flow.step, "one", shop.do, 1))
            flow.step(told(flow, began, drawn), shop.do, 1)
            flow.wait_for("go")
    else:

        @shop.flows.workflow("checked")
        async def checked(flow: Flow) -> None:
            began, drawn = flow.now(), (flow.uuid(), flow.random())
            await flow.parallel(flow.step("one", shop.ado, 1))
            await flow.step(told(flow, began, drawn), shop.ado, 1)
            await flow.wait_for("go")

    with shop.work():
        sent = checked.start(shop.world.conn)
        shop.asleep(sent.id)
    records = shop.world.run(recall([(sent.id, 1)]))[sent.id]
    assert check(checked, "{}", records, id=sent.id) is None


def test_a_record_that_was_there_before_keeps_its_time() -> None:
    core = Core(Instance(UUID(int=1), "sent twice", 1), 0.0)
    doing = core.step(Call("", 0, "one", print, (), {}, Tries(), None))
    assert isinstance(next(doing), Run)
    assert isinstance(doing.send(None), Write)
    assert doing.send(Recorded(9.0, written=False)) == Recall(1)
    with pytest.raises(StopIteration):
        doing.send([Step("", 0, "one", "done", recorded_at=5.0)])
    assert core.moments.at("") == 5.0
