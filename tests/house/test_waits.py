"""Waiting: a test that waits for a fact gives it as long as a busy machine may need."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent
OURS = {"eventually", "saw", "until"}  # with `seconds`
OTHERS = {"wait", "join", "result", "communicate", "run", "notifies", "wait_for", "Client", "get", "post"}
PAUSE_SECONDS_MAX = 2.0  # shorter ones pace a loop, or look whether something does not happen
SECONDS_MIN = 60.0


def test_no_test_waits_for_less_than_it_means() -> None:
    files = [path for path in TESTS.rglob("*.py") if "apps" not in path.parts]
    hasty = [f"{path.relative_to(TESTS)}:{found}" for path in files for found in _hasty(path.read_text())]
    assert not hasty, "leave the limit out, or see patience.py"


def test_a_short_limit_would_be_found() -> None:
    assert list(_hasty("eventually(fact, seconds=20)\nprocess.wait(10)\nover.wait(0.1)")) == [1, 2]


def _hasty(source: str) -> Iterator[int]:
    """The lines of calls that wait, with a limit that only a quiet machine keeps."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and (name := _name(call)) in OURS | OTHERS:
            given = [each.value for each in call.keywords if each.arg == ("seconds" if name in OURS else "timeout")]
            given += call.args[-1:] if name in ("wait", "join", "result", "wait_for") else []
            if any(isinstance(each, ast.Constant) and _is_short(each.value) for each in given):
                yield call.lineno


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_short(seconds: object) -> bool:
    return isinstance(seconds, int | float) and PAUSE_SECONDS_MAX <= seconds < SECONDS_MIN
