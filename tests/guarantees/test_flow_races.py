"""Races of branches: one wins, and what the others had not used is still there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Crash, Shop
from tenure import Fail
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


def test_a_branch_that_raises_has_won_the_race_in_every_later_attempt(shop: Shop) -> None:
    async def raises(flow: Flow) -> Any:
        if "raised" not in shop.did:
            shop.do("raised")
            raise ValueError("not mended yet")
        return await flow.wait_for("a")

    race = _race(shop, raises, _b)
    with shop.work():
        sent = race.start(shop.world.conn, held=False)
        eventually(lambda: shop.recorded("first"))
        for name in "ba":
            shop.world.run(steps.signal(sent.id, name, name))
        shop.ended(sent.id, forward=True)
    assert shop.did == ["raised", ("a", "b")]


def test_a_sleep_below_a_second_is_not_recorded_and_is_slept_in_every_attempt(shop: Shop) -> None:
    @shop.flows.workflow("naps")
    async def naps(flow: Flow) -> None:
        began = asyncio.get_running_loop().time()
        await flow.sleep(0.2)
        shop.do(asyncio.get_running_loop().time() - began >= 0.19)
        if len(shop.did) == 1:
            raise ValueError("not mended yet")
        await flow.step("end", shop.ado, "end")

    with shop.work():
        shop.ended(naps.start(shop.world.conn).id, forward=True)
    assert shop.did == [True, True, "end"]
    assert [name for _, _, name, _ in shop.names()] == ["end"]


async def _s(flow: Flow) -> Any:
    return await flow.wait_for("s")


async def _two_of_s(flow: Flow) -> Any:
    return await flow.parallel(_s(flow), _s(flow), flow.wait_for("never"))


@pytest.mark.parametrize("losers", [[_s], [_s, _s], [_two_of_s], [_s, _two_of_s]])
def test_signals_that_losers_give_back_are_received_in_the_order_in_which_they_came(shop: Shop, losers: Any) -> None:
    async def signalled() -> None:
        while "signalled" not in shop.did:
            await asyncio.sleep(0.01)

    @shop.flows.workflow("kept")
    async def kept(flow: Flow) -> None:
        await flow.step("hold", signalled)
        await flow.first(flow.wait_for("r"), *(loser(flow) for loser in losers))
        await flow.first(_s_once_more(flow), flow.sleep(60))
        await flow.step("end", shop.ado, [await flow.wait_for("s") for _ in range(3)])

    async def _s_once_more(flow: Flow) -> None:
        """A second race, in which the first signal is used."""
        await flow.step("used", shop.ado, await flow.wait_for("s"))

    with shop.work():
        sent = kept.start(shop.world.conn)
        eventually(lambda: shop.world.status(sent.id) == "processing")
        send = [shop.world.run(steps.signal(sent.id, "s", n, once=f"s-{n}")).outcome for n in (1, 2, 3, 4, 1)]
        shop.world.run(steps.signal(sent.id, "r"))
        shop.do("signalled")
        shop.ended(sent.id)
    assert send == ["queued"] * 4 + ["duplicate"]
    assert shop.did == ["signalled", 1, [2, 3, 4]]


def test_a_signal_that_was_given_back_goes_before_those_that_come_now(world: World) -> None:
    """Also if it has been given back twice; `once` is remembered, and the signals of others stay theirs."""
    headers = {"tenure-flow": "race"}
    id, other = (world.enqueue("race", headers=headers) for _ in range(2))
    world.run(steps.put_back(other, [(-3, "s", '"theirs"')]))
    world.run(steps.signal(id, "s", 3, once="s-3"))
    world.run(steps.put_back(id, [(-1, "s", "2")]))
    world.run(steps.put_back(id, [(-4, "s", "0"), (-3, "s", "1"), (-2, "r", "null")]))
    assert world.run(steps.signal(id, "s", 3, once="s-3")).outcome == "duplicate"
    assert world.run(steps.signal(id, "s", 4)).outcome == "queued"
    found = "SELECT payload FROM signals WHERE row_id = %s AND name = 's' ORDER BY n"
    assert [payload for (payload,) in world.sql(found, id)] == [0, 1, 2, 3, 4]
    assert world.sql(found, other) == [("theirs",)]
    assert world.run(steps.put_back(id, [(-1, "q", "1"), (-1, "q", "2")])) == 2, "of one moment: after what is there"


def test_two_races_that_give_signals_back_one_after_the_other_keep_their_order(shop: Shop) -> None:
    async def until(word: str) -> None:
        while word not in shop.did:
            await asyncio.sleep(0.01)

    async def race(flow: Flow, name: str, word: str) -> None:
        await flow.first(flow.parallel(flow.wait_for("s"), flow.wait_for("never")), flow.step(name, until, word))

    @shop.flows.workflow("two races")
    async def two(flow: Flow) -> None:
        await flow.parallel(race(flow, "x", "x over"), race(flow, "y", "y over"))
        await flow.step("end", shop.ado, [await flow.wait_for("s") for _ in range(3)])

    with shop.work():
        sent = two.start(shop.world.conn)
        eventually(lambda: shop.world.status(sent.id) == "processing")
        for n in (1, 2, 3):
            shop.world.run(steps.signal(sent.id, "s", n))
        eventually(
            lambda: shop.world.sql("SELECT count(*) FROM steps WHERE name = 'wait:s' AND state = 'done'")[0][0] == 2
        )
        shop.do("x over")
        eventually(lambda: shop.recorded("first"))
        shop.do("y over")
        shop.ended(sent.id)
    assert shop.did[-1] == [1, 2, 3]


def test_a_wait_that_is_written_down_after_a_signal_came_to_its_neighbour_does_not_follow_it(shop: Shop) -> None:
    async def until_over() -> None:
        while "over" not in shop.did:
            await asyncio.sleep(0.01)

    @shop.flows.workflow("neighbours")
    async def neighbours(flow: Flow) -> None:
        await flow.first(flow.parallel(flow.wait_for("s"), flow.wait_for("never")), flow.step("x", until_over))
        await flow.step("end", shop.ado, await flow.wait_for("s", timeout_seconds=1))

    with shop.work(drain_seconds=0.1):
        sent = neighbours.start(shop.world.conn)
        eventually(lambda: shop.world.sql("SELECT count(*) FROM steps WHERE state = 'waiting'")[0][0] == 2)
        shop.world.run(steps.signal(sent.id, "s", 1))
        eventually(lambda: shop.recorded("wait:s"))
    shop.world.sql("UPDATE steps SET recorded_at = clock_timestamp() WHERE name = 'wait:never'")
    shop.do("over")
    with shop.work():
        shop.ended(sent.id, forward=True)
    assert shop.did[-1] == 1


@pytest.mark.parametrize("how", ["fails", "goes on"])
def test_a_loser_that_is_stopped_before_its_records_is_walked_through_all_the_same(shop: Shop, how: str) -> None:
    """The winner is the first of the two and ends at once, from its record: the other has not begun in this attempt."""
    undone = list[Any]()

    @shop.flows.workflow("kid")
    async def kid(flow: Flow) -> None:
        await flow.wait_for("never")

    async def undo(result: Any, *args: Any) -> None:
        undone.append(args[0])

    @shop.flows.workflow("race")
    async def race(flow: Flow) -> Any:
        async def waits(flow: Flow) -> Any:
            return await flow.wait_for("stop")

        async def work(flow: Flow) -> Any:
            await flow.step("charge", shop.ado, "charge", undo=undo)
            await flow.call(kid)

        await flow.first(waits(flow), work(flow))
        return Fail("after the race") if how == "fails" else None

    with shop.work():
        id = race.start(shop.world.conn).id
        eventually(lambda: shop.world.sql("SELECT 1 FROM live WHERE kind = 'kid' AND status = 'pending'"))
        shop.asleep(id, 2)
        race.of(id).signal(shop.world.conn, "stop")
        shop.ended(id, "failed" if how == "fails" else "completed")
        eventually(lambda: shop.world.sql("SELECT 1 FROM dead WHERE kind = 'kid' AND status = 'cancelled'"))
    assert undone == (["charge"] if how == "fails" else [])
    assert shop.did == ["charge"]


def test_a_child_that_is_given_to_first_as_it_is_is_cancelled_and_the_flow_goes_on(shop: Shop) -> None:
    @shop.flows.workflow("kid")
    async def kid(flow: Flow) -> None:
        await flow.wait_for("never")

    @shop.flows.workflow("race")
    async def race(flow: Flow) -> Any:
        await flow.first(flow.call(kid), flow.sleep(1.0))
        await flow.wait_for("go")

    with shop.work():
        id = race.start(shop.world.conn).id
        eventually(lambda: shop.recorded("wait:go", "waiting") or None)
        shop.asleep(id, 2)  # the sleep that is over, too
        eventually(lambda: shop.world.sql("SELECT 1 FROM dead WHERE kind = 'kid' AND status = 'cancelled'"))
        race.of(id).signal(shop.world.conn, "go")
        shop.ended(id)


def test_a_child_that_a_loser_sent_after_a_sleep_is_cancelled(shop: Shop) -> None:
    @shop.flows.workflow("kid")
    async def kid(flow: Flow) -> None:
        await flow.wait_for("never")

    async def sends(flow: Flow) -> None:
        await flow.sleep(60)
        await flow.call(kid)

    @shop.flows.workflow("race")
    async def race(flow: Flow) -> None:
        await flow.first(flow.wait_for("ok"), sends(flow))
        await flow.wait_for("go")

    with shop.work():
        id = race.start(shop.world.conn).id
        shop.still(id)
        shop.later()
        eventually(lambda: shop.world.sql("SELECT 1 FROM live WHERE kind = 'kid' AND status = 'pending'"))
        shop.still(id)
        race.of(id).signal(shop.world.conn, "ok")
        eventually(lambda: shop.world.sql("SELECT 1 FROM dead WHERE kind = 'kid' AND status = 'cancelled'"))
        race.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
