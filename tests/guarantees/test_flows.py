"""Workflows: steps are remembered, waits give the row back, a changed definition is caught, what failed is undone."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from crew import Hired, eventually
from guarantees.flow_shop import Shop
from tenure import Fail, Fixed
from tenure.errors import BadSettings
from tenure.shapes.flow import TIMED_OUT, Flow, StepFailed, Tries, UseParallel, step_key, undone_key
from world import World

pytestmark = pytest.mark.one_server
AT_ONCE = Tries(3, Fixed(0))


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def _checkout(shop: Shop, **options: Any) -> Any:
    @shop.flows.workflow("checkout", name="order:{order_id}", **options)
    async def checkout(flow: Flow, order_id: int) -> str:
        await flow.fenced("reserve", reserve, order_id, undo=unreserve)
        charge = await flow.step("charge", shop.ado, "charge", {"id": 7}, undo=refund, retry=AT_ONCE)
        shipped = await flow.wait_for("shipped", timeout_seconds=3600)
        if shipped is TIMED_OUT:
            return Fail("never shipped")  # type: ignore[return-value]
        await flow.sleep(days=1)
        await flow.step("notify", shop.ado, ("notify", shipped["tracking"], charge["id"]))
        return "ok"

    async def reserve(tx: Any, order_id: int) -> None:
        await tx.execute(shop.insert("reserve"))

    async def unreserve(tx: Any, result: Any, order_id: int) -> None:
        await tx.execute(shop.insert("unreserve"))

    async def refund(result: Any, *args: Any) -> None:
        shop.do(("refund", result, undone_key().rpartition("/")[2]))

    return checkout


def test_steps_waits_and_signals_carry_an_order_to_its_end(shop: Shop) -> None:
    checkout = _checkout(shop)
    with shop.work():
        sent = checkout.start(shop.world.conn, order_id=9)
        assert checkout.start(shop.world.conn, order_id=9) == (sent.id, "duplicate")
        shop.asleep(sent.id)
        state = checkout.of("order:9").state(shop.world.conn)
        assert [step.name for step in state.waits] == ["wait:shipped"]
        assert checkout.of("order:9").signal(shop.world.conn, "shipped", {"tracking": "X"}).outcome == "delivered"
        eventually(lambda: ("", 3, "sleep", "waiting") in shop.names() or None)
        shop.asleep(sent.id)
        shop.forward()
        shop.ended(sent.id)
    assert shop.did == ["charge", ("notify", "X", 7)]
    assert shop.ours() == ["reserve"]
    assert shop.world.row(sent.id).attempts == 1
    assert shop.world.count("attempts") == 0


def test_a_timeout_fails_the_flow_and_undoes_in_reverse(shop: Shop) -> None:
    checkout = _checkout(shop)
    with shop.work():
        sent = checkout.start(shop.world.conn, order_id=9)
        shop.asleep(sent.id)
        shop.forward()
        shop.ended(sent.id, "failed")
    assert shop.did == ["charge", ("refund", {"id": 7}, "1")]
    assert shop.ours() == ["reserve", "unreserve"]
    undos = shop.world.sql("SELECT n, name FROM steps WHERE path = 'undo' ORDER BY recorded_at")
    assert undos == [(1, "undo:charge"), (0, "undo:reserve")]


def test_a_cancelled_flow_is_undone_where_it_waits_and_ends_as_cancelled(shop: Shop) -> None:
    checkout = _checkout(shop)
    with shop.work():
        sent = checkout.start(shop.world.conn, order_id=9)
        shop.asleep(sent.id)
        assert checkout.of("order:9").cancel(shop.world.conn, "changed my mind")[1] == "asked"
        shop.ended(sent.id, "cancelled")
    assert "changed my mind" in (shop.world.row(sent.id).last_error or "")
    assert shop.ours() == ["reserve", "unreserve"]
    assert ("", 2, "wait:shipped", "cancelled") in shop.names()


def test_a_deadline_takes_the_same_way(shop: Shop) -> None:
    checkout = _checkout(shop, deadline_seconds=1.5)
    with shop.work():
        sent = checkout.start(shop.world.conn, order_id=9)
        shop.ended(sent.id, "cancelled")
    assert shop.ours() == ["reserve", "unreserve"]


def test_what_was_recorded_is_not_run_again_after_a_crash(shop: Shop) -> None:
    crashes, seen = iter([True, True]), list[Any]()

    @shop.flows.workflow("crashing")
    async def crashing(flow: Flow) -> None:
        seen.append((flow.now(), flow.uuid(), flow.random()))
        assert await flow.step("one", shop.ado, "one", 1) == 1
        seen.append((flow.now(), flow.uuid(), flow.random()))
        await flow.step("two", keyed)
        if next(crashes, False):
            raise RuntimeError("boom")

    async def keyed() -> None:
        shop.do(step_key())

    with shop.work():
        sent = crashing.start(shop.world.conn)
        shop.ended(sent.id, forward=True)
    assert shop.did == ["one", f"{sent.id}/1//1"]
    assert seen[:2] == seen[2:4] == seen[4:6]


def test_a_failing_step_is_tried_again_in_place_and_after_a_park_and_then_fails_for_good(shop: Shop) -> None:
    tried = list[int]()

    @shop.flows.workflow("failing")
    async def failing(flow: Flow) -> str:
        with pytest.raises(StepFailed, match="ValueError: no 3"):
            await flow.step("quick", fails, retry=AT_ONCE)
        try:
            await flow.step("slow", fails, retry=Tries(2, Fixed(60)))
        except StepFailed as error:
            await flow.step("tell", shop.ado, str(error))
        with pytest.raises(StepFailed, match="no such card"):
            await flow.step("refused", shop.ado, "card", Fail("no such card"))
        return "ok"

    async def fails() -> None:
        tried.append(1)
        raise ValueError(f"no {len(tried)}")

    with shop.work():
        sent = failing.start(shop.world.conn)
        shop.asleep(sent.id)
        assert len(tried) == 4
        shop.forward()
        shop.ended(sent.id)
    assert shop.did == ["step 'slow' failed: ValueError: no 5", "card"]


def test_branches_wait_together_and_go_on_one_by_one(shop: Shop) -> None:
    @shop.flows.workflow("branching")
    async def branching(flow: Flow) -> None:
        async def branch(name: str) -> Any:
            await flow.step("before", shop.ado, ("before", name))
            word = await flow.wait_for(name)
            return await flow.step("after", shop.ado, ("after", name), word)

        values = await flow.parallel(branch("a"), branch("b"))
        both = await flow.parallel(flow.wait_for("c"), flow.step("d", shop.ado, "d", 4))
        again = await asyncio.gather(flow.step("x", shop.ado, "x", 1), flow.step("y", shop.ado, "y", 2))
        await flow.step("end", shop.ado, (values, both, again))

    with shop.work():
        sent = branching.start(shop.world.conn)
        shop.asleep(sent.id, 2)
        branching.of(sent.id).signal(shop.world.conn, "b", "B")
        eventually(lambda: ("after", "b") in shop.did or None)
        shop.asleep(sent.id, 1)
        branching.of(sent.id).signal(shop.world.conn, "c", 3)
        branching.of(sent.id).signal(shop.world.conn, "a", "A")
        shop.ended(sent.id)
    assert shop.did[-1] == (["A", "B"], [3, 4], [1, 2])
    assert sorted(map(str, shop.did)) == sorted(set(map(str, shop.did)))
    assert ("0.1", 1, "wait:b", "done") in shop.names()


def test_the_first_branch_wins_and_the_others_are_closed(shop: Shop) -> None:
    @shop.flows.workflow("racing")
    async def racing(flow: Flow) -> None:
        async def approval() -> Any:
            return await flow.wait_for("approval")

        async def patience() -> Any:
            await flow.sleep(60)
            return "nobody came"

        word = await flow.first(approval(), patience())
        await flow.wait_for("go")
        await flow.step("end", shop.ado, word)

    with shop.work():
        sent = racing.start(shop.world.conn)
        shop.asleep(sent.id, 2)
        racing.of(sent.id).signal(shop.world.conn, "approval", "yes")
        shop.asleep(sent.id, 1)
        racing.of(sent.id).signal(shop.world.conn, "go")
        shop.ended(sent.id)
    assert shop.did == ["yes"]
    assert ("0.1", 0, "sleep", "cancelled") in shop.names()


def test_gather_of_branches_is_refused_at_once(shop: Shop) -> None:
    @shop.flows.workflow("gathering")
    async def gathering(flow: Flow) -> None:
        async def branch() -> None:
            await flow.step("x", shop.ado, "x")

        try:
            await asyncio.gather(branch(), branch())
        except UseParallel as error:
            shop.do(str(error))

    with shop.work():
        shop.ended(gathering.start(shop.world.conn).id)
    assert "flow.parallel" in shop.did[-1]


def test_plain_functions_are_workflows_alike(shop: Shop) -> None:
    @shop.flows.workflow("plain")
    def plain(flow: Flow, n: int) -> str:
        flow.fenced("write", lambda tx: tx.execute(shop.insert("w")) and None)
        one = flow.step("one", shop.do, "one", n)
        values = flow.parallel(partial(branch, flow, "a"), partial(branch, flow, "b"))
        flow.show("stage", {"n": one})
        flow.sleep(5)
        return str(flow.step("end", shop.do, (one, values), "ok"))

    def branch(flow: Flow, name: str) -> Any:
        return flow.wait_for(name)

    with shop.work():
        sent = plain.start(shop.world.conn, n=3)
        shop.asleep(sent.id, 2)
        for name in "ab":
            plain.of(sent.id).signal(shop.world.conn, name, name)
        eventually(lambda: ("", 3, "sleep", "waiting") in shop.names() or None)
        shop.asleep(sent.id)
        shop.forward()
        shop.ended(sent.id)
    assert shop.did == ["one", (3, ["a", "b"])]
    assert plain.of(sent.id).state(shop.world.conn).shown == {"stage": {"n": 3}}
    assert shop.ours() == ["w"]


def test_a_flow_begins_anew_and_starts_another_one_once(shop: Shop) -> None:
    @shop.flows.workflow("other", name="other:{n}")
    async def other(flow: Flow, n: int) -> None:
        await flow.step("other", shop.ado, ("other", n))

    @shop.flows.workflow("counting")
    async def counting(flow: Flow, n: int) -> None:
        await flow.step("count", shop.ado, (flow.run, n))
        await flow.start(other, n=n)
        if n < 3:
            flow.anew(n=n + 1)

    with shop.work():
        shop.ended(counting.start(shop.world.conn, n=1).id)
        eventually(lambda: len(shop.did) == 6 or None)
    assert [did for did in shop.did if did[0] != "other"] == [(1, 1), (2, 2), (3, 3)]


def test_a_changed_definition_is_caught_and_the_right_code_goes_on(shop: Shop) -> None:
    @shop.flows.workflow("changing")
    async def changing(flow: Flow) -> None:
        await flow.step("one", shop.ado, "one")
        await flow.wait_for("go")
        await flow.step("two", shop.ado, "two")

    right = changing.versions[1].function

    async def wrong(flow: Flow) -> None:
        await flow.step("renamed", shop.ado, "renamed")

    with shop.work():
        sent = changing.start(shop.world.conn)
        shop.asleep(sent.id)
        changing.versions[1].function = wrong
        changing.of(sent.id).signal(shop.world.conn, "go")
        eventually(lambda: "definition differs" in (shop.world.row(sent.id).last_error or "") or None)
        assert shop.world.row(sent.id).attempts == 0
        changing.versions[1].function = right
        shop.world.due()
        shop.ended(sent.id)
    assert shop.did == ["one", "two"]


def test_a_worker_without_the_version_turns_the_row_away_at_no_cost(shop: Shop) -> None:
    @shop.flows.workflow("versioned", version=2)
    async def versioned(flow: Flow) -> None:
        shop.do(flow.version)

    two = versioned.versions[2]
    with shop.work() as hired:
        assert isinstance(hired, Hired)
        sent = versioned.start(shop.world.conn)
        shop.ended(sent.id)
        versioned.versions = {3: two}
        shop.world.enqueue("versioned", headers={"tenure-flow": "versioned", "tenure-version": "2"})
        eventually(lambda: "no worker for version 2" in str(shop.world.sql("SELECT last_error FROM live")) or None)
        assert shop.world.sql("SELECT attempts FROM live") == [(0,)]
        versioned.versions[2] = two
        shop.world.due()
        eventually(lambda: shop.did == [2, 2] or None)


def test_an_undo_that_fails_for_good_leaves_a_dead_letter_that_says_what_is_left(shop: Shop) -> None:
    @shop.flows.workflow("undoing")
    async def undoing(flow: Flow) -> None:
        await flow.step("one", shop.ado, "one", undo=shop.ado)
        await flow.step("two", shop.ado, "two", undo=broken, retry=Tries(1))
        await flow.step("three", broken, None, retry=Tries(1), undo=in_doubt)

    async def broken(*args: Any) -> None:
        raise ValueError("no")

    async def in_doubt(result: Any, *args: Any) -> None:
        shop.do(("in doubt", result))

    with shop.work():
        sent = undoing.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter")
    assert "left to undo: two, one" in (shop.world.row(sent.id).last_error or "")
    assert shop.did == ["one", "two", ("in doubt", None)]


def test_a_workflow_takes_no_max_attempts(shop: Shop) -> None:
    with pytest.raises(BadSettings, match="retry=Tries"):

        @shop.flows.workflow("never", max_attempts=1)
        async def never(flow: Flow) -> None: ...


def test_a_map_waits_for_all_its_children_and_has_their_ends_in_order(shop: Shop) -> None:
    @shop.inbox.handler("square", result=True, max_attempts=1)
    async def square(n: int) -> int:
        if n == 13:
            raise ValueError("unlucky")
        return n * n

    @shop.flows.workflow("cube")
    async def cube(flow: Flow, n: int) -> int:
        return int(await flow.step("cube", shop.ado, n, n**3))

    @shop.flows.workflow("mapping")
    async def mapping(flow: Flow) -> None:
        ends = await flow.map(square, range(20), window=7)
        cubes = await flow.map(cube, [{"n": 2}, {"n": 3}])
        one = await flow.call(square, n=5)
        none = await flow.map(square, [])
        await flow.step("end", shop.ado, ([end.value for end in ends], [end.value for end in cubes], one, none))
        shop.do([end.status for end in ends][13])

    with shop.work():
        sent = mapping.start(shop.world.conn)
        shop.ended(sent.id)
    squares = [n * n if n != 13 else None for n in range(20)]
    assert shop.did[-2:] == [(squares, [8, 27], 25, []), "dead_letter"]


def test_with_stop_on_failure_the_rest_is_cancelled(shop: Shop) -> None:
    @shop.inbox.handler("work", result=True, max_attempts=1)
    async def work(n: int) -> int:
        raise ValueError("no")

    @shop.flows.workflow("stopping")
    async def stopping(flow: Flow) -> None:
        ends = await flow.map(work, [1], stop_on_failure=True)
        await flow.step("end", shop.ado, [end.status for end in ends])

    with shop.work():
        shop.ended(stopping.start(shop.world.conn).id)
    assert shop.did == [["dead_letter"]]
