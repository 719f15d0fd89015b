"""What is undone, and in which order, is a fact of the records: the same in every attempt, wherever one died."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Crash, Shop
from tenure import Fail, Fixed
from tenure.shapes.flow import Flow, StepFailed, Tries
from world import World

pytestmark = pytest.mark.one_server
ONCE = Tries(1)


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def test_a_fenced_step_that_was_rolled_back_is_not_undone(shop: Shop) -> None:
    @shop.flows.workflow("selling")
    async def selling(flow: Flow) -> Any:
        await flow.fenced("first", take, "first", undo=give_back)
        try:
            await flow.fenced("caught", refuse, "caught", undo=give_back, retry=ONCE)
        except StepFailed:
            await flow.sleep(60)
        await flow.fenced("last", refuse, "last", undo=give_back, retry=ONCE)

    async def take(tx: Any, what: str) -> None:
        await tx.execute(shop.insert(what))

    async def refuse(tx: Any, what: str) -> None:
        await take(tx, what)
        raise ValueError("none is left")

    async def give_back(tx: Any, result: Any, what: str) -> None:
        await tx.execute(shop.insert(f"undo {what}"))

    with shop.work():
        sent = selling.start(shop.world.conn)
        shop.asleep(sent.id)
        shop.forward()
        shop.ended(sent.id, "failed")
    assert shop.ours() == ["first", "undo first"]


def test_a_fenced_step_that_waits_for_its_next_try_when_the_flow_is_cancelled_is_not_undone(shop: Shop) -> None:
    @shop.flows.workflow("refused")
    async def refused(flow: Flow) -> None:
        await flow.fenced("take", refuse, undo=give_back, retry=Tries(3, Fixed(60)))

    async def refuse(tx: Any) -> None:
        raise ValueError("none is left")

    async def give_back(tx: Any, result: Any) -> None:
        await tx.execute(shop.insert("undo"))

    with shop.work():
        sent = refused.start(shop.world.conn)
        shop.asleep(sent.id)
        refused.of(sent.id).cancel(shop.world.conn)
        shop.ended(sent.id, "cancelled", forward=True)
    assert shop.ours() == []


@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_that_returns_fail_is_rolled_back_and_has_failed_for_good(shop: Shop, plain: bool) -> None:
    @shop.flows.workflow("empty")
    async def empty(flow: Flow) -> None:
        await flow.fenced("take", take, undo=give_back)

    @shop.flows.workflow("empty_plain")
    def empty_plain(flow: Any) -> None:
        flow.fenced("take", take_plain, undo=give_back)

    async def take(tx: Any) -> Any:
        await tx.execute(shop.insert("take"))
        return Fail("none is left")

    def take_plain(tx: Any) -> Any:
        tx.execute(shop.insert("take"))
        return Fail("none is left")

    def give_back(tx: Any, result: Any) -> None:
        raise AssertionError("there is nothing to undo")

    with shop.work():
        sent = (empty_plain if plain else empty).start(shop.world.conn)
        shop.ended(sent.id, "failed")
    assert shop.ours() == []
    assert "none is left" in (shop.world.row(sent.id).last_error or "")


def _two_lines(shop: Shop, **terms: Any) -> Any:
    """Two branches of two steps each, whose steps end in the order b1, b2, a1, a2."""
    names = terms.get("names", {})
    late = asyncio.Event()
    undone = terms.get("undone", _noted(shop))

    async def do(what: str) -> str:
        if what == "a1":
            await late.wait()
        shop.do(what)
        if what == "b2":
            late.set()
        return what.upper()

    @shop.flows.workflow("lines")
    async def lines(flow: Flow) -> Any:
        async def line(letter: str) -> None:
            for what in (f"{letter}1", f"{letter}2"):
                await flow.step(names.get("all", what), do, what, undo=undone, retry=Tries(5, Fixed(60)))

        late.clear()
        await flow.step(names.get("all", "before"), do, "before", undo=undone, retry=Tries(5, Fixed(60)))
        await flow.parallel(line("a"), line("b"))
        if terms.get("parks"):
            await flow.sleep(60)
        return Fail("no")

    return lines


def _noted(shop: Shop) -> Any:
    async def undone(result: Any, what: str) -> None:
        assert result == what.upper()
        shop.do(f"undo {what}")

    return undone


REVERSED = ["undo a2", "undo a1", "undo b2", "undo b1", "undo before"]


@pytest.mark.parametrize("parks", [False, True])
def test_branches_are_undone_in_reverse_also_after_a_park(shop: Shop, parks: bool) -> None:
    lines = _two_lines(shop, parks=parks)
    with shop.work():
        sent = lines.start(shop.world.conn)
        if parks:
            shop.asleep(sent.id)
            shop.forward()
        shop.ended(sent.id, "failed")
    assert shop.did[5:] == REVERSED
    undos = shop.world.sql("SELECT path, n, name FROM steps WHERE name LIKE 'undo:%' ORDER BY recorded_at")
    assert undos == [
        ("undo/1.0", 1, "undo:a2"),
        ("undo/1.0", 0, "undo:a1"),
        ("undo/1.1", 1, "undo:b2"),
        ("undo/1.1", 0, "undo:b1"),
        ("undo", 0, "undo:before"),
    ]


@pytest.mark.parametrize("fails", REVERSED)
def test_an_undo_that_is_tried_again_after_a_park_goes_on_in_the_same_order(shop: Shop, fails: str) -> None:
    failures = [fails]

    async def undone(result: Any, what: str) -> None:
        shop.do(f"undo {what}")
        if f"undo {what}" in failures:
            failures.remove(f"undo {what}")
            raise ValueError("not yet")

    lines = _two_lines(shop, undone=undone)
    with shop.work():
        sent = lines.start(shop.world.conn)
        shop.asleep(sent.id)
        shop.forward()
        shop.ended(sent.id, "failed")
    at = REVERSED.index(fails)
    assert shop.did[5:] == [*REVERSED[: at + 1], *REVERSED[at:]]


def test_steps_of_one_name_whose_undos_die_are_each_undone_and_none_is_skipped(shop: Shop) -> None:
    crashes = list(REVERSED)

    async def undone(result: Any, what: str) -> None:
        assert result == what.upper()
        shop.do(f"undo {what}")
        if f"undo {what}" in crashes:
            crashes.remove(f"undo {what}")
            raise Crash

    lines = _two_lines(shop, undone=undone, names={"all": "book"})
    with shop.work():
        sent = lines.start(shop.world.conn)
        shop.ended(sent.id, "failed", forward=True)
    assert shop.did[5:] == [each for each in REVERSED for _ in range(2)]


def test_threads_are_undone_in_reverse_of_their_records(shop: Shop) -> None:
    crashes = ["undo b", "undo a"]

    @shop.flows.workflow("threads")
    def threads(flow: Flow) -> Any:
        flow.parallel(*(partial(flow.step, "book", shop.do, each, undo=undone) for each in "ab"))
        flow.sleep(60)
        return Fail("no")

    def undone(result: Any, what: str) -> None:
        shop.do(f"undo {what}")
        if f"undo {what}" in crashes:
            crashes.remove(f"undo {what}")
            raise Crash

    with shop.work():
        sent = threads.start(shop.world.conn)
        shop.asleep(sent.id)
        shop.world.sql("UPDATE steps SET recorded_at = now() + n * interval '1 s' WHERE path = '0.0'")
        shop.world.sql("UPDATE steps SET recorded_at = now() - interval '1 s' WHERE path = '0.1'")
        shop.forward()
        shop.ended(sent.id, "failed", forward=True)
    assert shop.did[2:] == ["undo a", "undo a", "undo b", "undo b"]


@pytest.mark.parametrize("parks", [False, True])
def test_what_a_branch_that_lost_had_done_is_undone_also_after_a_park(shop: Shop, parks: bool) -> None:
    runs = list[str]()
    lost = asyncio.Event()

    @shop.flows.workflow("racing")
    async def racing(flow: Flow) -> Any:
        async def wins() -> None:
            await flow.step("c1", waits, undo=undone)

        async def loses() -> None:
            await flow.step("d1", shop.ado, "d1", undo=undone)
            await flow.parallel(deeper("d2"), deeper("d3"))
            await flow.sleep(0.01)
            lost.set()
            await flow.first(never("e1"), never("e2"))
            await flow.step("not reached", shop.ado, "not reached", undo=undone)

        async def deeper(name: str) -> None:
            await flow.step(name, shop.ado, name, undo=undone)

        async def never(name: str) -> None:
            await flow.step(name, shop.ado, name, undo=undone)
            await flow.wait_for("never")

        async def closed() -> None:
            runs.append("closed")
            await asyncio.Event().wait()

        await flow.first(wins(), loses(), closed())
        if parks:
            await flow.sleep(60)
            await flow.step("after", shop.ado, "after")
        return Fail("no")

    async def waits() -> None:
        await lost.wait()
        while not {"e1", "e2"} <= set(shop.did):
            await asyncio.sleep(0.01)
        shop.do("c1")

    async def undone(result: Any, *args: Any) -> None:
        shop.do(("undo", *args))

    with shop.work():
        sent = racing.start(shop.world.conn)
        if parks:
            shop.asleep(sent.id)
            shop.forward()
        shop.ended(sent.id, "failed")
    undos = [each for each in shop.did if isinstance(each, tuple)]
    assert set(undos) == {("undo",), *(("undo", each) for each in ("d1", "d2", "d3", "e1", "e2"))}
    assert len(undos) == 6
    assert undos[-1] == ("undo", "d1")
    assert sorted(each for each in shop.did if isinstance(each, str)) == sorted(
        ["c1", "d1", "d2", "d3", "e1", "e2", *(["after"] if parks else [])]
    )
    assert runs == ["closed"]


def test_a_step_in_doubt_of_a_branch_that_lost_is_undone_and_not_run_again(shop: Shop) -> None:
    @shop.flows.workflow("doubting")
    async def doubting(flow: Flow) -> Any:
        async def wins() -> None:
            while "begun" not in shop.did:
                await asyncio.sleep(0.01)

        async def loses() -> None:
            await flow.step("long", forever, undo=undone)

        await flow.first(wins(), loses())
        await flow.sleep(60)
        return Fail("no")

    async def forever() -> None:
        shop.do("begun")
        await asyncio.Event().wait()

    async def undone(result: Any) -> None:
        shop.do(("undo", result))

    with shop.work():
        sent = doubting.start(shop.world.conn)
        shop.asleep(sent.id)
        shop.forward()
        shop.ended(sent.id, "failed")
    assert shop.did == ["begun", ("undo", None)]


def test_a_branch_that_lost_and_was_changed_since_is_a_changed_definition(shop: Shop) -> None:
    names = ["d1"]

    @shop.flows.workflow("changed")
    async def changed(flow: Flow) -> Any:
        async def wins() -> None:
            while "d1" not in shop.did:
                await asyncio.sleep(0.01)
            await flow.step("c1", shop.ado, "c1")

        async def loses() -> None:
            await flow.step(names[0], shop.ado, names[0], undo=undone)
            await flow.wait_for("never")

        await flow.first(wins(), loses())
        await flow.wait_for("go")
        return Fail("no")

    async def undone(result: Any, what: str) -> None:
        shop.do(("undo", what))

    with shop.work():
        sent = changed.start(shop.world.conn)
        shop.asleep(sent.id)
        names[0] = "renamed"
        changed.of(sent.id).signal(shop.world.conn, "go")
        eventually(lambda: "definition differs" in (shop.world.row(sent.id).last_error or ""))
        names[0] = "d1"
        shop.ended(sent.id, "failed", forward=True)
    assert shop.did == ["d1", "c1", ("undo", "d1")]


def test_a_gathered_step_is_undone_after_a_park_too(shop: Shop) -> None:
    """On the way back its neighbour fails at once, before it is asked for."""

    @shop.flows.workflow("gathered")
    async def gathered(flow: Flow) -> Any:
        await asyncio.gather(
            flow.step("fails", fails, retry=ONCE), flow.step("works", works, undo=undone), return_exceptions=False
        )

    async def works() -> None:
        shop.do("works")

    async def fails() -> None:
        while not shop.recorded("works"):
            await asyncio.sleep(0.01)
        raise ValueError("no")

    failures = [1]

    async def undone(result: Any) -> None:
        shop.do("undo")
        if failures:
            failures.pop()
            raise Crash

    with shop.work():
        sent = gathered.start(shop.world.conn)
        shop.ended(sent.id, "failed", forward=True)
    assert shop.did == ["works", "undo", "undo"]


def test_a_function_that_fails_earlier_than_its_records_go_is_a_changed_definition(shop: Shop) -> None:
    early = [False]

    @shop.flows.workflow("early")
    async def fails_early(flow: Flow) -> Any:
        if early[0]:
            return Fail("early")
        await flow.step("one", shop.ado, "one", undo=undone)
        await flow.wait_for("go")
        return Fail("late")

    async def undone(result: Any, *args: Any) -> None:
        shop.do("undo")

    with shop.work():
        sent = fails_early.start(shop.world.conn)
        shop.asleep(sent.id)
        early[0] = True
        fails_early.of(sent.id).signal(shop.world.conn, "go")
        eventually(lambda: "definition differs" in (shop.world.row(sent.id).last_error or ""))
        early[0] = False
        shop.ended(sent.id, "failed", forward=True)
    assert shop.did == ["one", "undo"]


def test_a_gathered_step_that_still_runs_is_stopped_before_it_is_undone(shop: Shop) -> None:
    @shop.flows.workflow("beside")
    async def beside(flow: Flow) -> Any:
        await asyncio.gather(flow.step("fails", fails, retry=ONCE), flow.step("long", long, undo=undone))

    async def fails() -> None:
        while "begun" not in shop.did:
            await asyncio.sleep(0.01)
        raise ValueError("no")

    async def long() -> None:
        shop.do("begun")
        try:
            await asyncio.Event().wait()
        finally:
            shop.do("stopped")

    async def undone(result: Any) -> None:
        shop.do("undo")

    with shop.work():
        sent = beside.start(shop.world.conn)
        shop.ended(sent.id, "failed")
    assert shop.did == ["begun", "stopped", "undo"]
