"""What waits beside a step that runs: it begins when its branch comes to it, is recorded then, and is met in time."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Crash, Shop
from tenure import Fail
from tenure.shapes.flow import Flow
from tenure.verbs import steps
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


class Slow:
    """A step that runs until the test says so; a step of another branch is beside it meanwhile."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.go_on = shop, threading.Event()

    async def run(self) -> Any:
        self.shop.do("slow")
        try:
            while not self.go_on.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.shop.do("given up")
            raise
        return self.shop.do("slow ended", "slow")

    def block(self) -> Any:
        self.shop.do("slow")
        self.go_on.wait(60)
        return self.shop.do("slow ended", "slow")


@pytest.fixture
def slow(shop: Shop) -> Slow:
    return Slow(shop)


def _race(shop: Shop, slow: Slow, tick: Any, **terms: Any) -> Any:
    """Whether the step or what waits beside it is first."""

    @shop.flows.workflow("race")
    async def race(flow: Flow) -> None:
        won = await flow.first(_slow(flow, slow, **terms), tick(flow))
        await flow.step("end", shop.ado, ("won", won))

    return race


async def _slow(flow: Flow, slow: Slow, **terms: Any) -> Any:
    return await flow.step("slow", slow.run, **terms)


async def _sleeps(flow: Flow) -> Any:
    await flow.sleep(1.2)
    return "slept"


async def _waits(flow: Flow) -> Any:
    return await flow.wait_for("stop")


def _until(shop: Shop, name: str) -> Any:
    return shop.world.sql("SELECT until FROM steps WHERE name = %s", name)[0][0]


def test_a_sleep_is_over_beside_a_step_that_runs(shop: Shop, slow: Slow) -> None:
    race = _race(shop, slow, _sleeps)
    with shop.work():
        shop.ended(race.start(shop.world.conn).id)
    assert shop.did == ["slow", "given up", ("won", "slept")]


def test_a_signal_comes_beside_a_step_that_runs(shop: Shop, slow: Slow) -> None:
    race = _race(shop, slow, _waits)
    with shop.work():
        sent = race.start(shop.world.conn)
        eventually(lambda: shop.recorded("wait:stop", "waiting"))
        assert shop.world.run(steps.signal(sent.id, "stop", "stop")).outcome == "queued"
        shop.ended(sent.id)
    assert shop.did == ["slow", "given up", ("won", "stop")]
    assert shop.world.count("signals") == 0


def test_children_end_beside_a_step_that_runs(shop: Shop, slow: Slow) -> None:
    @shop.inbox.handler("kid", result=True)
    async def kid(n: int) -> int:
        return n

    async def calls(flow: Flow) -> Any:
        return await flow.call(kid, n=7)

    race = _race(shop, slow, calls)
    with shop.work():
        shop.ended(race.start(shop.world.conn).id)
    assert shop.did == ["slow", "given up", ("won", 7)]


@pytest.mark.parametrize("plain", [False, True])
def test_what_follows_a_sleep_does_not_wait_for_the_step_of_another_branch(shop: Shop, slow: Slow, plain: bool) -> None:
    async def naps(flow: Flow) -> None:
        await flow.sleep(1.2)
        await flow.step("then", shop.ado, "then")

    def naps_plain(flow: Flow) -> None:
        flow.sleep(1.2)
        flow.step("then", shop.do, "then")

    if plain:

        @shop.flows.workflow("both")
        def both_plain(flow: Flow) -> None:
            flow.parallel(partial(flow.step, "slow", slow.block), partial(naps_plain, flow))

    else:

        @shop.flows.workflow("both")
        async def both(flow: Flow) -> None:
            await flow.parallel(_slow(flow, slow), naps(flow))

    with shop.work():
        sent = shop.flows.workflows["both"].start(shop.world.conn)
        eventually(lambda: "then" in shop.did)
        assert "slow ended" not in shop.did
        slow.go_on.set()
        shop.ended(sent.id)
    assert shop.did == ["slow", "then", "slow ended"]


def _dies(shop: Shop, id: Any) -> None:
    """As if its worker had died, and its lease were over."""
    shop.world.sql(
        "UPDATE live SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,"
        " claim_id = NULL, lease_generation = lease_generation + 1, available_at = clock_timestamp() WHERE id = %s",
        id,
    )


async def _sleeps_long(flow: Flow) -> Any:
    await flow.sleep(600)
    return "slept"


def test_a_sleep_beside_a_step_does_not_begin_again_after_a_crash(shop: Shop, slow: Slow) -> None:
    """Its holder is gone, and another takes the row: the sleep ends when it was to end."""
    race = _race(shop, slow, _sleeps_long)
    with shop.work():
        sent = race.start(shop.world.conn)
        eventually(lambda: shop.recorded("sleep", "waiting"))
        before = _until(shop, "sleep")
        _dies(shop, sent.id)
        eventually(lambda: shop.did.count("slow") == 2)
        assert _until(shop, "sleep") == before
        shop.world.sql("UPDATE steps SET until = clock_timestamp() WHERE name = 'sleep'")
        _dies(shop, sent.id)
        shop.ended(sent.id)
    assert ("won", "slept") in shop.did
    assert "slow ended" not in shop.did


def test_a_step_that_lost_to_a_sleep_is_in_doubt_and_undone(shop: Shop, slow: Slow) -> None:
    @shop.flows.workflow("race")
    async def race(flow: Flow) -> Any:
        await flow.first(_slow(flow, slow, undo=undo), _sleeps(flow))
        return Fail("no")

    async def undo(result: Any) -> None:
        shop.do(("undone", result))

    with shop.work():
        shop.ended(race.start(shop.world.conn).id, "failed")
    assert shop.did == ["slow", "given up", ("undone", None)]


def test_a_wait_that_lost_to_the_step_is_closed(shop: Shop, slow: Slow) -> None:
    race = _race(shop, slow, _waits)
    with shop.work():
        sent = race.start(shop.world.conn)
        eventually(lambda: shop.recorded("wait:stop", "waiting"))
        slow.go_on.set()
        shop.ended(sent.id)
    assert shop.did == ["slow", "slow ended", ("won", "slow")]
    assert shop.world.sql("SELECT state FROM steps WHERE name = 'wait:stop'") == [("cancelled",)]


def test_who_has_lost_its_lease_writes_nothing_of_its_waits(shop: Shop, slow: Slow) -> None:
    """The sleep is over and the signal is there, but another has the row."""
    race = _race(shop, slow, _waits)
    with shop.work():
        sent = race.start(shop.world.conn)
        eventually(lambda: shop.recorded("wait:stop", "waiting"))
        with shop.world.conn.transaction():
            shop.world.sql("UPDATE live SET lease_generation = lease_generation + 1")
            shop.world.run(steps.signal(sent.id, "stop", "stop"))
        eventually(lambda: "given up" in shop.did)
        assert shop.recorded("wait:stop", "waiting")
        assert not shop.recorded("first")
        assert shop.world.count("signals") == 1


def test_a_drain_leaves_the_end_of_a_sleep_as_it_was(shop: Shop, slow: Slow) -> None:
    race = _race(shop, slow, _sleeps_long)
    with shop.work(grace_seconds=1.0):
        sent = race.start(shop.world.conn)
        eventually(lambda: shop.recorded("sleep", "waiting"))
        before = _until(shop, "sleep")
    assert shop.did == ["slow", "given up"]
    assert shop.world.status(sent.id) == "pending"
    assert _until(shop, "sleep") == before
    shop.world.sql("UPDATE steps SET until = clock_timestamp() WHERE name = 'sleep'")
    shop.world.due()
    with shop.work():
        shop.ended(sent.id)
    assert ("won", "slept") in shop.did


def test_waits_alone_are_parked_when_the_step_has_ended(shop: Shop, slow: Slow) -> None:
    @shop.flows.workflow("both")
    async def both(flow: Flow) -> None:
        await flow.parallel(_slow(flow, slow), _waits(flow))

    with shop.work():
        sent = both.start(shop.world.conn)
        eventually(lambda: shop.recorded("wait:stop", "waiting"))
        slow.go_on.set()
        shop.asleep(sent.id)
        assert shop.world.run(steps.signal(sent.id, "stop", "stop")).outcome == "delivered"
        shop.ended(sent.id)


def test_two_waits_that_are_met_at_once_both_go_on(shop: Shop, slow: Slow) -> None:
    """The one whose branch waits again does not put the other to sleep."""

    async def again(flow: Flow) -> None:
        await flow.wait_for("a")
        await flow.wait_for("c")

    async def goes(flow: Flow) -> None:
        await flow.wait_for("b")
        await flow.step("goes", shop.ado, "goes")

    @shop.flows.workflow("both")
    async def both(flow: Flow) -> None:
        await flow.step("slow", slow.run)
        await flow.parallel(again(flow), goes(flow))

    with shop.work():
        sent = both.start(shop.world.conn)
        eventually(lambda: "slow" in shop.did)
        for name in "ab":
            shop.world.run(steps.signal(sent.id, name, name))
        slow.go_on.set()
        eventually(lambda: "goes" in shop.did)
        shop.asleep(sent.id)
        shop.world.run(steps.signal(sent.id, "c", "c"))
        shop.ended(sent.id)
    assert shop.did == ["slow", "slow ended", "goes"]


@pytest.mark.parametrize("crash", [False, True])
def test_children_of_a_branch_that_lost_are_cancelled_and_undo(shop: Shop, crash: bool) -> None:
    crashes = [Crash()] if crash else []

    @shop.flows.workflow("kid")
    async def kid(flow: Flow, n: int) -> None:
        await flow.step("kid", shop.ado, "kid", undo=undo)
        await flow.wait_for("never")

    async def undo(result: Any, what: Any) -> None:
        shop.do("undone")

    async def calls(flow: Flow) -> Any:
        return await flow.call(kid, n=1)

    @shop.flows.workflow("race")
    async def race(flow: Flow) -> None:
        won = await flow.first(calls(flow), _waits(flow))
        if crashes:
            raise crashes.pop()
        await flow.step("end", shop.ado, won)

    with shop.work():
        sent = race.start(shop.world.conn)
        eventually(lambda: "kid" in shop.did)
        eventually(lambda: shop.recorded("wait:never", "waiting"))
        shop.world.run(steps.signal(sent.id, "stop", "stop"))
        shop.ended(sent.id, forward=crash)
        eventually(lambda: "undone" in shop.did)
        eventually(lambda: shop.world.sql("SELECT count(*) FROM inbox WHERE status = 'cancelled'")[0][0] == 1)
    assert sorted(shop.did) == ["kid", "stop", "undone"]
    assert not shop.world.sql("SELECT 1 FROM steps WHERE row_id = %s AND state = 'waiting'", sent.id)
