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
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import servers

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


@pytest.fixture
def database(server_url: str) -> Iterator[str]:
    """An empty database: benches use the schema `tenure`, and empty its tables."""
    name = f"bench_{uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
        yield make_conninfo(**{**conninfo_to_dict(server_url), "dbname": name})
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
