"""The deadline of a flow: whatever it waits for, it is cancelled then, and undone; a step that runs goes on."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Fixed
from tenure.shapes.flow import Flow, Tries
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


async def _undo(result: Any, shop: Shop, *rest: Any) -> None:
    shop.do("undone")


async def _do(shop: Shop, what: str) -> None:
    shop.do(what)


def _cancelled(shop: Shop, workflow: Any) -> None:
    """Start it; it is cancelled by its deadline, and undone."""
    with shop.work():
        sent = workflow.start(shop.world.conn)
        shop.ended(sent.id, "cancelled")
    assert "its deadline has passed" in (shop.world.row(sent.id).last_error or "")
    assert shop.did == ["one", "undone"]


def test_a_sleep_that_outlasts_the_deadline_does_not_end_early(shop: Shop) -> None:
    @shop.flows.workflow("sleeper", deadline_seconds=2.0)
    async def sleeper(flow: Flow) -> str:
        await flow.step("one", _do, shop, "one", undo=_undo)
        await flow.sleep(3600)
        shop.do("slept")
        return "slept well"

    _cancelled(shop, sleeper)
    assert ("", 1, "sleep", "cancelled") in shop.names()


def test_a_sleep_in_a_branch_beside_another_is_cut_alike(shop: Shop) -> None:
    async def branch(flow: Flow, seconds: float) -> None:
        await flow.sleep(seconds)
        await flow.sleep(3600)
        shop.do("slept")

    @shop.flows.workflow("sleepers", deadline_seconds=3.0)
    async def sleepers(flow: Flow) -> None:
        await flow.step("one", _do, shop, "one", undo=_undo)
        await flow.parallel(branch(flow, 1.0), branch(flow, 1.5))

    _cancelled(shop, sleepers)


def test_a_sleep_that_was_over_before_the_deadline_was_slept(shop: Shop) -> None:
    @shop.flows.workflow("rested", deadline_seconds=3600.0)
    async def rested(flow: Flow) -> None:
        await flow.sleep(1.0)
        await flow.step("one", _do, shop, "one")

    with shop.work():
        shop.ended(rested.start(shop.world.conn).id)
    assert shop.did == ["one"]


def test_a_backoff_that_outlasts_the_deadline_is_ended_by_it(shop: Shop) -> None:
    async def broken(shop: Shop) -> None:
        raise ValueError("broken")

    @shop.flows.workflow("stubborn", deadline_seconds=2.0)
    async def stubborn(flow: Flow) -> None:
        await flow.step("one", _do, shop, "one", undo=_undo)
        await flow.step("two", broken, shop, retry=Tries(5, Fixed(3600)))

    _cancelled(shop, stubborn)


def test_a_step_is_not_tried_again_in_place_after_the_deadline(shop: Shop) -> None:
    tried = list[float]()

    async def broken() -> None:
        tried.append(time.monotonic())
        raise ValueError("broken")

    @shop.flows.workflow("busy", deadline_seconds=2.0)
    async def busy(flow: Flow) -> None:
        await flow.step("one", _do, shop, "one", undo=_undo)
        await flow.step("two", broken, retry=Tries(1000, Fixed(0.2)))

    _cancelled(shop, busy)
    assert len(tried) < 30


def test_a_wait_for_children_is_ended_by_the_deadline_and_they_are_cancelled(shop: Shop) -> None:
    @shop.inbox.handler("far", queue="nobody")
    async def far(job: Any, n: int) -> None: ...

    @shop.flows.workflow("mapping", deadline_seconds=2.0)
    async def mapping(flow: Flow) -> None:
        await flow.step("one", _do, shop, "one", undo=_undo)
        await flow.map(far, [1, 2])
        shop.do("mapped")

    with shop.work(queues={"default": 1}):
        sent = mapping.start(shop.world.conn)
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["one", "undone"]
    assert shop.world.sql("SELECT status FROM dead WHERE kind = 'far'") == [("cancelled",)] * 2


def test_a_step_that_runs_at_the_deadline_is_finished_and_the_next_is_not_begun(shop: Shop) -> None:
    async def slow() -> None:
        await asyncio.sleep(2.5)
        shop.do("slow")

    @shop.flows.workflow("long", deadline_seconds=1.5)
    async def long(flow: Flow) -> None:
        await flow.step("slow", slow)
        await flow.step("next", _do, shop, "next")

    with shop.work():
        sent = long.start(shop.world.conn)
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["slow"]


def test_a_flow_whose_last_step_was_running_at_the_deadline_has_done_all_and_is_completed(shop: Shop) -> None:
    async def slow() -> None:
        await asyncio.sleep(2.5)
        shop.do("slow")

    @shop.flows.workflow("last", deadline_seconds=1.5)
    async def last(flow: Flow) -> None:
        await flow.step("slow", slow, undo=_undo)

    with shop.work():
        shop.ended(last.start(shop.world.conn).id)
    assert shop.did == ["slow"]


def test_a_flow_that_is_claimed_long_after_its_deadline_begins_no_step(shop: Shop) -> None:
    @shop.flows.workflow("late", deadline_seconds=1.0)
    async def late(flow: Flow) -> None:
        await flow.step("one", _do, shop, "one")

    sent = late.start(shop.world.conn)
    eventually(lambda: shop.world.sql("SELECT now() > created_at + interval '5 s' FROM live")[0][0])
    with shop.work():
        shop.ended(sent.id, "cancelled")
    assert shop.did == []


# -- a fenced step


@pytest.mark.parametrize(
    "trouble",
    [
        "SET LOCAL statement_timeout = 50; SELECT pg_sleep(60)",
        "DO $$ BEGIN RAISE EXCEPTION 'no lock' USING ERRCODE = '55P03'; END $$",
        "DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$",
        "DO $$ BEGIN RAISE EXCEPTION 'serialization' USING ERRCODE = '40001'; END $$",
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_an_error_of_a_living_connection_is_a_failure_of_the_fenced_step(shop: Shop, trouble: str, plain: bool) -> None:
    def write(tx: Any) -> None:
        shop.do("tried")
        for part in trouble.split("; SELECT") if "SELECT" in trouble else [trouble]:
            tx.execute(part if part.startswith(("SET", "DO")) else f"SELECT{part}")

    async def awrite(tx: Any) -> None:
        shop.do("tried")
        for part in trouble.split("; SELECT") if "SELECT" in trouble else [trouble]:
            await tx.execute(part if part.startswith(("SET", "DO")) else f"SELECT{part}")

    if plain:

        @shop.flows.workflow("fenced")
        def fenced(flow: Flow) -> None:
            flow.fenced("write", write, retry=Tries(3, Fixed(0)))
    else:

        @shop.flows.workflow("fenced")
        async def fenced(flow: Flow) -> None:
            await flow.fenced("write", awrite, retry=Tries(3, Fixed(0)))

    with shop.work():
        sent = fenced.start(shop.world.conn)
        shop.ended(sent.id, "failed", forward=True)
    assert shop.did == ["tried"] * 3
    assert "step 'write' failed" in (shop.world.row(sent.id).last_error or "")


def test_a_lost_connection_is_no_failure_of_the_fenced_step(shop: Shop) -> None:
    async def write(tx: Any) -> None:
        shop.do("tried")
        if len(shop.did) == 1:
            with pytest.raises(psycopg.OperationalError):
                await tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            raise psycopg.OperationalError("the connection is lost")

    @shop.flows.workflow("lost")
    async def lost(flow: Flow) -> None:
        await flow.fenced("write", write, retry=Tries(1))

    with shop.work():
        shop.ended(lost.start(shop.world.conn).id, forward=True)
    assert shop.did == ["tried"] * 2
