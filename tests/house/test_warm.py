"""A forked `tenure` answers as one that Python has just started: tests may take either."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warm
from patience import SECONDS_MAX

NOWHERE = "postgresql://tenure@127.0.0.1:1/tenure"
CALLS: dict[str, tuple[list[str | bytes], dict[str, str]]] = {
    "an answer": (["sql", "claim", "--schema", "jobs"], {}),
    "a refusal": (["queues", "--database-url", NOWHERE], {}),
    "another by the environment": (["queues"], {"TENURE_DATABASE_URL": NOWHERE, "TENURE_SCHEMA": "a b"}),
    "settings": (["doctor", "--settings", "--json"], {"TENURE_DATABASE_URL": NOWHERE, "TENURE_SLOTS": "3"}),
    "bytes that are not UTF-8": (["queues", "--database-url", b"postgresql://\xff@127.0.0.1:1/x"], {}),
    "a module of theirs": (["worker", "theirs:inbox"], {"TENURE_DATABASE_URL": NOWHERE}),
    "stdin": (["enqueue", "a", "--from", "-", "--database-url", NOWHERE], {}),
}


@pytest.mark.parametrize("call", CALLS)
def test_both_answer_the_same(call: str, tmp_path: Path) -> None:
    """One of them by `python -m tenure`."""
    arguments, env = CALLS[call]
    command = [sys.executable, "-m", "tenure"] if call == "settings" else warm.COLD
    (tmp_path / "theirs.py").write_text("import os\nraise OSError(os.environ['TENURE_DATABASE_URL'], os.getcwd())\n")
    given: dict[str, Any] = {"env": {**os.environ, **env}, "cwd": tmp_path, "input": '{"n": 1}\n{"n": oh}\n'}
    cold = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, **given)
    forked = warm.run(*arguments, **given)
    assert cold.stdout + cold.stderr
    assert (forked.returncode, forked.stdout, forked.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_what_python_reads_when_it_starts_is_read_by_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONVERBOSE": "1"}
    assert "sitecustomize" in warm.run("--help", env=env).stderr
    assert "sitecustomize" not in warm.run("--help", env={**os.environ, "PYTHONPATH": str(tmp_path)}).stderr


def test_one_call_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    refused = warm.run("queues", env={**os.environ, "TENURE_DATABASE_URL": NOWHERE}, cwd=tmp_path)
    assert "does not answer" in refused.stderr
    other = warm.run("queues", env={**os.environ, "TENURE_DATABASE_URL": "nonsense"})
    assert "nonsense" in other.stderr
    assert NOWHERE not in other.stderr


def test_one_that_does_not_end_is_killed_and_the_next_one_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        url = f"postgresql://tenure@127.0.0.1:{silent.getsockname()[1]}/tenure?connect_timeout=600"
        before = warm._warm()
        before.line.settimeout(1)
        with pytest.raises(TimeoutError):
            warm.run("queues", "--database-url", url)
    assert before.process.wait(SECONDS_MAX) < 0
    assert warm.run("--help").returncode == 0
