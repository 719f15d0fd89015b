"""`tenure worker --jobs`, which `tenure dev` uses: each job with its time, each failure with its traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from crew import eventually
from patience import SECONDS_MAX
from tenure.cli.file_notes import FileNotes, file_notes
from world import World

pytestmark = pytest.mark.one_server
APP = """
from tenure import DeadLetter, Inbox, Snooze

inbox = Inbox()


@inbox.handler("well")
def well() -> None: ...


@inbox.handler("badly")
def badly(order_id: int) -> None:
    raise LookupError(f"no order {order_id}\\x1b[31m")


@inbox.handler("poison")
async def poison() -> DeadLetter:
    return DeadLetter("never again")


@inbox.handler("later")
async def later() -> Snooze:
    return Snooze(600)
"""


def _worker(world: World, folder: Path, *options: str) -> tuple[subprocess.Popen[bytes], Path]:
    (folder / "app.py").write_text(APP)
    log = folder / "worker.log"
    env = {**os.environ, "TENURE_DATABASE_URL": world.url, "TENURE_SCHEMA": world.schema}
    with log.open("w") as stream:
        command = [sys.executable, "-c", "from tenure.cli import main; main()", "worker", "app:inbox", *options]
        return subprocess.Popen(command, stderr=stream, cwd=folder, env=env), log


def test_each_job_is_a_line_and_each_failure_has_its_traceback(world: World, tmp_path: Path) -> None:
    for kind, payload in (("well", {}), ("badly", {"order_id": 7}), ("poison", {}), ("later", {})):
        world.enqueue(kind, payload)
    worker, log = _worker(world, tmp_path, "--jobs")
    try:
        eventually(lambda: all(f" {kind} " in log.read_text() for kind in ("well", "badly", "poison", "later")))
        worker.terminate()
        assert worker.wait(SECONDS_MAX) == 0
    finally:
        worker.kill()
    told = log.read_text()
    line = r"^\d\d:\d\d:\d\d {mark} {kind} +[\d.]+ m?s  {end}[0-9a-f-]{{36}} token 1$"
    for mark, kind, end in (
        ("✓", "well", ""),
        ("✗", "badly", "failed, is tried again  "),
        ("✗", "poison", "is a dead letter now  "),
        ("-", "later", "given back, at no cost  "),
    ):
        assert re.search(line.format(mark=mark, kind=kind, end=end), told, re.MULTILINE), told
    assert re.search(r'^    Traceback .*\n      File ".*app.py", line \d+, in badly$', told, re.MULTILINE), told
    assert "    LookupError: no order 7\\x1b[31m" in told, "what others wrote cannot colour the terminal"
    assert "pools.py" not in told, "frames of Tenure say nothing to the author of a handler"
    assert "    never again" in told
    assert "    snooze" not in told, "an outcome without a word is told by its end"
    assert "worker_started" in told, "what else needs attention is logged as ever"
    assert "job_retried" not in told
    assert "lease_acquired" not in told


def test_a_save_is_noted_without_a_scan(tmp_path: Path) -> None:
    over = threading.Event()
    notes = file_notes([tmp_path], over)
    assert notes is not None, "watchfiles is a part of [dev]"
    try:
        file = tmp_path / "app.py"

        def changed() -> bool:
            file.write_text(f"# {time.monotonic()}")
            return notes.taken()

        eventually(changed)
    finally:
        over.set()
        notes.join(SECONDS_MAX)


def test_where_the_system_has_no_notes_folders_are_scanned(tmp_path: Path) -> None:
    def broken(*roots: str, **how: Any) -> Any:
        raise OSError("no space left for watches")

    notes = FileNotes(broken, [tmp_path], threading.Event())
    assert not notes.taken()
    notes.start()
    notes.join(SECONDS_MAX)
    assert (notes.works, notes.taken(), notes.taken()) == (False, True, True)
