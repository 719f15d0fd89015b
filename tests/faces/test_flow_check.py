"""`tenure flow check`: it looks at every flow and ends, whatever the code of the flows does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import patience
from tenure.cli.flow import command as flow
from tenure.shapes.flow import check
from tenure.verbs import steps
from tenure.verbs.steps import Recording, Step
from world import World

pytestmark = pytest.mark.one_server

APP = """
import asyncio
from threading import Event
from tenure import Inbox
from tenure.shapes.flow import Flows
inbox = Inbox()
made = Flows(inbox)
@made.workflow("exits")
async def exits(flow):
    raise SystemExit(0)
@made.workflow("stands")
async def stands(flow):
    await asyncio.sleep(600)
@made.workflow("blocks")
async def blocks(flow):
    Event().wait(600)
@made.workflow("waits")
def waits(flow):
    Event().wait(600)
@made.workflow("waits", version=2)
def waits_too(flow):
    Event().wait(600)
@made.workflow("groups")
async def groups(flow):
    async with asyncio.TaskGroup() as group:
        group.create_task(flow.step("one", print))
        async with asyncio.TaskGroup() as within:
            within.create_task(flow.step("two", print))
@made.workflow("fails")
async def fails(flow):
    async def raises():
        raise ValueError("of its own")
    async with asyncio.TaskGroup() as group:
        group.create_task(flow.step("one", print))
        group.create_task(raises())
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Code of all kinds."""
    path = tmp_path_factory.mktemp("check") / "of_all_kinds.py"
    path.write_text(APP)
    return f"{path}:inbox"


@pytest.fixture
def app(module: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same; no busy machine makes one of them stand still."""
    monkeypatch.setattr(check, "SECONDS_MAX", patience.SECONDS_MAX)
    return module


def _checked(world: World, app: str) -> Any:
    return CliRunner().invoke(flow, ["check", app, "--database-url", world.url, "--schema", world.schema])


def _begun(world: World, workflow: str, version: int = 1) -> str:
    return str(world.enqueue(workflow, headers={"tenure-flow": workflow, "tenure-version": str(version)}))


def test_a_check_names_a_flow_that_exits_and_workflows_that_are_gone(world: World, app: str) -> None:
    """One that exits ended the command with 0, one that is gone was silent."""
    id = _begun(world, "exits")
    _begun(world, "renamed"), _begun(world, "renamed")
    checked = _checked(world, app)
    assert (checked.exit_code, checked.output.splitlines()) == (
        1,
        [
            f"{id}: its function raises SystemExit: 0",
            "not looked at: 2 of renamed, a workflow that this code does not have",
            "1 flows, 1 differ",
        ],
    )


@pytest.mark.parametrize("workflow", ["stands", "blocks", "waits"])
def test_a_check_ends_where_the_code_of_a_flow_stands_still(
    world: World, app: str, monkeypatch: pytest.MonkeyPatch, workflow: str
) -> None:
    monkeypatch.setattr(check, "SECONDS_MAX", 0.2)
    id = _begun(world, workflow)
    checked = _checked(world, app)
    assert (checked.exit_code, checked.output) == (
        1,
        f"{id}: its function comes to no step within 0.2 s\n1 flows, 1 differ\n",
    )


def test_of_a_workflow_that_stands_still_no_other_flow_is_looked_at(
    world: World, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took its 10 s, and left a thread behind: 10,000 of them were a day."""
    monkeypatch.setattr(check, "SECONDS_MAX", 0.2)
    for version in (1, 1, 1, 2):
        _begun(world, "waits", version)
    _begun(world, "stands")
    checked = _checked(world, app)
    assert checked.output.count("comes to no step within 0.2 s") == 3
    assert checked.output.endswith(
        "not looked at: 2 more of waits version 1, whose code stood still\n3 flows, 3 differ\n"
    )
    assert checked.exit_code == 1


def test_a_task_group_that_comes_to_the_end_of_the_records_does_not_differ(world: World, app: str) -> None:
    """All its errors are that nothing more is recorded: it was named as one that raises a BaseExceptionGroup."""
    _begun(world, "groups")
    checked = _checked(world, app)
    assert (checked.exit_code, checked.output) == (0, "1 flows, 0 differ\n")


def test_a_task_group_whose_own_code_fails_is_named(world: World, app: str) -> None:
    id = _begun(world, "fails")
    assert f"{id}: its function raises BaseExceptionGroup" in _checked(world, app).output


def test_a_step_of_a_task_group_that_was_renamed_differs(world: World, app: str) -> None:
    id = _begun(world, "groups")
    world.run(steps.record([Recording(world.claim_one(), 1, [Step("", 0, "zero", "done", result="7")])]))
    checked = _checked(world, app)
    assert checked.exit_code == 1
    assert f"{id}: definition differs: groups version 1 has 'zero' recorded as step 0" in checked.output


SAYS = """
from tenure import Inbox
from tenure.shapes.flow import Flows
inbox = Inbox()
made = Flows(inbox)
client = None
@inbox.lifespan
async def opened():
    yield
@made.workflow("sayer")
async def sayer(flow):
    flow.say("hello")
    await flow.step("step", print)
@made.workflow("uses")
async def uses(flow):
    await flow.step("get", client.get)
@made.workflow("later")
async def later(flow):
    await flow.step("get", lambda: client.get())
"""


def test_a_check_opens_no_lifespan_and_says_so(world: World, tmp_path: Path) -> None:
    """A deploy was held up by a flow that says something, and by one that uses a client of the worker's."""
    (tmp_path / "says.py").write_text(SAYS)
    ids = {each: _begun(world, each) for each in ("sayer", "uses", "later")}
    checked = _checked(world, f"{tmp_path}/says.py:inbox")
    assert checked.exit_code == 1
    assert re.search(f"{ids['uses']}: .*'get'; if it uses what a lifespan opens", checked.output)
    assert checked.output.endswith("\n3 flows, 0 differ, 1 cannot be told\n")
    world.sql("DELETE FROM live WHERE kind = 'uses'")
    checked = _checked(world, f"{tmp_path}/says.py:inbox")
    assert (checked.exit_code, checked.output) == (0, "2 flows, 0 differ\n")
