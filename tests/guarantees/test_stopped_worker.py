"""A worker stopped (SIGSTOP) past its lease comes back to a row that is another's: what it writes is refused."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import servers
from apps.ledger import read
from crew import Process, eventually, processes
from tenure.verbs import questions
from world import World

TERMS = ["--lease-seconds=2", "--drain-seconds=1", "--poll-seconds=0.3"]

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


@pytest.fixture
def hurried(world: World) -> World:
    """A world with its table of receipts, in which leases are swept as soon as they are over."""
    world.sql("CREATE TABLE receipts (row_id uuid, token bigint)")
    world.sql("UPDATE chores SET every_seconds = 0.3 WHERE name = 'leases'")
    return world


def test_a_stopped_workers_late_writes_are_refused_and_the_row_is_completed_by_the_other(
    hurried: World, tmp_path: Path
) -> None:
    world, gate = hurried, tmp_path / "gate"
    ids = [world.enqueue(kind) for kind in ("late", "late_fenced")]
    stopped = Process(world, "apps.late:inbox", tmp_path, *TERMS, TENURE_TEST_GATE=str(gate))
    with processes(stopped):
        eventually(lambda: len(read(stopped.ledger)) == 2)
        stopped.send(signal.SIGSTOP)
        gate.touch()
        other = Process(world, "apps.late:inbox", tmp_path, *TERMS, TENURE_TEST_GATE=str(gate))
        with processes(other):
            eventually(lambda: [world.status(id) for id in ids] == ["completed"] * 2)
            stopped.send(signal.SIGCONT)
            # Each is refused, whatever it tries first: to complete, enter or release; or it is told before it tries.
            eventually(lambda: _refused(stopped) | _told(stopped) == {(str(id), 1) for id in ids})
            eventually(lambda: (str(ids[0]), 1) in _refused(stopped))
            eventually(lambda: [line for line in read(stopped.ledger) if line["what"] == "refused"])
            assert (other.end(), stopped.end()) == (0, 0)
    for id in ids:
        assert [tape.outcome for tape in world.run(questions.tape(id))] == ["expired", "completed"]
        assert f"-{other.pid}-" in str(world.row(id).finished_by)
    assert world.sql("SELECT row_id, token FROM receipts") == [(ids[1], 2)]


def _refused(process: Process) -> set[tuple[str, int]]:
    return {(each["job_id"], each["stale_token"]) for each in process.events("stale_write_blocked")}


def _told(process: Process) -> set[tuple[str, int]]:
    return {(each["job_id"], each["token"]) for each in process.events("lease_lost")}


def test_control_a_worker_stopped_for_less_than_its_lease_is_not_refused(hurried: World, tmp_path: Path) -> None:
    world, gate = hurried, tmp_path / "gate"
    ids = [world.enqueue(kind) for kind in ("late", "late_fenced")]
    paused = Process(world, "apps.late:inbox", tmp_path, "--poll-seconds=0.3", TENURE_TEST_GATE=str(gate))
    with processes(paused):
        eventually(lambda: len(read(paused.ledger)) == 2)
        paused.send(signal.SIGSTOP)
        gate.touch()
        paused.send(signal.SIGCONT)
        eventually(lambda: [world.status(id) for id in ids] == ["completed"] * 2)
        assert paused.end() == 0
    assert not paused.events("stale_write_blocked")
    assert world.sql("SELECT row_id, token FROM receipts") == [(ids[1], 1)]
