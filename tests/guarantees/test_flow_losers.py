"""Branches that lost a race after they had waited and gone on: all they did is known later, and can be undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Crash, Shop
from tenure import Fail, Fixed
from tenure.shapes.flow import Flow, Tries
from world import World

pytestmark = pytest.mark.one_server
AGAIN = Tries(3, Fixed(60))


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


class Mails:
    """Steps that are noted, and whose undo is."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.refused = shop, set[str]()

    async def send(self, what: str) -> str:
        self.shop.do(what)
        if what.startswith("late") and what not in self.refused:
            self.refused.add(what)
            raise ValueError("not yet")
        if what.startswith("long"):
            await asyncio.sleep(600)
        return what.upper()

    async def take_back(self, result: Any, what: str) -> None:
        assert result == (None if what in ("long", "late 1") else what.upper())
        self.shop.do(f"undo {what}")

    async def mail(self, flow: Flow, what: str) -> None:
        await flow.step("mail", self.send, what, undo=self.take_back, retry=AGAIN)


async def _slept(flow: Flow, mails: Mails) -> None:
    for n in range(9):
        await flow.sleep(60)
        await mails.mail(flow, f"mail {n}")


async def _slept_until(flow: Flow, mails: Mails) -> None:
    for n in range(9):
        await flow.sleep_until(flow.now() + timedelta(seconds=15))
        await mails.mail(flow, f"mail {n}")


async def _timed_out(flow: Flow, mails: Mails) -> None:
    for n in range(9):
        await flow.wait_for("word", timeout_seconds=15)
        await mails.mail(flow, f"mail {n}")


async def _tried_again(flow: Flow, mails: Mails) -> None:
    for n in range(9):
        await flow.sleep(60)
        await mails.mail(flow, f"late {n}")


async def _both(flow: Flow, mails: Mails) -> None:
    async def one(what: str) -> None:
        await flow.sleep(60)
        await mails.mail(flow, what)

    for n in range(9):
        await flow.parallel(one(f"a {n}"), one(f"b {n}"))
        await mails.mail(flow, f"both {n}")


async def _one_of_both(flow: Flow, mails: Mails) -> None:
    """The second of the two has slept and sent when the first one still waits."""

    async def slow() -> None:
        await flow.sleep(60)
        await flow.wait_for("never")

    await flow.parallel(slow(), _slept(flow, mails))


async def _race_within(flow: Flow, mails: Mails) -> None:
    async def tells() -> None:
        await flow.sleep(60)
        await mails.mail(flow, "tells")
        await flow.wait_for("never")

    async def ends() -> None:
        for _ in range(2):
            await flow.sleep(60)
        await mails.mail(flow, "ends")

    await flow.first(tells(), ends())
    await _slept(flow, mails)


async def _calls_as_they_are(flow: Flow, mails: Mails) -> None:
    for n in range(9):
        await flow.first(flow.sleep(60), flow.wait_for("never"))
        await mails.mail(flow, f"mail {n}")


async def _in_doubt(flow: Flow, mails: Mails) -> None:
    await flow.sleep(60)
    await mails.mail(flow, "mail")
    await flow.sleep(60)
    await mails.mail(flow, "long")


LOSERS: list[tuple[Callable[[Flow, Mails], Any], list[str], int]] = [
    (_slept, ["mail 0", "mail 1"], 2),
    (_slept_until, ["mail 0", "mail 1"], 2),
    (_timed_out, ["mail 0", "mail 1"], 2),
    (_tried_again, ["late 0", "late 0", "late 1"], 3),
    (_both, ["a 0", "b 0", "both 0", "a 1", "b 1", "both 1"], 2),
    (_one_of_both, ["mail 0", "mail 1"], 2),
    (_race_within, ["tells", "ends", "mail 0"], 3),
    (_calls_as_they_are, ["mail 0", "mail 1"], 2),
    (_in_doubt, ["mail", "long"], 2),
]


def _undone(did: list[Any]) -> list[Any]:
    return [f"undo {what}" for what in reversed(list(dict.fromkeys(did)))]


CASES = [(*case, then) for case in LOSERS for then in ("goes on", "fails", "is cancelled")]
CASES.append((*LOSERS[0], "is late"))


@pytest.mark.parametrize(
    ("loser", "did", "sleeps", "then"), CASES, ids=[f"{case[0].__name__}-{case[-1]}" for case in CASES]
)
def test_a_loser_that_has_waited_and_gone_on_is_walked_through_to_its_end(
    shop: Shop, loser: Any, did: list[str], sleeps: int, then: str
) -> None:
    mails, crashes = Mails(shop), [Crash()] if then == "goes on" else []

    @shop.flows.workflow("race")
    async def race(flow: Flow) -> Any:
        async def asked() -> Any:
            return await flow.wait_for("ok")

        await flow.first(asked(), loser(flow, mails))
        if crashes:
            raise crashes.pop()
        await flow.wait_for("go")
        await mails.mail(flow, "book")
        return Fail("no") if then == "fails" else None

    with shop.work():
        id = race.start(shop.world.conn).id
        for _ in range(sleeps):
            shop.still(id)
            shop.later()
        eventually(lambda: len(shop.did) >= len(did))
        shop.still(id)
        race.of(id).signal(shop.world.conn, "ok")
        eventually(lambda: shop.recorded("wait:go", "waiting"))
        if then == "is cancelled":
            race.of(id).cancel(shop.world.conn)
        elif then == "is late":
            _let_it_be_late(shop, id)
        else:
            race.of(id).signal(shop.world.conn, "go")
        shop.ended(id, {"goes on": "completed", "fails": "failed"}.get(then, "cancelled"))
    booked = ["book"] if then in ("goes on", "fails") else []
    done = shop.did[: len(did)] + booked
    assert sorted(done) == sorted(did + booked)
    assert shop.did[len(did) :] == booked + ([] if then == "goes on" else _undone(done))


def test_a_sleep_that_a_loser_was_past_is_over_though_the_clock_went_back(shop: Shop) -> None:
    mails = Mails(shop)
    race = _waits_after(shop, lambda flow: _slept(flow, mails))
    with shop.work():
        id = race.start(shop.world.conn).id
        shop.still(id)
        shop.later()
        eventually(lambda: shop.recorded("mail"))
        shop.still(id)
        shop.world.sql("UPDATE steps SET until = until + interval '1 h' WHERE path = '1.1' AND n = 0")
        shop.world.sql("UPDATE steps SET recorded_at = recorded_at + interval '1 h' WHERE path = '1.1' AND n > 0")
        race.of(id).signal(shop.world.conn, "ok")
        eventually(lambda: shop.recorded("wait:go", "waiting"))
        race.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    assert shop.did == ["mail 0"]


def test_a_sleep_that_is_over_when_its_branch_has_lost_is_closed_and_nothing_of_it_begins(shop: Shop) -> None:
    """Its end and the signal come together, and the signal is seen first."""

    async def daily(flow: Flow) -> None:
        await flow.sleep(60)
        shop.do("next day")
        flow.anew()

    race = _waits_after(shop, daily)
    with shop.work():
        id = race.start(shop.world.conn).id
        shop.still(id)
        with shop.world.conn.transaction():
            race.of(id).signal(shop.world.conn, "ok")
            shop.later()
        eventually(lambda: shop.recorded("wait:go", "waiting"))
        assert shop.recorded("sleep", "cancelled")
        race.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    assert shop.did == []


def test_a_loser_does_not_begin_its_flow_anew(shop: Shop) -> None:
    """What it waited for was recorded as it lost: only the next attempt takes it past that."""

    async def daily(flow: Flow) -> None:
        await flow.sleep(60)
        flow.anew()

    race = _waits_after(shop, daily)
    with shop.work():
        id = race.start(shop.world.conn).id
        shop.still(id)
        race.of(id).signal(shop.world.conn, "ok")
        eventually(lambda: shop.recorded("wait:go", "waiting"))
        shop.still(id)
        shop.world.sql("UPDATE steps SET state = 'done', error = NULL WHERE name = 'sleep'")
        race.of(id).signal(shop.world.conn, "go")
        shop.ended(id)


def test_a_loser_that_is_walked_through_leaves_what_others_have_to_record(shop: Shop) -> None:
    @shop.flows.workflow("marking")
    async def marking(flow: Flow) -> None:
        async def loses() -> None:
            await flow.step("d1", shop.ado, "d1")
            try:
                await flow.step("long", forever, undo=forever)
            finally:
                shop.do("lost")

        async def wins() -> None:
            while "long" not in shop.did:
                await asyncio.sleep(0.01)

        async def marks() -> None:
            await flow.wait_for("go")
            assert flow.patched("new")
            await flow.step("after", after)

        await flow.parallel(flow.first(loses(), wins()), marks())

    async def forever(*result: Any) -> None:
        shop.do("long")
        await asyncio.Event().wait()

    async def after() -> None:
        while shop.did.count("lost") < 2:
            await asyncio.sleep(0.01)

    with shop.work():
        id = marking.start(shop.world.conn).id
        shop.asleep(id)
        shop.world.sql("DELETE FROM steps WHERE name = 'long'")  # as if it had lost before it came to that
        marking.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    assert shop.recorded("patch:new", "patched")


def _waits_after(shop: Shop, loser: Any) -> Any:
    """A race that the signal ok decides against this one, and then a wait for go."""

    @shop.flows.workflow("race")
    async def race(flow: Flow) -> None:
        await flow.first(flow.wait_for("ok"), loser(flow))
        await flow.wait_for("go")

    return race


def _let_it_be_late(shop: Shop, id: Any) -> None:
    """A deadline that passed a moment before the row is due: its worker knows no later time than that."""
    shop.world.sql(
        "UPDATE live SET headers = headers || jsonb_build_object('tenure-deadline',"
        " date_part('epoch', clock_timestamp() - interval '5 ms' - created_at)::text),"
        " available_at = clock_timestamp() WHERE id = %s",
        id,
    )
