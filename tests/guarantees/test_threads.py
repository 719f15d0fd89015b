"""The threads of a worker see one attempt at the same time: each attempt ends once, and the first reason counts."""

from __future__ import annotations

import json
import threading
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import StaleLease
from tenure.events import Bus, Event, LeaseLost, StaleWriteBlocked
from tenure.model.outcome import Retry
from tenure.telemetry import tally as tally_module
from tenure.telemetry.tally import Tally
from tenure.worker.attempt import Attempt, State
from tenure.worker.config import Terms
from tenure.worker.raised import outcome_of
from tenure.worker.settler import Settler
from tenure.worker.worker import Worker
from world import World

pytestmark = pytest.mark.one_server


def idle(world: World) -> tuple[Worker, list[Event]]:
    """A worker that was not started, and its events."""
    events: list[Event] = []
    bus = Bus()
    bus.subscribe(events.append)
    return Worker(Inbox(), Terms(world.url, schema=world.schema), bus), events


def claimed(world: World, worker: Worker, kind: type[Attempt] = Attempt) -> Attempt:
    """An attempt that this worker holds."""
    world.enqueue("work")
    attempt = kind(Job(world.claim_one(worker.id), schema=world.schema))
    worker.held.take([attempt])
    return attempt


# -- a handler's thread and the claimer


class CommitsMeanwhile(Attempt):
    """Its handler commits between the first and the second time that somebody asks."""

    __slots__ = ()

    @property
    def completed_itself(self) -> bool:
        before, self.job.completion = self.job.completion, "committed"
        return before == "committed"


def test_an_attempt_that_commits_while_the_claimer_sorts_is_not_forgotten(world: World) -> None:
    worker, _ = idle(world)
    attempt = claimed(world, worker, CommitsMeanwhile)
    attempt.let_go(Retry("timed out"))
    other = claimed(world, worker)
    other.handler_returns(None)
    settler = Settler(worker.shared, worker.held)
    settler.add([other, attempt])
    settler.skip_settled()
    assert settler.unsettled == [attempt], "it is settled later, or now: not never"
    settler.skip_settled()
    assert (settler.unsettled, attempt.state) == ([], State.ABANDONED)
    worker.posts[0].pools._end(attempt, None)
    assert worker.held.slots_used == 0


# -- the lease keeper and the claimer


def test_a_renewal_that_crosses_our_own_settlement_loses_no_lease(world: World) -> None:
    worker, events = idle(world)
    attempt = claimed(world, worker)
    attempt.let_go(Retry("timed out"))
    world.retry(attempt.claimed.lease)  # the claimer's statement is through, its answer on the way
    worker.lease_keeper._lost_one(attempt)
    assert [event for event in events if isinstance(event, LeaseLost)] == []
    assert (attempt.job.lost, worker.held.leased()) == ("", [])


def test_control_a_running_attempt_whose_lease_is_gone_is_told_so(world: World) -> None:
    worker, events = idle(world)
    attempt = claimed(world, worker)
    worker.lease_keeper._lost_one(attempt)
    assert [event.reason for event in events if isinstance(event, LeaseLost)] == ["lease_lost"]
    assert attempt.job.lost == "lease_lost"


# -- a drain and the lease keeper


def test_a_drain_does_not_change_why_a_lease_was_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, _ = idle(world)
    lost, held = claimed(world, worker), claimed(world, worker)
    worker.lease_keeper._lost_one(lost)
    monkeypatch.setattr(worker, "_until", lambda *_: None)
    worker._give_back()
    assert (lost.job.lost, held.job.lost) == ("lease_lost", "drained")
    # Another worker may hold the row: there is nothing to release.
    assert outcome_of(lost, StaleLease(lost.claimed, "check", "lease_lost"), worker.shared) is None


# -- two who write the tally


def test_two_who_write_the_tally_at_once_write_each_refusal_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally(clock=lambda: 5.0)
    tally(StaleWriteBlocked("w", UUID(int=1), 1, 2, "token_mismatch", "complete"))
    written: list[str] = []
    said: list[str] = []

    def run(conn: Any, statement: Any, schema: Any) -> Any:
        written.append(statement.name)
        if len(written) == 1:
            other.start()
            other.join(0.3)  # it may go as far as it can
        return 0.0

    monkeypatch.setattr(tally_module, "run", run)
    other = threading.Thread(target=lambda: said.append(tally.write(None)))  # type: ignore[arg-type]
    said.append(tally.write(None))  # type: ignore[arg-type]
    other.join()
    assert written == ["refuse"]
    assert said == ["", ""]


def test_what_is_counted_while_a_write_fails_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally(clock=lambda: 5.0)
    sent: list[Any] = []

    def run(conn: Any, statement: Any, schema: Any) -> Any:
        sent.append(statement.params)  # the only statement: nothing was refused
        if len(sent) == 1:
            tally.renewed(3)
            raise psycopg.errors.LockNotAvailable("locked")
        return 5.0

    monkeypatch.setattr(tally_module, "run", run)
    tally.renewed(2)
    assert "locked" in tally.write(None, everything=True)  # type: ignore[arg-type]
    assert tally.write(None, everything=True) == ""  # type: ignore[arg-type]
    assert [slot["renewed"] for slot in json.loads(sent[1]["periods"])] == [5]


# -- an operator and a signal


def test_an_operators_drain_that_crosses_a_signal_is_not_a_second_stop(world: World) -> None:
    class Crossed(Worker):
        @property
        def draining(self) -> bool:
            before = super().draining
            self.stop()  # the signal comes here, exactly once
            return before

    worker = Crossed(Inbox(), Terms(world.url, schema=world.schema), Bus())
    worker._asked_to_drain()
    if not Worker.draining.fget(worker):  # type: ignore[attr-defined]
        worker.stop()
    assert not worker._leave_now
    worker.stop()
    assert worker._leave_now
