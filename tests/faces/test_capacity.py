"""What so many inboxes would carry: arithmetic over the figures of a bench."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEASURED = {
    ("one enqueue a transaction, rows/s", "tenure"): {"client": 150.0, "server": 100.0},
    ("drain, a handler that does nothing, jobs/s", "1 process, best settings"): {"client": 30.0, "server": 20.0},
    ("log of the server, bytes a job", "enqueue, payload of 100 bytes"): {"median": 600.0},
    ("log of the server, bytes a job", "claim, payload of 100 bytes"): {"median": 300.0},
    ("log of the server, bytes a job", "completion, payload of 100 bytes"): {"median": 100.0},
}
ABOUT = {name: name for name in ("command", "at", "load", "postgres", "python", "machine")}


def capacity(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/capacity.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.fixture
def bench(tmp_path: Path) -> str:
    lines = [{"section": section, "name": name, **figures} for (section, name), figures in MEASURED.items()]
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"about": ABOUT, "lines": lines}))
    return str(file)


def test_an_inbox_carries_what_its_narrowest_part_allows_and_ten_carry_ten_times_that(bench: str) -> None:
    printed = capacity(bench, "--cores", "10", "--busy", "0.6", "--inboxes", "1", "10").stdout
    assert "processor                    50,000 jobs/s   <- the narrowest" in printed, "6 s of cores by 120 µs"
    assert "log                         200,000 jobs/s" in printed, "200 MB by 1,000 bytes"
    rows = [line.split() for line in printed.splitlines()]
    assert ["1", "50,000", "4,320,000,000", "2", "8", "50.0"] in rows
    assert ["10", "500,000", "43,200,000,000", "25", "8", "50.0"] in rows


def test_a_slow_disk_and_many_standbys_are_the_narrowest(bench: str) -> None:
    assert "30,000 jobs/s   <- the narrowest" in capacity(bench, "--log-mb", "30").stdout
    followed = capacity(bench, "--standbys", "5", "--network-mb", "100").stdout
    assert "network to standbys          20,000 jobs/s   <- the narrowest" in followed
    assert "network" not in capacity(bench, "--standbys", "0").stdout


def test_one_coordinator_is_a_limit_that_nodes_do_not_lift(bench: str) -> None:
    printed = capacity(bench, "--cores", "10", "--door-us", "480").stdout
    assert "one coordinator: 12,500 jobs/s, however many nodes there are" in printed
    assert "any node:            10,000 jobs/s a node" in printed, "120 + 480 µs a job on each"


@pytest.mark.parametrize("given", [["--cores", "0"], ["--busy", "1.5"], ["--busy", "much"], ["--inboxes", "-1"]])
def test_a_figure_that_cannot_be_is_told(bench: str, given: list[str]) -> None:
    done = capacity(bench, *given)
    assert done.returncode == 2
    assert f"{given[1]}: give a" in done.stderr or "expected at least one argument" in done.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "Expecting value"),
        ('{"lines": []}', "it is not what a bench keeps"),
        ('{"about": {}, "lines": []}', "no line 'tenure' under 'one enqueue a transaction'"),
        ("[]", "it is not what a bench keeps"),
    ],
)
def test_a_file_that_is_no_bench_is_told_in_one_line(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "bench.json"
    file.write_text(content)
    done = capacity(str(file))
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.endswith(f"Make it anew: make bench JSON={file}\n")
    assert done.stderr.count("\n") == 1
