"""A flow that is redriven tries again what failed; one that is cancelled, by any verb, is undone before it ends."""

from __future__ import annotations

from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Rigged
from tenure import DeadLetter, Fail, Fixed
from tenure.shapes.flow import Flow, StepFailed, Tries, core, step_key
from tenure.verbs import cancel, redrive, steps
from tenure.verbs.flows import stuck_flows
from tenure.verbs.operators import delete, erase
from tenure.verbs.questions import why
from world import World

pytestmark = pytest.mark.one_server
ONCE = Tries(1)


class Redriven(Rigged):
    """With undos that can be broken, too."""

    async def undo(self, result: Any, name: str) -> None:
        del result
        self.body(f"un{name}")

    def redrive(self, id: Any) -> None:
        self.did.clear()
        assert self.world.run(redrive([id])) == [id]


@pytest.fixture
def shop(world: World) -> Redriven:
    return Redriven(world)


def _saga(shop: Redriven, *, undo: bool = True, **terms: Any) -> Any:
    @shop.flows.workflow("saga", **terms)
    async def saga(flow: Flow) -> str:
        for name in ("one", "two", "three"):
            await flow.step(name, shop.abody, name, undo=shop.undo if undo else None, retry=ONCE)
        return "done"

    return saga


def test_a_redriven_flow_tries_the_step_that_failed_again_and_no_other(shop: Redriven) -> None:
    saga = _saga(shop, undo=False)
    shop.broken = {"two"}
    with shop.work():
        sent = saga.start(shop.world.conn)
        shop.ended(sent.id, "failed")
        assert "redrive tries step two again." in shop.world.run(why(sent.id))
        shop.redrive(sent.id)
        shop.ended(sent.id, "failed")
        assert shop.did == ["two"]
        shop.broken = set()
        shop.redrive(sent.id)
        shop.ended(sent.id)
    assert shop.did == ["two", "three"]


def test_a_redriven_saga_goes_on_undoing_where_it_stopped(shop: Redriven) -> None:
    saga = _saga(shop)
    shop.broken = {"three", "untwo"}
    with shop.work():
        sent = saga.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter")
        assert shop.did[-2:] == ["unthree", "untwo"]
        assert "redrive goes on undoing where it stopped." in shop.world.run(why(sent.id))
        shop.broken = {"three"}
        shop.redrive(sent.id)
        shop.ended(sent.id, "failed")
    assert shop.did == ["untwo", "unone"]


def test_undos_are_free_of_the_limits_of_steps(shop: Redriven, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "RECORDS_MAX", 3)
    names = [letter * core.NAME_BYTES_MAX for letter in "abc"]

    @shop.flows.workflow("long")
    async def long(flow: Flow) -> Any:
        for name in names:
            await flow.step(name, shop.abody, name, undo=shop.undo, retry=ONCE)
        return Fail("no")

    with shop.work():
        shop.ended(long.start(shop.world.conn).id, "failed")
    assert shop.did == [*names, *(f"un{name}" for name in reversed(names))]


@pytest.mark.parametrize("broken", ["unone", "untwo", "unthree"])
def test_a_redriven_saga_goes_on_undoing_in_a_branch(shop: Redriven, broken: str) -> None:
    @shop.flows.workflow("branched")
    async def branched(flow: Flow) -> Any:
        async def branch() -> None:
            for name in ("two", "three"):
                await flow.step(name, shop.abody, name, undo=shop.undo, retry=ONCE)

        await flow.step("one", shop.abody, "one", undo=shop.undo, retry=ONCE)
        await flow.parallel(branch(), flow.sleep(0.001))
        return Fail("no")

    shop.broken = {broken}
    with shop.work():
        sent = branched.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter", forward=True)
        shop.broken = set()
        shop.redrive(sent.id)
        shop.ended(sent.id, "failed")
    undos = ["unthree", "untwo", "unone"]
    assert shop.did == undos[undos.index(broken) :]


def test_a_saga_that_was_undone_begins_its_next_run_with_other_keys(shop: Redriven) -> None:
    keys = list[str]()

    @shop.flows.workflow("keyed")
    async def keyed(flow: Flow) -> Any:
        await flow.step("pay", pay, undo=unpay)
        return DeadLetter("declined") if flow.run == 1 else "paid"

    async def pay() -> None:
        keys.append(step_key())

    async def unpay(result: Any) -> None:
        shop.do("unpay")

    with shop.work():
        sent = keyed.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter")
        assert "what it did is undone, and redrive begins it again, as its next run." in shop.world.run(why(sent.id))
        assert shop.world.run(steps.cancel_flow(sent.id))[1] == "ended"
        shop.redrive(sent.id)
        shop.ended(sent.id)
    assert shop.did == []
    assert keys == [f"{sent.id}/1//0", f"{sent.id}/2//0"]


def test_a_saga_that_was_asked_to_cancel_while_it_undid_runs_again_when_it_is_redriven(shop: Redriven) -> None:
    saga = _saga(shop)
    shop.broken = {"two"}
    with shop.work():
        sent = saga.start(shop.world.conn)
        shop.ended(sent.id, "failed")
        shop.world.sql('UPDATE dead SET headers = headers || \'{"tenure-cancel": "late"}\' WHERE id = %s', sent.id)
        shop.broken = set()
        shop.redrive(sent.id)
        shop.ended(sent.id)
    assert shop.did == ["one", "two", "three"]


def test_a_failure_that_the_flow_went_on_after_stays_a_failure(shop: Redriven) -> None:
    async def lenient(flow: Flow, name: str) -> str:
        try:
            return str(await flow.step(name, shop.abody, name, retry=ONCE))
        except StepFailed:
            return "other"

    @shop.flows.workflow("lenient")
    async def flow_of_two(flow: Flow) -> list[Any]:
        found = await flow.parallel(lenient(flow, "left"), lenient(flow, "right"))
        found.append(await lenient(flow, "plain"))
        if found != ["other", "right", "other"]:
            return ["differs"]
        return list(await flow.parallel(*(flow_step(flow, name) for name in ("this", "that"))))

    async def flow_step(flow: Flow, name: str) -> Any:
        await flow.step(f"before {name}", shop.abody, f"before {name}")
        return await flow.step(name, shop.abody, name, retry=ONCE)

    shop.broken = {"left", "plain", "this", "that"}
    with shop.work():
        sent = flow_of_two.start(shop.world.conn)
        shop.ended(sent.id, "failed")
        shop.broken = set()
        shop.redrive(sent.id)
        shop.ended(sent.id)
    assert sorted(shop.did) == ["that", "this"]


def test_a_redriven_flow_has_its_time_to_clean_up_again(shop: Redriven) -> None:
    @shop.flows.workflow("waiting", cleanup_seconds=60.0)
    async def waiting(flow: Flow) -> None:
        await flow.step("one", shop.abody, "one", undo=shop.undo, retry=ONCE)
        await flow.wait_for("never")

    shop.broken = {"unone"}
    with shop.work():
        sent = waiting.start(shop.world.conn)
        shop.asleep(sent.id)
        shop.world.run(steps.cancel_flow(sent.id))
        shop.ended(sent.id, "dead_letter")
        shop.world.sql("UPDATE steps SET recorded_at = recorded_at - interval '1 hour'")
        shop.broken = set()
        shop.redrive(sent.id)
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["unone"]


def test_a_cancel_while_an_undo_waits_spends_none_of_its_tries(shop: Redriven) -> None:
    @shop.flows.workflow("patient")
    async def patient(flow: Flow) -> Any:
        await flow.step("one", shop.abody, "one", undo=shop.undo, retry=Tries(3, Fixed(3600)))
        return Fail("no")

    shop.broken = {"unone"}
    with shop.work():
        sent = patient.start(shop.world.conn)
        shop.asleep(sent.id)
        before = shop.world.row(sent.id).fence_token
        assert shop.world.run(steps.cancel_flow(sent.id))[1] == "asked"
        eventually(lambda: shop.world.row(sent.id).fence_token > before)
        shop.asleep(sent.id)
        assert shop.did == ["one", "unone"]
        shop.broken = set()
        shop.forward()
        shop.ended(sent.id, "failed")
    assert shop.did == ["one", "unone", "unone"]


# -- an error of the function itself


def _buggy(shop: Redriven, **terms: Any) -> Any:
    @shop.flows.workflow("buggy", **terms)
    async def buggy(flow: Flow) -> str:
        await flow.step("one", shop.abody, "one", undo=shop.undo)
        if "buggy" in shop.broken:
            raise RuntimeError("a bug")
        return "done"

    shop.broken = {"buggy"}
    return buggy


def _failing(shop: Redriven, id: Any) -> None:
    """Wait until the function has failed and the row waits to be tried again."""
    eventually(lambda: shop.world.row(id).status == "pending" and "a bug" in (shop.world.row(id).last_error or ""))


def test_a_flow_whose_function_fails_is_cancelled_and_undone_when_asked(shop: Redriven) -> None:
    buggy = _buggy(shop)
    with shop.work():
        sent = buggy.start(shop.world.conn)
        _failing(shop, sent.id)
        (stuck,) = shop.world.run(stuck_flows())
        assert stuck.reason == "failing"
        assert "its function failed, attempts so far: 1 (" in stuck.sentence
        shop.world.run(steps.cancel_flow(sent.id, reason="enough"))
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["one", "unone"]
    assert "enough" in (shop.world.row(sent.id).last_error or "")


def test_a_flow_whose_function_fails_is_cancelled_by_its_deadline(shop: Redriven) -> None:
    buggy = _buggy(shop, deadline_seconds=1.5)
    with shop.work():
        sent = buggy.start(shop.world.conn)
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["one", "unone"]


def test_once_cancelled_between_two_steps_it_stays_cancelled_though_the_function_is_mended(shop: Redriven) -> None:
    buggy = _buggy(shop)
    shop.broken = {"buggy", "unone"}
    with shop.work():
        sent = buggy.start(shop.world.conn)
        _failing(shop, sent.id)
        shop.world.run(steps.cancel_flow(sent.id))
        eventually(lambda: shop.did.count("unone") > 0)
        shop.broken = set()
        shop.ended(sent.id, "cancelled", forward=True)
    assert shop.did.count("one") == 1


def _dead(shop: Redriven, id: Any) -> None:
    """Use up its attempts."""
    _failing(shop, id)
    shop.world.sql("UPDATE live SET attempts = max_attempts - 1, available_at = now() WHERE id = %s", id)
    shop.ended(id, "dead_letter")


def test_a_dead_flow_has_undone_nothing_and_is_redriven_after_a_deploy(shop: Redriven) -> None:
    buggy = _buggy(shop)
    with shop.work():
        sent = buggy.start(shop.world.conn)
        _dead(shop, sent.id)
        said = shop.world.run(why(sent.id))
        assert "redrive goes on from its records, `tenure flow cancel` undoes what it did." in said
        shop.broken = set()
        shop.redrive(sent.id)
        shop.ended(sent.id)
    assert shop.did == []


def test_a_dead_flow_is_undone_by_a_cancel(shop: Redriven) -> None:
    buggy = _buggy(shop)
    with shop.work():
        sent = buggy.start(shop.world.conn)
        _dead(shop, sent.id)
        assert shop.world.run(steps.cancel_flow(sent.id))[1] == "asked"
        shop.ended(sent.id, "cancelled")
        assert shop.world.run(steps.cancel_flow(sent.id))[1] == "ended"
    assert shop.did == ["one", "unone"]


# -- the verbs of every row


def _waits(shop: Redriven) -> Any:
    @shop.flows.workflow("waits")
    async def waits(flow: Flow) -> None:
        await flow.step("one", shop.abody, "one", undo=shop.undo)
        await flow.wait_for("never")

    return waits


def test_cancel_of_a_row_that_is_a_flow_undoes_what_it_did(shop: Redriven) -> None:
    waits = _waits(shop)
    with shop.work():
        sent = waits.start(shop.world.conn)
        shop.asleep(sent.id)
        assert shop.world.run(cancel([sent.id], reason="enough")) == {sent.id: "asked"}
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["one", "unone"]
    assert "enough" in (shop.world.row(sent.id).last_error or "")


def test_cancel_of_a_flow_that_runs_undoes_what_it_did(shop: Redriven) -> None:
    @shop.flows.workflow("slow")
    async def slow(flow: Flow) -> None:
        await flow.step("one", shop.abody, "one", undo=shop.undo)
        await flow.step("ask", ask)
        await flow.step("two", shop.abody, "two")

    async def ask() -> None:
        (id,) = [id for (id,) in shop.world.sql("SELECT id FROM live")]
        assert shop.world.run(cancel([id])) == {id: "asked"}

    with shop.work():
        sent = slow.start(shop.world.conn)
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["one", "unone"]


def test_cancel_of_a_flow_that_has_not_begun_ends_it_at_once(shop: Redriven) -> None:
    sent = _waits(shop).start(shop.world.conn)
    assert shop.world.run(cancel([sent.id])) == {sent.id: "cancelled"}
    assert shop.world.status(sent.id) == "cancelled"


def test_a_flow_that_has_begun_is_not_deleted_but_may_be_erased(shop: Redriven) -> None:
    waits = _waits(shop)
    with shop.work():
        sent = waits.start(shop.world.conn)
        shop.asleep(sent.id)
        assert shop.world.run(delete([sent.id])) == []
        assert shop.world.run(erase([sent.id])) == [sent.id]
    fresh = waits.start(shop.world.conn)
    assert shop.world.run(delete([fresh.id])) == [fresh.id]
