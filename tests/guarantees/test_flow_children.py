"""Children of workflows: their end is never missed, and they do not outlive the wish for them."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from crew import eventually
from guarantees.facts import Beside, together, waits_for_a_lock
from guarantees.flow_shop import Shop
from tenure import Fixed, Snooze
from tenure.model.rows import Claimed, NewRow
from tenure.postgres.runner import run
from tenure.shapes.flow import Flow, Tries
from tenure.verbs import batches, settle, steps
from tenure.verbs.lifecycle import cancel
from tenure.verbs.steps import Parking, Wait
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def _dawdler(shop: Shop, n: int) -> Any:
    """A handler whose rows come again in an hour; that of 0 fails once all the others have been there."""

    @shop.inbox.handler("dawdle", result=True, max_attempts=1)
    async def dawdle(of: int) -> Any:
        if of:
            shop.do(of)
            return Snooze(3600.0)
        while len(shop.did) < n - 1:
            await asyncio.sleep(0.01)
        raise ValueError("no")

    return dawdle


def test_the_first_failure_of_many_children_cancels_the_rest(shop: Shop) -> None:
    dawdle, ended = _dawdler(shop, 40), list[Any]()

    @shop.flows.workflow("stopping")
    async def stopping(flow: Flow) -> None:
        ends = await flow.map(dawdle, range(40), stop_on_failure=True)
        ended.extend(end.status for end in ends)

    with shop.work():
        shop.ended(stopping.start(shop.world.conn).id)
    assert ended == ["dead_letter", *["cancelled"] * 39]
    assert shop.world.count("live") == 0


def test_without_it_one_failure_cancels_nobody(shop: Shop) -> None:
    dawdle = _dawdler(shop, 5)

    @shop.flows.workflow("patient")
    async def patient(flow: Flow) -> None:
        await flow.map(dawdle, range(5))

    with shop.work():
        id = patient.start(shop.world.conn).id
        eventually(lambda: shop.world.sql("SELECT 1 FROM dead WHERE kind = 'dawdle'"))
        shop.asleep(id)
    assert shop.world.count("live") == 5


def test_a_cancelled_flow_takes_its_children_along(shop: Shop) -> None:
    dawdle = _dawdler(shop, 99)

    @shop.flows.workflow("parent")
    async def parent(flow: Flow) -> None:
        await flow.map(dawdle, range(1, 6))

    with shop.work():
        id = parent.start(shop.world.conn).id
        eventually(lambda: len(shop.did) == 5 or None)
        shop.asleep(id)
        parent.of(id).cancel(shop.world.conn, "changed my mind")
        shop.ended(id, "cancelled")
    assert shop.world.sql("SELECT DISTINCT kind, status FROM dead ORDER BY 1") == [
        ("dawdle", "cancelled"),
        ("parent", "cancelled"),
    ]


def test_children_that_are_flows_undo_what_they_did_when_their_parent_is_cancelled(shop: Shop) -> None:
    @shop.flows.workflow("child")
    async def child(flow: Flow, n: int) -> None:
        await flow.step("charge", shop.ado, ("charge", n), undo=undo)
        await flow.wait_for("never")

    async def undo(result: Any, what: Any, *rest: Any) -> None:
        shop.do(("undone", what[1]))

    @shop.flows.workflow("parent")
    async def parent(flow: Flow) -> None:
        await flow.map(child, [1, 2])

    with shop.work():
        id = parent.start(shop.world.conn).id
        eventually(lambda: shop.world.sql("SELECT 1 FROM steps WHERE state = 'waiting' OFFSET 2"))
        parent.of(id).cancel(shop.world.conn)
        shop.ended(id, "cancelled")
        eventually(lambda: shop.world.count("live") == 0 or None)
    assert sorted(shop.did) == [("charge", 1), ("charge", 2), ("undone", 1), ("undone", 2)]


# -- the end of a group and the park of its parent


def _parent(world: World) -> tuple[Claimed, Claimed, Wait]:
    """A parent that is about to be parked, its only child that is about to end, and what the parent waits for."""
    world.enqueue("parent", headers={"tenure-flow": "parent"})
    parent = world.claim_one()
    group = world.run(batches.open_group([NewRow("child", {})], then_row=parent.id)).id
    return parent, world.claim_one(), Wait("", 1, f"group:{group}", seconds=3600.0)


def _sleepers(world: World) -> int:
    """Parents that sleep though all their children have ended."""
    query = (
        "SELECT count(*) FROM live WHERE kind = 'parent' AND status = 'pending' AND available_at > clock_timestamp()"
    )
    return int(world.sql(query)[0][0])


def test_no_end_of_a_group_and_park_of_its_parent_miss_each_other(world: World) -> None:
    pairs = [_parent(world) for _ in range(60)]
    one, two = world.connect(), world.connect()

    def act(number: int) -> None:
        for parent, child, wait in pairs:
            if number:
                world.run(settle.complete([child.lease]), one)
            else:
                world.run(steps.park([Parking(parent.lease, [wait])]), two)

    together(2, act)
    assert _sleepers(world) == 0


def test_a_park_behind_the_end_of_its_group_stays_awake(world: World) -> None:
    parent, child, wait = _parent(world)
    other = world.connect()
    with other.transaction():
        world.run(settle.complete([child.lease]), other)  # it has locked the parent, found it held, and left it alone
        (answer,) = world.run(steps.park([Parking(parent.lease, [wait])]))
        assert not isinstance(answer, steps.Parked)
        assert answer.reason == "try_again"
    (answer,) = world.run(steps.park([Parking(parent.lease, [wait])]))
    assert isinstance(answer, steps.Parked)
    assert answer.outcome == "awake"


def test_with_row_lock_and_look_in_one_statement_a_parent_sleeps_though_its_group_has_ended(world: World) -> None:
    """The control: the park looks at its group without the lock of its row, and waits for that only to write."""
    source = world.sql("SELECT pg_get_functiondef('park'::regproc)")[0][0]
    merged = source.replace("FOR NO KEY UPDATE SKIP LOCKED", "")
    assert merged != source
    world.sql(merged.replace("%", "%%"))
    parent, child, wait = _parent(world)
    other = world.connect()
    with other.transaction():
        world.run(settle.complete([child.lease]), other)
        parking = Beside(lambda: world.run(steps.park([Parking(parent.lease, [wait])])))
        waits_for_a_lock(world, world.conn)
    parking.result()
    assert _sleepers(world) == 1


# -- replies that are lost, and markers


def test_anew_is_done_once_though_its_reply_is_lost(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.shapes.flow import driving

    asked, lost = driving.run, list[str]()  # type: ignore[attr-defined]

    def run(conn: Any, statement: Any, schema: str) -> Any:
        async def answer() -> Any:
            found = await asked(conn, statement, schema)
            if statement.name == "anew" and not lost:
                lost.append("anew")
                raise psycopg.OperationalError("the server closed the connection")
            return found

        return answer()

    monkeypatch.setattr(driving, "run", run)

    @shop.flows.workflow("counting")
    async def counting(flow: Flow, n: int) -> None:
        await flow.step("count", shop.ado, (flow.run, n), retry=Tries(2, Fixed(0)))
        if n < 3:
            flow.anew(n=n + 1)

    with shop.work():
        shop.ended(counting.start(shop.world.conn, n=1).id)
    assert lost == ["anew"]
    assert shop.did == [(1, 1), (2, 2), (3, 3)]


def test_patched_is_true_for_those_who_come_by_and_false_for_those_who_were_past(shop: Shop) -> None:
    @shop.flows.workflow("patching", name="{name}")
    async def patching(flow: Flow, name: str) -> None:
        await flow.step("one", shop.ado, (name, "one"))
        await flow.step("two", shop.ado, (name, "two"))
        await flow.wait_for("go")

    async def faster(flow: Flow, name: str) -> None:
        await flow.step("one", shop.ado, (name, "one"))
        if flow.patched("faster"):
            await flow.step("both", shop.ado, (name, "both"))
        else:
            await flow.step("two", shop.ado, (name, "two"))
        await flow.wait_for("go")
        await flow.step("end", shop.ado, (name, "end"))

    async def retired(flow: Flow, name: str) -> None:
        await flow.step("one", shop.ado, (name, "one"))
        flow.patched("faster", retired=True)
        await flow.step("both", shop.ado, (name, "both"))
        await flow.wait_for("go")

    with shop.work():
        old = patching.start(shop.world.conn, name="old").id
        shop.asleep(old)
        patching.versions[1].function = faster
        new = patching.start(shop.world.conn, name="new").id
        shop.asleep(new)
        patching.of("old").signal(shop.world.conn, "go")
        shop.ended(old)
        patching.versions[1].function = retired
        last = patching.start(shop.world.conn, name="last").id
        shop.asleep(last)
        for name in ("new", "last"):
            patching.of(name).signal(shop.world.conn, "go")
        shop.ended(new)
        shop.ended(last)
    assert [what for name, what in shop.did if name == "old"] == ["one", "two", "end"]
    assert [what for name, what in shop.did if name == "new"] == ["one", "both"]
    assert shop.world.sql("SELECT row_id, n FROM steps WHERE name = 'patch:faster'") == [(new, 1)]


@pytest.mark.parametrize("how", ["fails", "is cancelled", "is cancelled by its row"])
def test_a_flow_that_stops_does_not_stand_in_line_behind_its_children(shop: Shop, how: str) -> None:
    ran, ended = list[int](), list[str]()

    @shop.inbox.handler("child", max_attempts=1)
    async def child(of: int) -> None:
        ran.append(of)
        if of == 3 and how == "fails":
            raise ValueError("no")
        if of == 3 and how == "is cancelled":
            parent.of(ids[0]).cancel(shop.world.connect())
        if of == 3 and how == "is cancelled by its row":
            run(shop.world.connect(), cancel([ids[0]], reason="enough"), shop.world.schema)

    @shop.flows.workflow("parent")
    async def parent(flow: Flow) -> None:
        ended.extend(end.status for end in await flow.map(child, range(400), stop_on_failure=True))

    ids = [parent.start(shop.world.conn).id]
    with shop.work(slots=1, poll_seconds=600.0):
        shop.ended(ids[0], "completed" if how == "fails" else "cancelled")
    assert len(ran) < 100
    assert how != "fails" or ended.count("cancelled") > 300


def test_a_flow_that_stops_does_not_come_before_rows_that_are_older(shop: Shop) -> None:
    world = shop.world

    @shop.flows.workflow("waits")
    async def waits(flow: Flow) -> None:
        await flow.wait_for("never")

    with shop.work():
        id = waits.start(world.conn).id
        shop.asleep(id)
    late = world.enqueue("k")
    before = world.enqueue("k")
    world.sql("UPDATE live SET available_at = '2020-01-01' WHERE id = %s", before)
    waits.of(id).cancel(world.conn)
    assert _in_line(world) == [before, id, late]
    assert world.sql("SELECT count(*) FROM live WHERE available_at <= clock_timestamp()") == [(3,)]


def _in_line(world: World) -> list[Any]:
    return [id for (id,) in world.sql("SELECT id FROM live WHERE status = 'pending' ORDER BY available_at")]
