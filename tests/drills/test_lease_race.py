"""Guarantee 6 as a user runs it: the drill's command, its verdict, and what it leaves behind, which is nothing."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from drills.tales import alive, children, command, ended, lines, schemas, silent, until
from patience import SECONDS_MAX
from tenure.drills.scenes.lease_race import lease_race
from tenure.drills.stage.actor import DrillFailed
from tenure.drills.stage.scene import perform
from tenure.drills.stage.stage import Stage

QUICK = ("--lease-seconds", "0.2")


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
    *events, verdict = lines(out)
    assert (code, err) == (0, "")
    assert verdict["ok"] is True
    assert verdict["event"] == "verdict"
    assert all(verdict["assertions"].values())
    assert _said(events, "stale_write_blocked") == [
        {"who": "worker-A", "stale_token": 1, "current_token": 2, "reason": "token_mismatch", "verb": "enter"}
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
    *events, verdict = lines(out)
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
    assert "Two real processes, one real Postgres, " in out
    assert out.splitlines()[-1].endswith('tenure drill lease-race --on "$DATABASE_URL"')


@pytest.mark.one_server
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


@pytest.mark.one_server
def test_a_killed_drill_leaves_no_process_not_even_a_stopped_one(
    paused: tuple[subprocess.Popen[str], list[int]],
) -> None:
    drill, started = paused
    drill.kill()
    drill.wait(SECONDS_MAX)
    until(lambda: not any(alive(pid) for pid in started), f"the end of {started}")


@pytest.mark.one_server
def test_a_worker_that_never_reports_is_named(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        stage.cast("worker-A")
        with pytest.raises(DrillFailed, match="worker-A did not report execution_started within"):
            stage.expect("execution_started", "worker-A", seconds=0.05)


@pytest.mark.one_server
def test_a_worker_that_dies_early_fails_the_drill_with_its_last_words(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        stage.cast("worker-A").tell("nonsense")
        with pytest.raises(DrillFailed, match=r"worker-A ended without reporting .*nonsense"):
            stage.expect("execution_started", "worker-A")


def test_a_guard_that_lets_the_stale_write_through_turns_the_drill_red(server_url: str) -> None:
    # The fenced assertions, on a race played without the fence: the drill is able to fail.
    drill = lease_race()
    assert drill.control is not None
    loose = drill.control.with_props(lease_seconds=0.2)
    verdict = perform(server_url, dataclasses.replace(loose, proofs=drill.scene.proofs), silent)
    assert verdict.trouble is None
    assert {check.name for check in verdict.checks if not check.ok} >= {"one_ledger_entry", "worker_a_wrote_nothing"}


def test_who_may_not_create_a_schema_is_told_in_one_sentence(server_url: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute("DROP ROLE IF EXISTS guest")
        conn.execute("CREATE ROLE guest LOGIN")
    as_guest = psycopg.conninfo.make_conninfo(server_url, user="guest")
    code, _, err = ended(command("drill", "lease-race", "--json", "--on", as_guest))
    assert code == 77
    assert err.startswith("tenure: permission denied for database")
    assert len(err.splitlines()) == 1


@pytest.mark.one_server
def test_a_database_that_does_not_answer_is_exit_69() -> None:
    code, out, err = ended(command("drill", "lease-race", "--on", "postgresql://nobody@127.0.0.1:1/nowhere"))
    assert (code, out) == (69, "")
    assert len(err.splitlines()) == 1
