"""Guarantee 6 as a user runs it: the drill's command, its verdict, and what it leaves behind, which is nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import embedded
from tenure.drills import lease_race
from tenure.drills.actor import DrillFailed
from tenure.drills.stage import Said, Stage

WAIT_SECONDS_MAX = 30.0
MIND_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
QUICK = ("--lease-seconds", "0.2")


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
    out, err = process.communicate(timeout=WAIT_SECONDS_MAX)
    return process.returncode, out, err


def silent(said: Said) -> None:
    """For drills whose lines do not matter."""


def until(fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact; one that stays false fails the test by name."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not fact():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS_MAX:.0f} s"
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


@pytest.fixture
def paused(server_url: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A drill with worker-A stopped under a lease that will not run out meanwhile, and the processes it started."""
    process = command("drill", "lease-race", "--json", "--lease-seconds", "60", "--on", server_url)
    try:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["event"] != "worker_paused":
            pass
        started = children(process.pid)
        assert len(started) == 2
        yield process, started
    finally:
        process.kill()
        process.communicate()


def test_the_stale_worker_is_refused_and_one_effect_is_left(server_url: str) -> None:
    code, out, err = ended(command("drill", "lease-race", "--json", *QUICK, "--on", server_url))
    *events, verdict = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert verdict["ok"] is True
    assert verdict["event"] == "verdict"
    assert all(verdict["assertions"].values())
    assert _said(events, "stale_write_blocked") == [
        {"who": "worker-A", "stale_token": 1, "current_token": 2, "reason": "token_mismatch", "verb": "complete"}
    ]
    assert [said["token"] for said in _said(events, "ledger_written")] == [2]
    assert [said["reason"] for said in _said(events, "worker_exit")] == ["success", "stale"]
    assert [said["at"] for said in events] == sorted(said["at"] for said in events)
    assert events[-1]["event"] == "schema_removed"
    assert events[-1]["schema"] not in schemas(server_url)


def _said(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    known = ("at", "event", "worker", "job_id")
    return [{k: v for k, v in said.items() if k not in known} for said in events if said["event"] == name]


def test_without_the_fence_the_same_race_writes_twice(server_url: str) -> None:
    code, out, _ = ended(command("drill", "lease-race", "--json", "--unfenced", *QUICK, "--on", server_url))
    *events, verdict = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert verdict["shown"] == "duplicate shown"
    assert [(said["who"], said["token"]) for said in _said(events, "ledger_written")] == [
        ("worker-B", 2),
        ("worker-A", 1),
    ]
    assert not _said(events, "stale_write_blocked")


def test_people_read_the_proof_in_plain_lines_without_colour_codes(server_url: str) -> None:
    code, out, _ = ended(command("drill", "lease-race", *QUICK, "--on", server_url))
    assert code == 0
    assert "worker-A  stale_write_blocked  stale_token=1 current_token=2 reason=token_mismatch" in out
    assert "✓ its token is 2, so a reclaim really happened" in out
    assert "✗" not in out
    assert "\x1b" not in out
    assert out.splitlines()[-1].strip().startswith("Two real processes, one real Postgres, ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_drill_removes_its_schema_and_its_processes(
    server_url: str, paused: tuple[subprocess.Popen[str], list[int]], number: signal.Signals
) -> None:
    drill, started = paused
    drill.send_signal(number)
    code, out, err = ended(drill)
    assert code == 128 + number
    assert "Traceback" not in err
    said = json.loads(out.splitlines()[-1])
    assert said["event"] == "schema_removed"
    assert said["schema"] not in schemas(server_url)
    assert not any(alive(pid) for pid in started)


def test_a_killed_drill_leaves_no_process_not_even_a_stopped_one(
    paused: tuple[subprocess.Popen[str], list[int]],
) -> None:
    drill, started = paused
    drill.kill()
    drill.wait(WAIT_SECONDS_MAX)
    until(lambda: not any(alive(pid) for pid in started), f"the end of {started}")


def test_a_worker_that_never_reports_is_named(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.drills.stage.EVENT_SECONDS_MAX", 0.05)
    with Stage(server_url, silent) as stage:
        idle = stage.cast("worker-A")
        with pytest.raises(DrillFailed, match="worker-A did not report execution_started within"):
            stage.expect(idle, "execution_started")


def test_a_worker_that_dies_early_fails_the_drill_with_its_last_words(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        lost = stage.cast("worker-A")
        lost.tell("nonsense")
        with pytest.raises(DrillFailed, match=r"worker-A ended without reporting .*nonsense"):
            stage.expect(lost, "execution_started")


def test_a_guard_that_lets_the_stale_write_through_turns_the_drill_red(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fenced assertions, on a race played without the fence: the drill is able to fail.
    play = lease_race._play
    monkeypatch.setattr(lease_race, "_play", lambda stage, seconds, _: play(stage, seconds, False))
    verdict = lease_race.lease_race(server_url, silent, lease_seconds=0.2)
    assert not verdict.ok
    assert not any(check.ok for check in verdict.checks)


def test_who_may_not_create_a_schema_is_told_in_one_sentence(server_url: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute("DROP ROLE IF EXISTS guest")
        conn.execute("CREATE ROLE guest LOGIN")
    as_guest = psycopg.conninfo.make_conninfo(server_url, user="guest")
    code, _, err = ended(command("drill", "lease-race", "--json", "--on", as_guest))
    assert code == 77
    assert err.startswith("tenure: permission denied for database")
    assert len(err.splitlines()) == 1


def test_a_database_that_does_not_answer_is_exit_69() -> None:
    code, out, err = ended(command("drill", "lease-race", "--on", "postgresql://nobody@127.0.0.1:1/nowhere"))
    assert (code, out) == (69, "")
    assert len(err.splitlines()) == 1


def test_the_demo_needs_no_database_and_leaves_none_running(tmp_path: Path) -> None:
    code, out, err = ended(command("demo", TENURE_HOME=str(tmp_path)))
    assert (code, err) == (0, "")
    assert "100 receipts claimed and completed in " in out
    assert "stale_write_blocked" in out
    (folder,) = tmp_path.glob("pg*")
    with embedded.attach(folder) as server:
        assert schemas(server.url) == []
    until(lambda: embedded.status(folder).keeper_pid is None, "the end of the embedded Postgres")
