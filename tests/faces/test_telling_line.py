"""What an error says in a line: one rule for the terminal, the log, the fingerprint and the dashboard."""

from __future__ import annotations

import json
import shutil
import subprocess
import traceback
from pathlib import Path

import psycopg
import pytest

import tenure
from tenure.errors import telling_line
from world import World

pytestmark = pytest.mark.one_server
WORDS = Path(tenure.__file__).parent / "web" / "static" / "lib" / "words.js"


def raised(error: BaseException) -> str:
    """The traceback of an error as a worker notes it."""
    try:
        try:
            raise KeyError("before")
        except KeyError as before:
            raise error from before
    except BaseException as caught:
        return "".join(traceback.format_exception(caught))


SAMPLES = {
    raised(RuntimeError("a\nb")): "RuntimeError: a",
    raised(psycopg.errors.UndefinedColumn('column "x" is missing\nLINE 1: SELECT x\n               ^')): (
        'psycopg.errors.UndefinedColumn: column "x" is missing'
    ),
    raised(SyntaxError("no")): "SyntaxError: no",
    "lease expired": "lease expired",
    "\n \n boom 1 \r\nmore": "boom 1",
    'Traceback\n  File "x.py", line 1\n    only frames': "Traceback",
    "": "",
    " \n": "",
}


@pytest.mark.parametrize(("error", "line"), SAMPLES.items())
def test_the_line_that_tells_follows_the_frames(error: str, line: str) -> None:
    assert telling_line(error) == line
    assert telling_line(line) == line


def test_nothing_says_nothing() -> None:
    assert telling_line(None) == ""


def test_the_fingerprint_is_made_of_that_line(world: World) -> None:
    for error, line in SAMPLES.items():
        assert fingerprint(world, error) == fingerprint(world, line), error


def test_one_error_at_two_columns_has_one_fingerprint(world: World) -> None:
    one, other = (f'E: column "x" is missing\nLINE 1: {"SELECT " * n}x\n{" " * 7 * n}^' for n in (1, 2))
    assert fingerprint(world, raised(RuntimeError(one))) == fingerprint(world, raised(RuntimeError(other)))
    assert fingerprint(world, raised(RuntimeError(one))) != fingerprint(world, raised(RuntimeError("^")))


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_the_dashboard_has_the_same_rule() -> None:
    script = f"import {{ error_line }} from {json.dumps(WORDS.as_uri())};"
    script += f"console.log(JSON.stringify({json.dumps(list(SAMPLES))}.map(error_line)))"
    node = ["node", "--input-type=module", "-e", script]
    found = subprocess.run(node, capture_output=True, text=True, timeout=120, check=True).stdout
    assert json.loads(found) == list(SAMPLES.values())


def fingerprint(world: World, error: str) -> str:
    return str(world.sql("SELECT fingerprint(%s)", error)[0][0])
