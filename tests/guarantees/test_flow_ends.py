"""How children ended is recorded: what a flow has seen once it sees in every later attempt."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow, StepFailed
from tenure.shapes.flow.check import check
from tenure.verbs.lifecycle import redrive
from tenure.verbs.steps import recall
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def packer(shop: Shop, size: int = 1) -> Any:
    """A handler that fails for odd numbers, until they are mended; else its value is as long as this."""
    shop.broken = True  # type: ignore[attr-defined]

    @shop.inbox.handler("pack", result=True, max_attempts=1)
    async def pack(n: int) -> str:
        if n % 2 and shop.broken:  # type: ignore[attr-defined]
            raise ValueError(f"{n} is odd")
        return str(n) * size

    return pack


def looker(shop: Shop, what: Any, inputs: list[int]) -> Any:
    """A workflow that sends these, tells how they ended, waits, and tells it again."""

    @shop.flows.workflow("look")
    async def look(flow: Flow) -> list[Any]:
        ends = await flow.map(what, inputs)
        shop.do([(end.status, end.value, end.error) for end in ends])
        if any(end.status != "completed" for end in ends):
            await flow.step("tell", shop.ado, "told")
        await flow.wait_for("go")
        return [end.status for end in ends]

    return look


def told_twice(shop: Shop) -> Any:
    """What the function saw, which was the same each time."""
    first, *more = [each for each in shop.did if each != "told"]
    assert more
    assert all(each == first for each in more)
    return first


def forget_children(shop: Shop) -> None:
    """As retention does."""
    for table in ("archive", "groups"):
        shop.world.sql(f"DELETE FROM {table}")


def waits_to_go(shop: Shop, id: UUID) -> None:
    """Until it has seen its children's ends, and is parked again."""
    eventually(lambda: shop.recorded("wait:go", "waiting") or None)
    shop.asleep(id)


def mend_the_child(shop: Shop) -> None:
    """What failed is redriven, and completes."""
    shop.broken = False  # type: ignore[attr-defined]
    ((child,),) = shop.world.sql("SELECT id FROM dead WHERE kind = 'pack'")
    shop.world.run(redrive([child]))
    shop.ended(child)


def goes_on(shop: Shop, look: Any, id: UUID) -> None:
    """The signal comes, and the flow ends."""
    look.of(id).signal(shop.world.conn, "go")
    shop.ended(id)


def test_a_child_that_is_redriven_later_has_failed_for_its_flow_all_the_same(shop: Shop) -> None:
    look = looker(shop, packer(shop), [0, 1])
    with shop.work():
        id = look.start(shop.world.conn).id
        waits_to_go(shop, id)
        mend_the_child(shop)
        goes_on(shop, look, id)
    assert [status for status, *_ in told_twice(shop)] == ["completed", "dead_letter"]
    assert shop.did.count("told") == 1


def test_what_retention_forgets_a_flow_still_knows(shop: Shop) -> None:
    look = looker(shop, packer(shop), [0, 2])
    with shop.work():
        id = look.start(shop.world.conn).id
        waits_to_go(shop, id)
        forget_children(shop)
        goes_on(shop, look, id)
    assert told_twice(shop) == [("completed", "0", None), ("completed", "2", None)]


def test_a_called_child_is_known_too(shop: Shop) -> None:
    pack = packer(shop)

    @shop.flows.workflow("look")
    def look(flow: Flow) -> str:
        value = flow.call(pack, n=4)
        shop.do(value)
        flow.wait_for("go")
        return str(value)

    with shop.work():
        id = look.start(shop.world.conn).id
        waits_to_go(shop, id)
        forget_children(shop)
        goes_on(shop, look, id)
    assert told_twice(shop) == "4"


def test_of_large_values_the_failures_are_recorded_and_the_rest_is_read_again(shop: Shop) -> None:
    look = looker(shop, packer(shop, 100_000), [0, 1, 2, 4, 6])
    with shop.work():
        id = look.start(shop.world.conn).id
        waits_to_go(shop, id)
        mend_the_child(shop)
        goes_on(shop, look, id)
    seen = told_twice(shop)
    assert [status for status, *_ in seen] == ["completed", "dead_letter", *["completed"] * 3]
    assert seen[2][1] == "2" * 100_000
    assert shop.world.sql("SELECT jsonb_typeof(result), state FROM steps WHERE name = 'ends'") == [("object", "failed")]


@pytest.mark.parametrize("child_first", [True, False])
def test_a_redriven_flow_looks_again_at_a_child_that_had_failed(shop: Shop, child_first: bool) -> None:
    """Also one that is redriven before its child: it fails again, and nothing is worse than before."""
    pack = packer(shop)

    @shop.flows.workflow("look")
    async def look(flow: Flow) -> Any:
        return await flow.call(pack, n=1)

    with shop.work():
        id = look.start(shop.world.conn).id
        shop.ended(id, "failed")
        ((child,),) = shop.world.sql("SELECT id FROM dead WHERE kind = 'pack'")
        shop.broken = False  # type: ignore[attr-defined]
        if not child_first:
            shop.world.run(redrive([id]))
            shop.ended(id, "failed")
        shop.world.run(redrive([child]))
        shop.ended(child)
        shop.world.run(redrive([id]))
        shop.ended(id)


def test_the_children_of_a_stopped_map_that_undo_count_as_cancelled(shop: Shop) -> None:
    @shop.flows.workflow("child")
    async def child(flow: Flow, n: int) -> None:
        if n == 0:
            await flow.wait_for("fail")
            raise StepFailed("mine", "no")
        await flow.step("charge", shop.ado, ("charge", n), undo=undo)
        await flow.wait_for("never")

    async def undo(result: Any, what: Any, *rest: Any) -> None:
        shop.do("undone")

    seen = list[Any]()

    @shop.flows.workflow("parent")
    async def parent(flow: Flow) -> None:
        seen.extend(end.status for end in await flow.map(child, [0, 1], stop_on_failure=True))

    with shop.work():
        id = parent.start(shop.world.conn).id
        eventually(lambda: shop.recorded("charge") or None)
        ((first,),) = shop.world.sql("SELECT id FROM live WHERE kind = 'child' AND payload ->> 'n' = '0'")
        child.of(first).signal(shop.world.conn, "fail")
        shop.ended(id)
    assert (seen[0] in ("failed", "dead_letter"), seen[1]) == (True, "cancelled")


def test_a_check_looks_behind_a_map(shop: Shop) -> None:
    pack = packer(shop)
    look = looker(shop, pack, [0])
    with shop.work():
        id = look.start(shop.world.conn).id
        waits_to_go(shop, id)
    records = shop.world.run(recall([(id, 1)]))[id]
    assert check(look, "{}", records) is None

    @shop.flows.workflow("look", version=2)
    async def changed(flow: Flow) -> None:
        await flow.map(pack, [0])
        await flow.wait_for("stop")

    found = check(changed, "{}", records, version=2)
    assert found is not None
    assert found.n == 3


@pytest.mark.parametrize("plain", [False, True])
def test_a_row_of_a_workflow_that_was_not_started_as_one_runs_nothing(shop: Shop, plain: bool) -> None:
    """It had steps and undos, and nobody could signal, cancel or see it."""

    @shop.flows.workflow("halves")
    async def halves(flow: Flow) -> None:
        await flow.step("step", shop.ado, "step")

    @shop.flows.workflow("plain halves")
    def plain_halves(flow: Flow) -> None:
        flow.step("step", shop.do, "step")

    workflow = plain_halves if plain else halves
    with shop.work():
        id = shop.world.enqueue(workflow.name)
        shop.ended(id, "dead_letter")
    assert shop.did == []
    assert f"{workflow.name}.start(conn, …)" in (shop.world.row(id).last_error or "")
