"""What the tests of the drills share: the command in a process of its own, and what it must leave behind, nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from patience import SECONDS_MAX
from slices import slice_of
from tenure.drills.scenes.book import BOOK
from tenure.drills.stage.said import Said

MIND_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"

FACED = slice_of(tuple(BOOK), ("crash", "lease-race", "order"))  # drills played by the command and on the page, too


def command(*args: str, **environment: str) -> subprocess.Popen[str]:
    """`tenure ARGS` in a process of its own, with nobody at its terminal and no database in its environment.

    Ctrl-C counts there also where the tests themselves run in the background of a shell, which ignores it.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TENURE_", "PG", "DATABASE_URL"))}
    return subprocess.Popen(
        [sys.executable, "-c", f"{MIND_CTRL_C}; from tenure.cli import main; main()", *args],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean | environment,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code, stdout and stderr."""
    out, err = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, out, err


def lines(out: str) -> list[dict[str, Any]]:
    """What a command said as JSON, line by line."""
    return [json.loads(line) for line in out.splitlines()]


def silent(said: Said) -> None:
    """For drills whose lines do not matter."""


def until(fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact; one that stays false fails the test by name."""
    deadline = time.monotonic() + SECONDS_MAX
    while not fact():
        assert time.monotonic() < deadline, f"{what}: not within {SECONDS_MAX:.0f} s"
        time.sleep(0.005)


def schemas(url: str) -> list[str]:
    """The throw-away schemas that are there."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenure\\_drill\\_%'")
        return [name for (name,) in rows]


def children(pid: int) -> list[int]:
    """The processes a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    """True for a process that runs or is stopped; a zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
