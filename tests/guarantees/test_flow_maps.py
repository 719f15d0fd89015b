"""A map in parts: the code of a later attempt divides it as it was divided, and a failure stops the parts to come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Snooze
from tenure.model.ended import Ended
from tenure.shapes.flow import Flow, StepFailed, Tries, children
from tenure.shapes.flow.check import check
from tenure.shapes.flow.step_values import RESULT_BYTES_MAX
from tenure.verbs import cancel, redrive
from tenure.verbs.steps import recall
from world import World

pytestmark = pytest.mark.one_server
STOPPED = "another of its map has failed"


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def packer(shop: Shop) -> Any:
    """A handler that notes its input, and fails for those that are broken."""
    shop.broken = set[int]()  # type: ignore[attr-defined]

    @shop.inbox.handler("pack", result=True, max_attempts=1)
    async def pack(n: int) -> int:
        shop.do(n)
        if n in shop.broken:  # type: ignore[attr-defined]
            raise ValueError(f"{n} is broken")
        return n

    return pack


def _held(shop: Shop) -> Any:
    """A handler whose rows come again in an hour, until they are let go."""
    shop.held = True  # type: ignore[attr-defined]

    @shop.inbox.handler("hold", result=True)
    async def hold(n: int) -> Any:
        if shop.held:  # type: ignore[attr-defined]
            return Snooze(3600.0)
        return shop.do(n, n)

    return hold


def _flow(of: Callable[[Flow], Any], *, plain: bool) -> Any:
    """This map as a function of a workflow."""

    async def later(flow: Flow) -> list[Any]:
        return [end.value for end in await of(flow)]

    def now(flow: Flow) -> list[Any]:
        return [end.value for end in of(flow)]

    return now if plain else later


def _differs(shop: Shop, id: UUID) -> None:
    """Let its children end, and wait until it has been tried with the code of now."""

    def said() -> bool:
        shop.world.due()
        return "definition differs" in (shop.world.row(id).last_error or "")

    eventually(said, seconds=60)


CHANGES = {
    "no window": ({"n": 4, "window": 2}, {"n": 4}),
    "a window": ({"n": 4}, {"n": 4, "window": 2}),
    "another window": ({"n": 6, "window": 2}, {"n": 6, "window": 3}),
    "more inputs": ({"n": 4}, {"n": 6}),
    "more inputs behind the first part": ({"n": 4, "window": 2}, {"n": 6, "window": 2}),
    "fewer inputs": ({"n": 4, "window": 2}, {"n": 2, "window": 2}),
    "no inputs": ({"n": 2}, {"n": 0}),
    "it stops": ({"n": 4, "window": 2}, {"n": 4, "window": 2, "stop_on_failure": True}),
}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_another_division_of_a_map_is_another_definition(shop: Shop, change: str, plain: bool) -> None:
    hold = _held(shop)
    before, after = CHANGES[change]

    def mapping(n: int, **terms: Any) -> Any:
        return _flow(lambda flow: flow.map(hold, range(n), **terms), plain=plain)

    changed = shop.flows.workflow("changing")(mapping(**before))
    with shop.work():
        id = changed.start(shop.world.conn).id
        shop.asleep(id)
        changed.versions[1].function = mapping(**after)
        found = check(changed, "{}", shop.world.run(recall([(id, 1)]))[id])
        assert found is not None
        assert (found.path, found.n) == ("", 0)
        assert f"'map:hold' of {before['n']} inputs" in str(found)
        shop.held = False  # type: ignore[attr-defined]
        _differs(shop, id)
        changed.versions[1].function = mapping(**before)
        shop.ended(id, forward=True)
    assert sorted(shop.did) == list(range(before["n"]))


def test_nothing_beside_a_map_that_differs_is_run(shop: Shop) -> None:
    """A step that was asked for after the map has another number then, and would be run once more."""
    hold = _held(shop)

    def beside(**terms: Any) -> Any:
        async def function(flow: Flow) -> None:
            ends, told = flow.map(hold, range(4), **terms), flow.step("tell", shop.ado, "told")
            await flow.parallel(told, ends)

        return function

    changed = shop.flows.workflow("beside")(beside(window=2))
    with shop.work():
        id = changed.start(shop.world.conn).id
        shop.asleep(id)
        changed.versions[1].function = beside()
        _differs(shop, id)
    assert shop.did == ["told"]


def test_a_window_that_divides_nothing_may_come_and_go(shop: Shop) -> None:
    hold = _held(shop)
    changed = shop.flows.workflow("wide")(_flow(lambda flow: flow.map(hold, [1, 2], window=9), plain=False))
    with shop.work():
        id = changed.start(shop.world.conn).id
        shop.asleep(id)
        records = shop.world.run(recall([(id, 1)]))[id]
    for terms in ({}, {"window": 2}, {"stop_on_failure": True}):
        changed.versions[1].function = _flow(partial(_mapped, hold, terms), plain=False)
        assert check(changed, "{}", records) is None


def _mapped(what: Any, terms: dict[str, Any], flow: Flow) -> Any:
    return flow.map(what, [1, 2], **terms)


# -- stop_on_failure


def _stopping(shop: Shop, pack: Any, seen: list[Any], *, window: int) -> Any:
    @shop.flows.workflow("stopping")
    async def stopping(flow: Flow) -> None:
        ends = await flow.map(pack, range(9), window=window, stop_on_failure=True)
        seen[:] = [(end.status, end.value) for end in ends]
        if any(end.error == STOPPED for end in ends):
            raise StepFailed("pack", "not all")
        await flow.step("tell", shop.ado, "told", retry=Tries(1))

    return stopping


def test_a_failure_stops_the_parts_that_were_not_sent(shop: Shop) -> None:
    pack, seen = packer(shop), list[Any]()
    shop.broken = {4}  # type: ignore[attr-defined]
    stopping = _stopping(shop, pack, seen, window=3)
    with shop.work():
        shop.ended(stopping.start(shop.world.conn).id, "failed")
    assert set(shop.did) <= set(range(6))
    assert seen[:3] == [("completed", 0), ("completed", 1), ("completed", 2)]
    assert seen[4] == ("dead_letter", None)
    assert seen[6:] == [("cancelled", None)] * 3


def test_a_child_that_was_cancelled_stops_no_part(shop: Shop) -> None:
    """As among those that are sent at once: only a failure does."""
    hold, seen = _held(shop), list[Any]()

    @shop.flows.workflow("patient")
    async def patient(flow: Flow) -> None:
        seen[:] = [end.status for end in await flow.map(hold, [0, 1], window=1, stop_on_failure=True)]

    with shop.work():
        id = patient.start(shop.world.conn).id
        shop.asleep(id)
        ((child,),) = shop.world.sql("SELECT id FROM live WHERE kind = 'hold'")
        shop.held = False  # type: ignore[attr-defined]
        assert shop.world.run(cancel([child])) == {child: "cancelled"}
        shop.ended(id)
    assert seen == ["cancelled", "completed"]


def test_a_redriven_flow_sends_the_parts_that_a_failure_stopped(shop: Shop) -> None:
    pack, seen = packer(shop), list[Any]()
    shop.broken = {2}  # type: ignore[attr-defined]
    stopping = _stopping(shop, pack, seen, window=1)
    with shop.work():
        id = stopping.start(shop.world.conn).id
        shop.ended(id, "failed")
        shop.broken = set()  # type: ignore[attr-defined]
        ((child,),) = shop.world.sql("SELECT id FROM dead WHERE kind = 'pack'")
        shop.world.run(redrive([child]))
        shop.ended(child)
        shop.world.run(redrive([id]))
        shop.ended(id)
    assert seen == [("completed", n) for n in range(9)]
    assert sorted(n for n in shop.did if n != "told") == [0, 1, 2, 2, *range(3, 9)]


# -- what is kept of many


@pytest.mark.parametrize("most", [100_000, 200, 60])
def test_how_children_ended_stays_so_however_much_of_it_can_be_kept(
    shop: Shop, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They fail, the flow goes on after that, and they are redriven: it does not see that."""
    monkeypatch.setattr(children, "RESULT_BYTES_MAX", most)
    broken, seen = {1, 3}, list[Any]()

    @shop.inbox.handler("fill", result=True, max_attempts=1)
    async def fill(n: int) -> int:
        if n in broken:
            raise ValueError("broken " * 20)
        return n

    @shop.flows.workflow("alerting")
    async def alerting(flow: Flow) -> None:
        seen.append(await flow.map(fill, range(4)))
        if any(end.status != "completed" for end in seen[-1]):
            await flow.step("alert", shop.ado, "alert")
        await flow.wait_for("go")

    with shop.work():
        id = alerting.start(shop.world.conn).id
        eventually(lambda: shop.recorded("wait:go", "waiting"))
        broken.clear()
        failed = [each for (each,) in shop.world.sql("SELECT id FROM dead WHERE kind = 'fill'")]
        shop.world.run(redrive(failed))
        for each in failed:
            shop.ended(each)
        alerting.of(id).signal(shop.world.conn, "go")
        shop.ended(id)
    assert [end.status for end in seen[0]] == ["completed", "dead_letter", "completed", "dead_letter"]
    assert seen[-1] == seen[0]
    assert len(seen) > 1
    assert shop.did == ["alert"]


def test_how_each_of_the_most_children_ended_can_be_kept() -> None:
    """Also that a failure stopped those behind it, for by that no further part is sent."""
    some = [
        Ended("completed", 1),
        Ended("failed", None, "no"),
        Ended("dead_letter", None, "no"),
        Ended("cancelled", None, "asked to"),
        Ended("cancelled", None, f"cancelled: {STOPPED}"),
    ]
    ends = [some[i % 5]._replace(error=some[i % 5].error and f"{some[i % 5].error} {'x' * 90}") for i in range(100_000)]
    text = children.kept(ends, {"asked": [3]})
    assert len(text) <= RESULT_BYTES_MAX
    seen = children.as_kept(text, ends)
    assert [end.status for end in seen] == [end.status for end in ends]
    assert [STOPPED in (end.error or "") for end in seen[:5]] == [False, False, False, False, True]
