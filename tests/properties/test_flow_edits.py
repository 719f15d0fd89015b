"""Thirty edits of a definition: each is refused at the right step, before a body runs, or rightly accepted."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import Inbox
from tenure.shapes.flow import Flow, Flows
from tenure.shapes.flow.check import check
from tenure.verbs.steps import Step

BEFORE = ["a", "b", "wait:go", ("parallel", ["c"], ["d", "e"]), "f", "sleep", "g"]
# All of it is recorded but its last step.
RECORDS = [
    Step("", 0, "a", "done", result="1"),
    Step("", 1, "b", "done", result="2"),
    Step("", 2, "wait:go", "done", result="3"),
    Step("", 3, "parallel", "done", 2),
    Step("3.0", 0, "c", "done", result="4"),
    Step("3.1", 0, "d", "done", result="5"),
    Step("3.1", 1, "e", "done", result="6"),
    Step("", 4, "f", "failed", error="no"),
    Step("", 5, "sleep", "waiting", over=True),
]
FORK = ("parallel", ["c"], ["d", "e"])
EDITS: list[tuple[str, list[Any], tuple[str, int] | None]] = [
    ("nothing", BEFORE, None),
    ("rename the first", ["x", *BEFORE[1:]], ("", 0)),
    ("rename the second", ["a", "x", *BEFORE[2:]], ("", 1)),
    ("rename a wait", ["a", "b", "wait:x", *BEFORE[3:]], ("", 2)),
    ("rename in a branch", ["a", "b", "wait:go", ("parallel", ["x"], ["d", "e"]), "f", "sleep", "g"], ("3.0", 0)),
    ("rename deep", ["a", "b", "wait:go", ("parallel", ["c"], ["d", "x"]), "f", "sleep", "g"], ("3.1", 1)),
    ("rename a failed one", ["a", "b", "wait:go", FORK, "x", "sleep", "g"], ("", 4)),
    ("rename the next", [*BEFORE[:-1], "x"], None),
    ("insert first", ["x", *BEFORE], ("", 0)),
    ("insert in the middle", ["a", "x", *BEFORE[1:]], ("", 1)),
    ("insert before the fork", ["a", "b", "wait:go", "x", FORK, "f", "sleep", "g"], ("", 3)),
    ("insert in a branch", ["a", "b", "wait:go", ("parallel", ["c"], ["x", "d", "e"]), "f", "sleep", "g"], ("3.1", 0)),
    ("insert at the frontier", [*BEFORE[:-1], "x", "g"], None),
    ("insert at the end", [*BEFORE, "x"], None),
    ("insert a wait", ["a", "wait:x", *BEFORE[1:]], ("", 1)),
    ("insert a sleep", ["sleep", *BEFORE], ("", 0)),
    ("remove the first", BEFORE[1:], ("", 0)),
    ("remove the second", ["a", *BEFORE[2:]], ("", 1)),
    ("remove the wait", ["a", "b", *BEFORE[3:]], ("", 2)),
    ("remove the fork", ["a", "b", "wait:go", "f", "sleep", "g"], ("", 3)),
    ("remove of a branch", ["a", "b", "wait:go", ("parallel", ["c"], ["d"]), "f", "sleep"], ("3.1", 1)),
    ("remove the sleep", ["a", "b", "wait:go", FORK, "f", "g"], ("", 5)),
    ("remove the next", BEFORE[:-1], None),
    ("end early", ["a", "b"], ("", 2)),
    ("swap two", ["b", "a", *BEFORE[2:]], ("", 0)),
    ("swap branches", ["a", "b", "wait:go", ("parallel", ["d", "e"], ["c"]), "f", "sleep", "g"], ("3.0", 0)),
    ("a branch made straight", ["a", "b", "wait:go", "c", "d", "e", "f", "sleep", "g"], ("", 3)),
    ("a step made a fork", ["a", ("parallel", ["b"]), *BEFORE[2:]], ("", 1)),
    ("a step made a wait", ["wait:a", *BEFORE[1:]], ("", 0)),
    ("a fork made a race", ["a", "b", "wait:go", ("first", ["c"], ["d", "e"]), "f", "sleep", "g"], ("", 3)),
    ("another branch", ["a", "b", "wait:go", ("parallel", ["c"], ["d", "e"], ["x"]), "f", "sleep", "g"], ("", 3)),
    ("another type", ["a", "b as text", *BEFORE[2:]], ("", 1)),
    ("a patch at the frontier", [*BEFORE[:-1], "patch:x", "g"], None),
    ("a patch in the past", ["a", "patch:x", *BEFORE[1:]], None),
]


def _workflow(script: list[Any]) -> Any:
    flows = Flows(Inbox(schema="edits"))
    ran = list[str]()

    async def body() -> Any:
        ran.append("a body")

    async def text() -> str:
        ran.append("a body")
        return ""

    async def play(flow: Flow, ops: list[Any]) -> None:
        for op in ops:
            if isinstance(op, tuple):
                how, *branches = op
                await getattr(flow, how)(*(play(flow, branch) for branch in branches))
            elif op.startswith("wait:"):
                await flow.wait_for(op[5:])
            elif op == "sleep":
                await flow.sleep(60)
            elif op.startswith("patch:"):
                flow.patched(op[6:])
            else:
                try:
                    await flow.step(op.split()[0], text if " as text" in op else body)
                except Exception as error:
                    if op != "f" or "StepFailed" not in type(error).__name__:
                        raise

    @flows.workflow("edited")
    async def edited(flow: Flow) -> None:
        await play(flow, script)

    return edited, ran


@pytest.mark.parametrize(("edit", "script", "place"), EDITS, ids=[edit for edit, *_ in EDITS])
def test_an_edit_is_refused_where_it_differs_or_accepted(
    edit: str, script: list[Any], place: tuple[str, int] | None
) -> None:
    edited, ran = _workflow(script)
    found = check(edited, "{}", RECORDS)
    assert (found and (found.path, found.n)) == place, edit
    assert not ran


def test_there_are_thirty() -> None:
    assert len(EDITS) >= 30


def test_with_identity_by_name_alone_a_renamed_step_would_run_again() -> None:
    """The control: what other stores do. The name is not found, so its body would run a second time."""
    by_name = {step.name for step in RECORDS}
    assert [name for name in ["x", "b"] if name not in by_name] == ["x"]
