"""What is red while the machine stands still is asked again; what is red on a machine that runs stays red."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patience import SECONDS_MAX
from standstill import STILL_SECONDS

CONFTEST = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from standstill import AskAgain, Watch

watch = Watch()

def pytest_configure(config):
    config.pluginmanager.register(AskAgain(watch))
"""
STOOD = "from conftest import watch\nruns = []\ndef test_it():\n    runs.append(1)\n    "
STILL = "watch.last = time.monotonic()\n    "


@pytest.mark.parametrize(
    ("body", "outcome", "runs"),
    [
        (f"{STILL}assert len(runs) == 2", {"passed": 1}, 2),
        (f"{STILL}assert len(runs) == 9", {"failed": 1}, 3),
        ("assert len(runs) == 2", {"failed": 1}, 1),
        (f"{STILL}assert runs", {"passed": 1}, 1),
    ],
)
def test_a_red_test_is_asked_again_only_if_the_machine_stood_still(
    pytester: pytest.Pytester, body: str, outcome: dict[str, int], runs: int
) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(f"import time\n{STOOD}print('run', len(runs))\n    {body}\n")
    found = pytester.runpytest_subprocess("-q", "-s", "-p", "no:cacheprovider")
    found.assert_outcomes(**outcome)
    assert found.stdout.str().count("run ") == runs
    assert ("asked again, because the machine stood still" in found.stdout.str()) == (runs > 1)


def test_a_process_that_was_stopped_knows_it() -> None:
    code = "from standstill import *; w = Watch(); w.start(); print(w.last, flush=True); input(); print(w.last)"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[1], stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "-inf\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STILL_SECONDS * 2)
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(STILL_SECONDS)
        said, _ = process.communicate("\n", timeout=SECONDS_MAX)
    assert float(said) > 0
