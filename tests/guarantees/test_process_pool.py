"""A handler in a process of its own is promised what the others are: its time, a word when it is over, one end."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from apps import crunch
from crew import Hired, Process, eventually, processes, working
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import (
    HandlerOverran,
    JobCancelled,
    JobCompleted,
    JobReleased,
    JobRetried,
    LeaseAcquired,
    StaleWriteBlocked,
)
from tenure.model.outcome import COMPLETED, Fail, Outcome, Release, Retry, Snooze
from tenure.model.rows import NewRow
from tenure.worker.attempt import Attempt
from tenure.worker.child_loop import Turns
from tenure.worker.child_words import Ended, Jobs, JobSent, meant, pack, read_down, read_up, spelled
from tenure.worker.processes import SHORT_SECONDS, SPAWN
from world import World

pytestmark = pytest.mark.one_server


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


def pid_in(folder: Path) -> int:
    """The process of the handler that works in this folder, once it does."""
    return int(eventually(lambda: (folder / "pid").exists() and (folder / "pid").read_text()))


def attempt_of(hired: Hired) -> Attempt:
    (attempt,) = hired.worker.held.all()
    return attempt


def send(world: World, kind: str, **payload: Any) -> UUID:
    return world.enqueue(kind, payload)


def test_its_time_counts_from_when_it_is_called_not_from_when_its_process_is_made(world: World) -> None:
    with working(world, crunch.inbox) as hired:
        id = send(world, "quick")
        hired.saw(JobCompleted)
    assert not hired.of(HandlerOverran)
    assert world.row(id).attempts == 1


def test_there_is_a_process_for_every_slot(world: World, tmp_path: Path) -> None:
    slots = (os.cpu_count() or 1) + 1
    for _ in range(slots):
        send(world, "meet", folder=str(tmp_path), n=slots)
    with working(world, crunch.inbox, slots=slots) as hired:
        hired.saw(JobCompleted, slots)


def test_a_handler_that_runs_too_long_is_told(world: World, tmp_path: Path) -> None:
    with working(world, crunch.inbox) as hired:
        id = send(world, "hasty", folder=str(tmp_path))
        hired.saw(HandlerOverran)
        eventually(lambda: hired.worker.held.slots_used == 0)
    assert (tmp_path / "told").read_text() == "StaleLease timed_out False"
    assert "timed out after 0.2 s" in (world.row(id).last_error or "")


def test_a_process_that_does_not_stop_at_its_timeout_is_killed_and_its_slot_is_free(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.overruns.STUBBORN_SECONDS", 0.5)
    with working(world, crunch.inbox, slots=1) as hired:
        send(world, "stubborn", folder=str(tmp_path))
        hired.saw(HandlerOverran)
        (retried,) = hired.saw(JobRetried)
        assert "timed out" in retried.error
        eventually(lambda: not alive(pid_in(tmp_path)))
        send(world, "crunch", n=1)
        hired.saw(JobCompleted)


def test_a_handler_whose_lease_is_lost_is_told_and_its_row_given_back(world: World, tmp_path: Path) -> None:
    with working(world, crunch.inbox) as hired:
        id = send(world, "polite", folder=str(tmp_path))
        pid_in(tmp_path)
        hired.worker.held.lose(attempt_of(hired), "lease_expired", hired.worker.id)
        hired.saw(JobReleased)
        assert (tmp_path / "told").read_text() == "StaleLease lease_expired False"
        assert world.row(id).last_error is None


def test_a_handler_that_is_to_be_cancelled_is_told(world: World, tmp_path: Path) -> None:
    with working(world, crunch.inbox) as hired:
        id = send(world, "polite", folder=str(tmp_path))
        pid_in(tmp_path)
        assert world.run(verbs.cancel([id])) == {id: "asked"}
        hired.saw(JobCancelled)
    assert (tmp_path / "told").read_text() == "Cancelled  True"
    assert world.row(id).status == "cancelled"


def test_a_handler_that_does_not_listen_gives_its_row_back_without_cost_and_ends(world: World, tmp_path: Path) -> None:
    with working(world, crunch.inbox, drain_seconds=0.1) as hired:
        id = send(world, "deaf", folder=str(tmp_path))
        pid = pid_in(tmp_path)
        assert hired.stop() == 0
    row = world.row(id)
    assert (row.status, row.attempts) == ("pending", 0)
    eventually(lambda: not alive(pid))


def test_no_process_outlives_its_worker(world: World, tmp_path: Path) -> None:
    send(world, "deaf", folder=str(tmp_path))
    worker = Process(world, "apps.crunch:inbox", tmp_path)
    with processes(worker):
        pid = pid_in(tmp_path)
        worker.end(signal.SIGKILL)
        eventually(lambda: not alive(pid))


def test_a_signal_to_all_processes_at_once_is_for_the_worker_alone(world: World, tmp_path: Path) -> None:
    with working(world, crunch.inbox) as hired:
        id = send(world, "deaf", folder=str(tmp_path))
        pid = pid_in(tmp_path)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
        (tmp_path / "gate").touch()
        hired.saw(JobCompleted)
    assert world.row(id).attempts == 1
    assert not hired.of(JobRetried)


@pytest.mark.parametrize("what", ["odd", "stale"])
def test_no_exception_takes_the_other_processes_with_it(world: World, tmp_path: Path, what: str) -> None:
    with working(world, crunch.inbox) as hired:
        send(world, "deaf", folder=str(tmp_path))
        pid_in(tmp_path)
        id = send(world, "raises", what=what)
        hired.saw(LeaseAcquired, 2)
        eventually(lambda: hired.worker.held.slots_used == 1)
        (tmp_path / "gate").touch()
        hired.saw(JobCompleted)
    assert len(hired.of(JobRetried)) == (what == "odd")
    assert what == "stale" or "Odd: not to be unpickled" in (world.row(id).last_error or "")


def test_a_process_that_dies_costs_its_own_job_an_attempt_and_no_other(world: World, tmp_path: Path) -> None:
    with working(world, crunch.inbox) as hired:
        other = send(world, "deaf", folder=str(tmp_path))
        pid_in(tmp_path)
        id = send(world, "raises", what="death")
        hired.saw(JobRetried)
        (tmp_path / "gate").touch()
        hired.saw(JobCompleted)
    assert "died with exit code 9" in (world.row(id).last_error or "")
    assert (world.row(other).status, world.row(other).attempts) == ("completed", 1)


def test_a_process_that_died_with_nothing_to_do_costs_nothing(world: World, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    with working(world, crunch.inbox) as hired:
        send(world, "deaf", folder=str(tmp_path))
        hired.saw(JobCompleted)
        os.kill(pid_in(tmp_path), signal.SIGKILL)
        eventually(lambda: not alive(pid_in(tmp_path)))
        id = send(world, "crunch", n=1)
        hired.saw(JobCompleted, 2)
    assert world.row(id).attempts == 1
    # Sent into its last moment it is given back, which is free; nothing else may befall it.
    assert all(type(each) is JobReleased for each in hired.of(JobRetried))


def test_a_process_is_used_again(world: World, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    pids = set()
    with working(world, crunch.inbox) as hired:
        for n in range(1, 4):
            send(world, "deaf", folder=str(tmp_path))
            hired.saw(JobCompleted, n)
            pids.add(pid_in(tmp_path))
    assert len(pids) == 1


def test_what_a_handler_completed_itself_is_completed(world: World) -> None:
    with working(world, crunch.inbox) as hired:
        id = send(world, "sealed")
        hired.saw(JobCompleted)
    assert world.row(id).status == "completed"
    assert not hired.of(StaleWriteBlocked)


# -- rows that wait ahead in a process


def quick(world: World, hired: Hired, folder: Path) -> None:
    """Let it learn that its handlers are short, until rows wait in its processes."""

    def learned() -> bool:
        for _ in range(20):
            send(world, "lazy", folder=str(folder))
        return hired.worker.held.ahead.row_seconds < SHORT_SECONDS / 2

    eventually(learned)
    eventually(lambda: not world.sql("SELECT 1 FROM live LIMIT 1"))


def test_rows_that_wait_in_a_process_that_turned_slow_go_back_without_cost(world: World, tmp_path: Path) -> None:
    with working(world, crunch.inbox, slots=1) as hired:
        quick(world, hired, tmp_path)
        (tmp_path / "slow").touch()
        rows = [NewRow("lazy", {"folder": str(tmp_path)}) for _ in range(30)]
        world.run(verbs.enqueue_many(rows))
        pid_in(tmp_path)
        eventually(lambda: world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(1,)])
        assert world.sql("SELECT DISTINCT attempts FROM live WHERE status = 'pending'") == [(0,)]
        (tmp_path / "gate").touch()
        eventually(lambda: not world.sql("SELECT 1 FROM live LIMIT 1"))
    assert world.sql("SELECT count(*) FROM archive WHERE attempts <> 1") == [(0,)]


def test_a_process_that_dies_costs_rows_that_wait_in_it_nothing(world: World, tmp_path: Path) -> None:
    with working(world, crunch.inbox, slots=1) as hired:
        quick(world, hired, tmp_path)
        rows = [NewRow("lazy", {"folder": str(tmp_path), "n": -1 if k in (3, 11) else 1}) for k in range(30)]
        world.run(verbs.enqueue_many(rows))
        hired.saw(JobRetried, 2)
        eventually(lambda: world.sql("SELECT count(*) FROM live") == [(2,)])
    assert world.sql("SELECT attempts, last_error LIKE '%died with exit code 9%' FROM live") == [(1, True)] * 2
    assert world.sql("SELECT count(*) FROM archive WHERE attempts <> 1") == [(0,)]


def test_of_a_process_and_its_worker_one_is_first_to_begin_or_take_back_a_job() -> None:
    turns = Turns(SPAWN)
    assert turns.take(0)
    assert turns.take_back(1, 5) == 1
    assert turns.take_back(1, 9) is None, "the process may not have come to them yet"
    assert [turns.take(n) for n in (1, 4, 5)] == [False, False, True]
    assert turns.begun == 6
    assert turns.take_back(1, 9) == 6
    assert not turns.take(6)


@pytest.mark.parametrize(
    "outcome", [COMPLETED, Retry("e", 3.0), Snooze(1.5, "e"), Fail("f"), Release(), Retry("\ud800")]
)
def test_an_outcome_arrives_as_it_was_sent(world: World, outcome: Outcome) -> None:
    world.enqueue("work")
    row = world.claim_one()
    word = read_up(pack(Ended(1, *spelled(outcome), False, 0.0, 0.0)))
    assert isinstance(word, Ended)
    assert meant(word, row) == (Retry("\\ud800") if outcome == Retry("\ud800") else outcome)
    (sent,) = read_down(pack(Jobs([JobSent(1, "m", "q", row)]))).jobs  # type: ignore[union-attr]
    assert sent.claimed == row


def hidden(job: Job) -> None:
    """Under this name, another process would find a function and no handler."""


def test_a_handler_that_no_other_process_could_find_is_refused_in_words_and_without_cost(world: World) -> None:
    inbox = Inbox()
    inbox.handler("hidden", pool="process")(hidden)
    with working(world, inbox) as hired:
        id = world.enqueue("hidden")
        (event,) = hired.saw(JobReleased)
    assert "decorate a function at the top of a module" in event.error
    assert (world.row(id).status, world.row(id).attempts) == ("pending", 0)
