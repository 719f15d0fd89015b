"""What is told of workflows and batches: events, counts for metrics, and the flows that somebody should look at."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Fixed, verbs
from tenure.events import BatchEnded, DefinitionDiffered, FlowParked, FlowWoken, StepFailed, StepRecorded, StepUndone
from tenure.model.rows import NewRow
from tenure.shapes.flow import Flow, Flows, Tries
from tenure.verbs import batches, settle, steps
from tenure.verbs.flows import flow_counts, stuck_flows
from tenure.verbs.steps import Parking, Recording, Step, Wait
from world import World

pytestmark = pytest.mark.one_server
FLOW = {"tenure-flow": "checkout", "tenure-version": "2"}


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def test_a_workflow_tells_its_steps_its_waits_and_what_it_takes_back(shop: Shop) -> None:
    async def refund(result: Any, what: str) -> None:
        shop.do(f"refund {what}")

    async def fail() -> None:
        raise ValueError("no stock")

    @shop.flows.workflow("checkout", name="order")
    async def checkout(flow: Flow) -> None:
        await flow.step("charge", shop.ado, "charge", undo=refund)
        await flow.wait_for("shipped", timeout_seconds=3600)
        await flow.step("ship", fail, retry=Tries(1, Fixed(0)))

    with shop.work() as hired:
        id = checkout.start(shop.world.conn).id
        (parked,) = hired.saw(FlowParked)
        assert (parked.job_id, parked.workflow, parked.waits) == (id, "checkout", "wait:shipped")
        checkout.of("order").signal(shop.world.conn, "shipped")
        (undone,) = hired.saw(StepUndone)
        shop.ended(id, "failed")
        (failed,) = hired.of(StepFailed)
        assert (failed.step, failed.error, undone.step) == ("ship", "ValueError: no stock", "undo:charge")
        assert [(each.step, each.state) for each in hired.of(StepRecorded) if type(each) is StepRecorded] == [
            ("charge", "begun"),
            ("charge", "done"),
        ]
        (woken,) = hired.of(FlowWoken)
        assert (woken.token, woken.steps) == (2, 2)


def test_a_changed_definition_is_told_once_an_attempt_and_listed_until_the_right_code_goes_on(shop: Shop) -> None:
    def made(flows: Flows, step: str) -> Any:
        @flows.workflow("checkout", name="order")
        async def checkout(flow: Flow) -> None:
            await flow.step(step, shop.ado, step)
            await flow.wait_for("shipped", timeout_seconds=3600)

        return checkout

    world, old, new = shop.world, Shop.__new__(Shop), Shop.__new__(Shop)
    for each, step in ((old, "charge"), (new, "debit")):
        each.world, each.inbox, each.did = world, type(shop.inbox)(schema=world.schema), []
        each.flows = Flows(each.inbox)
        each.checkout = made(each.flows, step)  # type: ignore[attr-defined]
    with old.work():
        id = old.checkout.start(world.conn).id  # type: ignore[attr-defined]
        old.asleep(id)
    world.due()
    assert world.run(stuck_flows()) == []
    with new.work() as hired:
        (differed,) = hired.saw(DefinitionDiffered)
        assert (differed.job_id, differed.workflow, differed.version) == (id, "checkout", 1)
    (stuck,) = world.run(stuck_flows())
    assert (stuck.id, stuck.reason) == (id, "differs")
    assert "'charge' recorded as step 0, and the code asks for 'debit'" in stuck.sentence
    assert [(each.state, each.flows) for each in world.run(flow_counts()).counts] == [("differs", 1)]
    world.due()
    with old.work() as hired:
        hired.saw(FlowParked)
        old.asleep(id)
    assert world.run(stuck_flows()) == []
    assert [each.state for each in world.run(flow_counts()).counts] == ["waiting"]


def test_a_batch_that_has_ended_is_told_once_however_it_ended(world: World, shop: Shop) -> None:
    @shop.inbox.handler("part", max_attempts=1)
    async def part(n: int) -> None:
        assert n != 2

    done, cancelled = (
        world.run(batches.open_group([NewRow("part", {"n": n}, max_attempts=1) for n in range(size)], name=name))
        for name, size in (("nightly", 3), ("never", 2))
    )
    world.run(verbs.cancel(cancelled.ids))
    with shop.work() as one, shop.work() as two:
        found = eventually(lambda: both if len(both := [*one.of(BatchEnded), *two.of(BatchEnded)]) > 1 else [])
        told = {(each.batch, each.batch_name, each.rows, each.failed, each.cancelled) for each in found}
    assert told == {(done.id, "nightly", 3, 1, 0), (cancelled.id, "never", 2, 0, 2)}
    assert world.run(batches.tell_batches()) == []
    assert world.sql("SELECT count(*) FROM groups WHERE told") == [(2,)]


def test_a_batch_that_is_open_is_not_told(world: World) -> None:
    opened = world.run(batches.open_group([NewRow("part")]))
    assert world.run(batches.tell_batches()) == []
    assert world.run(flow_counts()).open_batches == 1
    world.complete(world.claim_one().lease)
    assert [each.id for each in world.run(batches.tell_batches())] == [opened.id]
    assert world.run(batches.tell_batches()) == []
    assert world.run(flow_counts())[1:] == (0.0, 0, 0.0)


# -- stuck


def _parked(world: World, *waits: Wait, headers: dict[str, str] | None = None) -> UUID:
    id = world.enqueue("checkout", headers={**FLOW, **(headers or {})})
    lease = world.claim_one()
    world.run(steps.record([Recording(lease, 1, [Step("", 0, "charge", "done")])]))
    world.run(steps.park([Parking(lease, waits or [Wait("", 1, "wait:shipped", seconds=9999.0)])]))
    return id


def _why(world: World) -> dict[UUID, str]:
    return {each.id: each.reason for each in world.run(stuck_flows())}


def test_flows_that_wait_as_they_should_are_not_stuck(world: World) -> None:
    _parked(world)
    _parked(world, Wait("", 1, "sleep", seconds=9999.0), headers={"tenure-deadline": "+600"})
    world.enqueue("plain")
    assert _why(world) == {}
    assert world.run(stuck_flows("other")) == []


def test_a_flow_whose_function_fails_says_its_attempts_and_no_tries_of_a_step(world: World) -> None:
    id = world.enqueue("checkout", headers=FLOW)
    lease = world.claim_one()
    world.run(steps.record([Recording(lease, 1, [Step("", 0, "charge", "retrying", tries=7)])]))
    world.retry(lease.lease, "a bug", 9999.0)
    (stuck,) = world.run(stuck_flows())
    assert (stuck.id, stuck.reason, stuck.tries) == (id, "failing", 1)


def test_each_reason_to_look_at_a_flow_is_named(world: World) -> None:
    alone = world.enqueue("checkout", headers=FLOW)
    world.run(settle.release([world.claim_one().lease], errors=["no worker for version 2 of 'checkout'"], delays=[30]))
    late = _parked(world, headers={"tenure-deadline": "+0"})
    tried = _parked(world, Wait("", 1, "ship", "retrying", tries=3, seconds=9999.0))
    unheard, asked = _parked(world), _parked(world)
    world.run(steps.cancel_flow(asked, reason="no stock"))
    world.sql("UPDATE live SET available_at = 'infinity' WHERE id = %s", asked)
    undoing = _parked(world, Wait("undo", 0, "undo:charge", "retrying", seconds=9999.0))
    world.sql("INSERT INTO steps (row_id, run, path, n, name, state, fence_token, recorded_at)"
              " VALUES (%s, 1, 'undone', 0, 'undone', 'begun', 1, now())", undoing)  # fmt: skip
    failing = world.enqueue("checkout", headers=FLOW)
    world.retry(world.claim_one().lease, "a bug", 9999.0)
    world.run(steps.signal(unheard, "shiped"))
    assert unheard not in _why(world)  # it has just been sent
    world.sql("UPDATE signals SET sent_at = sent_at - interval '1 hour'")
    assert world.run(flow_counts()).oldest_signal_seconds > 3000
    assert _why(world) == {
        late: "deadline",
        tried: "retrying",
        asked: "cancel",
        undoing: "cleaning",
        failing: "failing",
        unheard: "signal",
        alone: "no_version",
    }
    sentences = {each.id: each.sentence for each in world.run(stuck_flows())}
    assert sentences[tried] == "step ship failed, 3 tries so far"
    assert sentences[unheard] == "signal shiped was sent, and it does not ask for it"


def test_a_wait_that_lasts_much_longer_than_usual_is_named(world: World) -> None:
    for _ in range(20):
        world.run(steps.signal(_parked(world), "shipped"))
        world.complete(world.claim_one().lease)
    slow = _parked(world)
    assert _why(world) == {}
    world.sql("UPDATE steps SET recorded_at = recorded_at - interval '1 day' WHERE row_id = %s", slow)
    assert _why(world) == {slow: "waits"}
    world.sql("INSERT INTO steps (row_id, run, path, n, name, state, fence_token, recorded_at, until)"
              " VALUES (%s, 1, '', 2, 'sleep', 'waiting', 1, '2020-01-01', '2020-01-02')", slow)  # fmt: skip
    assert _why(world) == {slow: "waits"}  # a sleep that is over is recorded as waiting, and hides nothing
