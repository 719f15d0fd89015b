"""`tenure flows` and `tenure flow`: what people see of workflows, and how they signal, cancel and check them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from crew import eventually
from tenure.cli.flow import command as flow
from tenure.cli.flows import command as flows
from tenure.cli.operators import acting
from tenure.model.rows import Claimed
from tenure.operator_verbs import ON_ROWS
from tenure.verbs import operators, settle, steps
from tenure.verbs.steps import Parking, Recording, Step, Wait
from tenure.verbs.why import why
from world import World

pytestmark = pytest.mark.one_server
APP = """
from tenure import Inbox
from tenure.shapes.flow import Flows
inbox = Inbox()
made = Flows(inbox)
@made.workflow("checkout")
async def checkout(flow):
    await flow.step("NAME", print)
    await flow.wait_for("shipped")
"""


def _say(command: Any, world: World, *args: str) -> Any:
    return CliRunner().invoke(command, [*args, "--database-url", world.url, "--schema", world.schema])


def test_a_flow_is_listed_shown_signalled_checked_and_cancelled(world: World, tmp_path: Path) -> None:
    id = world.enqueue("checkout", headers={"tenure-flow": "checkout", "tenure-version": "1"})
    lease = world.claim_one()
    world.run(steps.record([Recording(lease, 1, [Step("", 0, "charge", "done", result="7")])]))
    world.run(steps.park([Parking(lease, [Wait("", 1, "wait:shipped", seconds=60.0)])]))
    assert "waiting" in _say(flows, world).output
    assert "no flows" in _say(flows, world, "other").output
    shown = _say(flow, world, "show", str(id)).output
    assert "waits for wait:shipped until" in shown
    assert "charge" in shown
    for name, code in (("charge", 0), ("renamed", 1)):
        (tmp_path / f"app_{name}.py").write_text(APP.replace("NAME", name))
        checked = _say(flow, world, "check", f"{tmp_path}/app_{name}.py:inbox")
        assert checked.exit_code == code, checked.output
    assert "definition differs" in checked.output
    assert re.match(r"It waits for signal shipped since \d+ s, until .* UTC; ", world.run(why(id)))
    assert _say(flow, world, "signal", str(id), "shipped", '{"n": 1}').output == "delivered\n"
    assert _say(flow, world, "cancel", str(id), "--reason", "no stock").output == "asked\n"
    assert [(line.verb, line.target, line.reason) for line in world.run(operators.audit())] == [
        ("cancel_flow", str(id), "no stock"),
        ("signal", f"{id} shipped", ""),
    ]
    assert _say(flow, world, "show", str(lease.id).replace("0", "1")).exit_code == 1


def test_a_check_names_each_flow_whose_input_the_code_does_not_take_and_goes_on(world: World, tmp_path: Path) -> None:
    headers = {"tenure-flow": "checkout", "tenure-version": "1"}
    ids = [world.enqueue("checkout", payload, headers=headers) for payload in ({}, {"size": 0}, {"other": 1})]
    app = APP.replace("checkout(flow)", "checkout(flow, size: int)").replace('"NAME"', '"charge" if 1 / size else ""')
    (tmp_path / "app_sizes.py").write_text(app)
    checked = _say(flow, world, "check", f"{tmp_path}/app_sizes.py:inbox")
    assert checked.exit_code == 1, checked.output
    for id, said in zip(ids, ("does not take the input", "raises ZeroDivisionError", "does not take"), strict=True):
        assert re.search(f"{id}: .*{said}", checked.output)
    assert "3 flows, 3 differ" in checked.output


def test_flows_that_are_stuck_are_listed_with_their_reason(world: World) -> None:
    assert _say(flows, world, "--stuck").output == "no flow is stuck\n"
    world.enqueue("checkout", headers={"tenure-flow": "checkout"}, idempotency_key="flow:checkout:order:9")
    world.run(steps.park([Parking(world.claim_one(), [Wait("", 0, "ship", "retrying", tries=3, seconds=60.0)])]))
    said = _say(flows, world, "checkout", "--stuck").output
    assert "order:9" in said
    assert "step ship failed, 3 tries so far" in said
    (found,) = json.loads(_say(flows, world, "--stuck", "--json").output)["stuck"]
    assert (found["reason"], found["why"], found["version"]) == ("retrying", "step ship failed, 3 tries so far", 1)
    refused = _say(flows, world, "--stuck", "--state", "failed")
    assert (refused.exit_code, "leave --state out" in refused.output) == (2, True)


_ACTS = {name: acting(ON_ROWS[name]) for name in ("cancel", "delete", "redrive")}


def _claimed(world: World) -> Claimed:
    """The row, once it is due."""
    return eventually(world.claim)[0]


def _parked(world: World, wait: Wait) -> UUID:
    """A flow that has charged, and waits."""
    id = world.enqueue("checkout", headers={"tenure-flow": "checkout", "tenure-version": "1"})
    lease = world.claim_one()
    world.run(steps.record([Recording(lease, 1, [Step("", 0, "charge", "done")])]))
    world.run(steps.park([Parking(lease, [wait])]))
    return id


def test_a_flow_whose_code_differs_is_said_to_wait_for_that_and_not_for_its_step(world: World) -> None:
    id = _parked(world, Wait("", 1, "ship", "retrying", seconds=0.001))
    differs = "definition differs: deploy the code it began with" + " or keep both" * 20
    world.run(settle.release([_claimed(world).lease], errors=[differs], delays=[600.0]))
    said = world.run(why(id))
    assert said == f"It is looked at again in 10 min, because {differs}."
    shown = _say(flow, world, "show", str(id)).output
    assert said in shown
    assert "again at" not in shown


TRACE = 'Traceback (most recent call last):\n  File "shop.py", line 7, in checkout\n    pay()\nValueError: no price'


def test_of_a_traceback_the_last_line_is_said_and_only_until_the_flow_goes_on(world: World) -> None:
    id = _parked(world, Wait("", 1, "wait:shipped", seconds=9000.0))

    def shown() -> str:
        said: str = _say(flow, world, "show", str(id)).output
        assert "Traceback" not in said
        return said

    world.run(steps.wake([id]))
    for _ in range(2):
        world.run(settle.retry([world.claim_one().lease], errors=[TRACE], delays=[60.0]))
        assert "said last: ValueError: no price\n" in shown()
        world.run(steps.wake([id]))
    stuck = _say(flows, world, "--stuck").output
    assert "its function failed, attempts so far: 2 (ValueError: no price)\n" in stuck
    lease = world.claim_one().lease
    assert "said last: ValueError: no price\n" in shown()
    world.run(steps.record([Recording(lease, 1, [Step("", 2, "pay", "done")])]))
    assert "ValueError" not in shown()
    world.run(steps.park([Parking(lease, [Wait("", 1, "wait:shipped", seconds=9000.0)])]))
    assert "ValueError" not in shown()
    world.run(steps.wake([id]))
    differs = "definition differs: deploy the code it began with"
    world.run(settle.release([world.claim_one().lease], errors=[differs], delays=[600.0]))
    assert f"said last: {differs}\n" in shown()


def test_a_flow_that_has_ended_waits_for_nothing(world: World) -> None:
    id = _parked(world, Wait("", 1, "sleep", seconds=0.001))
    world.complete(_claimed(world).lease)
    shown = _say(flow, world, "show", str(id)).output
    assert "waits" not in shown
    assert "sleep\tdone" in shown


def test_the_verbs_of_every_row_do_not_end_a_flow_that_has_something_to_undo(world: World) -> None:
    id = _parked(world, Wait("", 1, "wait:shipped", seconds=60.0))
    left = _say(_ACTS["delete"], world, str(id), "--yes").output
    assert "0 rows changed, 1 skipped (locked, changed meanwhile, or flows that have begun)" in left
    assert "1 row changed" in _say(_ACTS["cancel"], world, str(id), "--yes", "--reason", "no stock").output
    assert world.status(id) == "pending"
    assert "asked to cancel: cancelled by an operator: no stock" in _say(flow, world, "show", str(id)).output


def test_a_flow_that_is_redriven_by_a_filter_tries_its_step_again(world: World) -> None:
    id = world.enqueue("checkout", headers={"tenure-flow": "checkout", "tenure-version": "1"})
    lease = world.claim_one()
    world.run(steps.record([Recording(lease, 1, [Step("", 0, "charge", "failed", tries=5, error="declined")])]))
    world.run(settle.fail([lease], errors=["step 'charge' failed: declined"]))
    shown = _say(flow, world, "show", str(id)).output
    assert "redrive tries step charge again." in shown
    assert "1 row changed" in _say(_ACTS["redrive"], world, "kind:checkout", "--yes").output
    (step,) = world.run(steps.recall([(id, 1)]))[id]
    assert (step.state, step.tries, step.over) == ("retrying", 0, True)


def test_why_says_that_a_flow_sleeps_or_tries_a_step_again(world: World) -> None:
    for wait, words in (
        (Wait("", 0, "sleep", seconds=60.0), "It sleeps since 0 s, until "),
        (Wait("", 0, "charge", "retrying", tries=2, seconds=60.0), "It tries step charge again at "),
    ):
        id = world.enqueue("checkout", headers={"tenure-flow": "checkout"})
        world.run(steps.park([Parking(world.claim_one(), [wait])]))
        assert world.run(why(id)).startswith(words)


def test_a_time_of_another_year_is_said_with_its_year(world: World) -> None:
    id = _parked(world, Wait("", 1, "wait:shipped", seconds=60.0))
    world.sql("UPDATE steps SET recorded_at = '2021-06-05 12:00Z', until = until + interval '1 year' WHERE n = 1")
    world.sql("UPDATE live SET available_at = until FROM steps WHERE n = 1")
    ((until,),) = world.sql("SELECT until AT TIME ZONE 'UTC' FROM steps WHERE n = 1")
    assert f"until {until:%d %b %Y %H:%M} UTC" in world.run(why(id))
    shown = _say(flow, world, "show", str(id)).output
    assert re.search(rf"waits for wait:shipped until \d\d \w+ {until.year} \d\d:", shown)
    assert re.search(rf"waiting\t1\t05 Jun 2021 \d\d:\S+\t\d\d \w+ {until.year} ", shown)
    assert re.search(r"charge\tdone\t1\t\d\d \w+ \d\d:", shown)
    assert re.search(rf"\t\d\d \w+ {until.year} \d\d:", _say(flows, world).output)


def test_a_flow_is_found_by_its_key_with_or_without_its_workflow(world: World) -> None:
    def started(workflow: str, name: str) -> str:
        headers = {"tenure-flow": workflow, "tenure-version": "1"}
        return str(world.enqueue(workflow, headers=headers, idempotency_key=f"flow:{workflow}:{name}"))

    ended = started("checkout", "order:1")
    world.fail(world.claim_one().lease, "not approved")
    id = started("checkout", "order:2")
    started("checkout", "order:3")
    started("refund", "order:3")
    for named in (id, "order:2", "checkout:order:2", "flow:checkout:order:2"):
        assert json.loads(_say(flow, world, "show", named, "--json").output)["id"] == id
    unknown = _say(flow, world, "show", "order:9")
    assert (unknown.exit_code, "`tenure flows` lists them" in unknown.output) == (1, True)
    several = _say(flow, world, "show", "order:3")
    assert "several workflows have a flow 'order:3': name one" in str(several.exception)
    assert _say(flow, world, "show", "checkout:order:1").output.count("not approved") == 1, "once is enough"
    assert _say(flow, world, "signal", "order:2", "go").output == "queued\n"
    late = _say(flow, world, "signal", ended, "go")
    assert (late.exit_code, late.output) == (
        1,
        f"ended: it takes no more signals and cannot be cancelled, `tenure flow show {ended}` says how it ended\n",
    )


def test_a_name_of_two_flows_is_refused_and_the_whole_name_says_which(world: World) -> None:
    """A signal for the one went to the other: order:1 is the order 1, and what checkout calls order:1."""
    for workflow, name in (("order", "1"), ("checkout", "order:1")):
        world.enqueue(workflow, headers={"tenure-flow": workflow}, idempotency_key=f"flow:{workflow}:{name}")
    refused = _say(flow, world, "signal", "order:1", "go").exception
    assert "two flows have the name 'order:1': write flow:order:1 or flow:checkout:order:1" in str(refused)
    for whole in ("flow:order:1", "flow:checkout:order:1"):
        assert _say(flow, world, "signal", whole, "go").output == "queued\n"
