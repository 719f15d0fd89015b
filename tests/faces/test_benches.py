"""The benches run: a slice of each, so small that its figures mean nothing, on a database of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import servers
from slices import slice_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


@pytest.fixture
def database(server_url: str) -> Iterator[str]:
    """An empty database: benches use the schema `tenure`, and empty its tables."""
    name = f"bench_{uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
        yield make_conninfo(server_url, dbname=name)
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def ran(database: str, module: str, *options: str) -> str:
    """What it printed. A bar may be missed here, which is exit code 1; anything else is a bench that broke."""
    env = {**os.environ, "TENURE_TEST_DATABASE_URL": database}
    done = subprocess.run(
        [sys.executable, "-m", module, *options], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stdout + done.stderr
    return done.stdout


def capacity(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/capacity.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def kept(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_one_table_with_every_ratio_judged(database: str, tmp_path: Path) -> None:
    small = "--rounds 1 --jobs 200 --rows 20 --starts 5 --idle-seconds 0.5 --fleets 1 --crews one_best one_default"
    out = tmp_path / "bench.json"
    printed = ran(database, "bench", *small.split(), "--json", str(out), "--plots", str(tmp_path))
    lines = kept(out)["lines"]
    assert {line["section"].split(",")[0] for line in lines} >= {"one enqueue a transaction", "drain", "idle fleet"}
    assert all(line["held"] is not None for line in lines if line["ratio"]), "every printed ratio is judged"
    assert {"tenure", "python", "postgres", "server"} <= kept(out)["about"].keys()
    assert (tmp_path / "bench.svg").read_text().startswith("<svg")
    assert "bars hold" in printed
    reckoned = capacity(str(out), "--cores", "8", "--inboxes", "1", "10", "--door-us", "500").stdout
    one, ten = (line.split() for line in reckoned.splitlines() if line.split()[:1] in (["1"], ["10"]))
    assert float(ten[1].replace(",", "")) == pytest.approx(10 * float(one[1].replace(",", "")), rel=0.01)
    assert "<- the narrowest" in reckoned
    assert "9,600 jobs/s, however many nodes" in reckoned, "8 cores, 60 % busy, 500 µs a call"


def test_what_grows_is_a_curve_with_a_picture(database: str, tmp_path: Path) -> None:
    out = tmp_path / "growth.json"
    small = "--scale 0.0002 --only scheduled"
    ran(database, "bench.growth", *small.split(), "--json", str(out), "--plots", str(tmp_path))
    assert len(kept(out)["curves"]["scheduled"]) == 4
    assert "polyline" in (tmp_path / "growth-scheduled.svg").read_text()


def test_peers_are_measured_by_a_protocol_that_tenure_keeps_as_well(database: str, tmp_path: Path) -> None:
    """Nothing is installed here: a peer that is not there is told in a line."""
    out = tmp_path / "peers.json"
    small = f"--peers tenure --scale 0.02 --rounds 1 --wait {slice_of(30, 0)}"
    printed = ran(database, "bench.peers", *small.split(), "--json", str(out))
    (ours,) = kept(out)["peers"]
    assert ours["figures"].keys() >= {"one", "bulk", "p50"}, printed


def test_what_the_marks_of_the_journal_cost(database: str) -> None:
    printed = ran(database, "bench.journal", *["--events", "80", "--rounds", "1", "--clients", "2"])
    assert "horizon" in printed
    assert "with marks / without" in printed


def test_what_counting_costs(database: str) -> None:
    assert "counted / alone" in ran(database, "bench.counted", *["--jobs", "100", "--rounds", "1", "--clients", "2"])


def test_what_several_inboxes_cost(database: str) -> None:
    printed = ran(database, "bench.inboxes", *["--jobs", "80", "--rounds", "1", "--slots", "10"])
    assert "CPU a job, 4 inboxes / 1" in printed
    assert "rate, away / both" in printed
