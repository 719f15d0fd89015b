"""What a worker has done is settled: also beside a locked row, and beside a claim that is turned away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest

from crew import eventually, working
from guarantees.facts import user_connection
from tenure import postgres, verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import StaleWriteBlocked, StatementTurnedAway
from tenure.model.outcome import Completed, Release
from tenure.model.rows import NewRow, Offer
from tenure.postgres.patience import Patience
from tenure.verbs.queues import limit
from tenure.worker.attempt import Attempt, State
from tenure.worker.config import Terms
from tenure.worker.settler import Settler
from tenure.worker.worker import Worker
from world import World

pytestmark = pytest.mark.one_server

KINDS = ("work", "strict", "late")


def _send(world: World, n: int, kinds: tuple[str, ...] = ("work",), key: str = "k") -> list[UUID]:
    rows = [NewRow(kinds[i % len(kinds)], key=key, ordered=True) for i in range(n)]
    return [row.id for row in world.run(verbs.enqueue_many(rows))]


@contextmanager
def _locked(world: World, query: str, *params: Any) -> Iterator[psycopg.Connection[Any]]:
    """Somebody holds these rows locked, in a transaction that stays open."""
    other = user_connection(world)
    other.execute(query.encode(), params)
    yield other
    other.rollback()


def _lock_row(world: World, id: UUID) -> Any:
    return _locked(world, "SELECT FROM live WHERE id = %s FOR UPDATE", id)


def _ran_once(world: World, seen: list[UUID], ids: list[UUID], hired: Any) -> None:
    assert (len(seen), seen == ids) == (len(ids), True)
    assert [event.reason for event in hired.of(StaleWriteBlocked)] == []
    assert world.sql("SELECT outcome, count(*) FROM attempts WHERE outcome <> 'released' GROUP BY 1") == []


# -- the rows of a run


def test_a_locked_row_costs_the_runs_of_other_keys_nothing(world: World) -> None:
    """After a statement that was turned away, completions were sent in random order, refused, and forgotten."""
    inbox, seen, far, locked = Inbox(), [], threading.Event(), threading.Event()

    @inbox.handler("work")
    def work(job: Job) -> None:
        seen.append(job.id)
        if len(seen) == 100:
            far.set()
            locked.wait(90)

    @inbox.handler("other")
    def other(job: Job) -> None:
        locked.wait(90)

    stands = world.enqueue("other")
    ids = _send(world, 400)
    with working(world, inbox, slots=4, lease_seconds=30, drain_seconds=3) as hired:
        far.wait(90)
        with _lock_row(world, stands):
            locked.set()
            hired.saw(StatementTurnedAway, 2)
            eventually(lambda: world.count("live") == 1)
        eventually(lambda: world.count("live") == 0)
        _ran_once(world, seen, ids, hired)


def test_a_locked_row_of_a_run_is_completed_later_and_so_are_those_behind_it(world: World) -> None:
    inbox, seen, far, locked = Inbox(), [], threading.Event(), threading.Event()
    ids: list[UUID] = []

    @inbox.handler("work")
    def work(job: Job) -> None:
        seen.append(job.id)
        waiting = [each for each in hired.worker.held.leased() if each.state is State.WAITING]
        if not far.is_set() and len(waiting) > 10:
            far.set()
            locked.wait(90)

    with working(world, inbox, slots=4, lease_seconds=30, drain_seconds=3) as hired:
        ids += _send(world, 400)
        assert far.wait(90)
        with _lock_row(world, ids[len(seen) + 1]):
            locked.set()
            hired.saw(StatementTurnedAway, 2)
            assert world.status(ids[len(seen) - 1]) == "processing"
        eventually(lambda: world.count("live") == 0)
        _ran_once(world, seen, ids, hired)


def test_rows_of_a_run_that_differ_in_late_completion_are_completed_in_order(world: World) -> None:
    """They went in two statements, first all strict ones: those behind a late one were refused, and forgotten."""
    inbox, seen = Inbox(), []

    @inbox.handler("strict")
    def strict(job: Job) -> None:
        seen.append(job.id)

    @inbox.handler("late", late_completion="accept")
    def late(job: Job) -> None:
        seen.append(job.id)

    ids = _send(world, 60, KINDS[1:])
    with working(world, inbox, slots=4, lease_seconds=8, drain_seconds=3) as hired:
        eventually(lambda: world.count("live") == 0)
        _ran_once(world, seen, ids, hired)


# -- a claim that is turned away


def test_a_claim_that_is_turned_away_undoes_no_completion(world: World) -> None:
    """The first completions and the claim share a transaction: while settings were locked, nothing was completed."""
    inbox, running, gate = Inbox(), [], threading.Event()

    @inbox.handler("work")
    def work(job: Job) -> None:
        running.append(job.id)
        gate.wait(90)

    world.run(limit("default", max_running=5))
    for _ in range(20):
        world.enqueue("work")
    with working(world, inbox, slots=8) as hired:
        eventually(lambda: len(running) == 5)
        with _locked(world, "SELECT FROM queues FOR UPDATE"):
            gate.set()
            hired.saw(StatementTurnedAway, 1)
            eventually(lambda: world.count("archive") == 5)
            hired.saw(StatementTurnedAway, 3)
            assert len(running) == 5
        eventually(lambda: world.count("archive") == 20)


def test_a_board_that_cannot_be_read_keeps_nothing_from_being_completed(world: World) -> None:
    """The board is read before anything is settled: while its tables were locked, nothing was completed."""
    inbox, running, gate = Inbox(), threading.Event(), threading.Event()

    @inbox.handler("work")
    def work() -> None:
        running.set()
        gate.wait(90)

    world.enqueue("work")
    with working(world, inbox) as hired:
        assert running.wait(90)
        with _locked(world, "LOCK TABLE queues IN ACCESS EXCLUSIVE MODE"):
            hired.saw(StatementTurnedAway, 1)
            gate.set()
            eventually(lambda: world.count("archive") == 1)


@pytest.mark.parametrize("refused", [True, False])
def test_a_claim_goes_alone_after_a_refusal_and_with_completions_else(
    world: World, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    worker, settler, attempts = _done(world, *[("k", "work")] * 3)
    claimer = worker.claimer
    monkeypatch.setattr(claimer, "_presence", Trusted())
    world.run(limit("default", max_running=5))
    world.enqueue("work")
    settler.add(attempts)
    claimer._refused = refused
    patience = Patience(lock_seconds=0.5)
    with postgres.connect(world.url, schema=world.schema, patience=patience) as conn:
        with _locked(world, "SELECT FROM queues FOR UPDATE"), pytest.raises(psycopg.errors.LockNotAvailable):
            claimer._round(conn)
        assert world.count("archive") == (3 if refused else 0)
        claimer.statement_refused()
        assert settler.one_by_one is not refused
        claimer._round(conn)
    assert (world.count("archive"), settler.unsettled) == (3, [])


def test_a_row_that_cannot_be_completed_yet_keeps_no_other_from_its_start(world: World) -> None:
    """Its completion was sent with each claim: as long as it was locked, this worker started nothing."""
    inbox, gate = Inbox(), threading.Event()
    started: list[UUID] = []

    @inbox.handler("work")
    def work(job: Job) -> None:
        started.append(job.id)
        gate.wait(90)

    first = world.enqueue("work")
    with working(world, inbox, slots=4) as hired:
        eventually(lambda: started == [first])
        with _lock_row(world, first):
            gate.set()
            hired.saw(StatementTurnedAway, 2)
            more = [world.enqueue("work") for _ in range(12)]
            eventually(lambda: world.count("archive") == 12)
            assert sorted(started) == sorted([first, *more])
            assert world.status(first) == "processing"
        eventually(lambda: world.status(first) == "completed")


# -- what the settler keeps


class Trusted:
    """A lease keeper that was not started."""

    trusted, trusted_until, ears = True, float("inf"), ""


def _nothing() -> None: ...


def _done(world: World, *sent: tuple[str, str], late: bool = False) -> tuple[Worker, Settler, list[Attempt]]:
    """A worker that was not started, and what it has done: runs of these keys and kinds."""
    inbox = Inbox()
    for kind in KINDS:
        inbox.handler(kind, late_completion="accept" if late or kind == "late" else "reject")(_nothing)
    worker = Worker(inbox, Terms(world.url, schema=world.schema))
    world.run(verbs.enqueue_many([NewRow(kind, key=key, ordered=True) for key, kind in sent]))
    claims = worker.claimer.claims
    claims.rule.queues = {"default": 1.0}
    claims.rule.learn([Offer("default", 0, True, False, 0.0)])
    claims.rule._row_seconds = 0.001
    claim = claims.next(10, time.monotonic())
    assert claim is not None
    rows = world.run(claim.statement)
    attempts = claims.attempts(claim, rows)
    for attempt in attempts:
        attempt.give_back(Completed()) or attempt.handler_returns(Completed())
    return worker, worker.claimer.settler, attempts


def _send_batches(world: World, settler: Settler) -> list[str]:
    """Run what is due; the answers as reasons."""
    said = []
    for attempts, statement in settler.batches():
        answers = world.run(statement)
        said += [answer.reason or answer.standing for answer in answers]
        settler.answered(*settler.decided(attempts, answers))
    return said


def _due(settler: Settler, attempts: list[Attempt]) -> None:
    eventually(lambda: settler.due() == attempts)


def test_a_completion_that_comes_before_its_turn_stays_ours_and_is_sent_again(world: World) -> None:
    worker, settler, (first, second) = _done(world, *[("k", "work")] * 2)
    settler.add([second])
    assert _send_batches(world, settler) == ["try_again"]
    assert (settler.unsettled, second.settled) == ([second], False)
    assert second in worker.held.leased()
    settler.add([first])
    assert _send_batches(world, settler)[0] == "applied"
    _due(settler, [second])
    assert _send_batches(world, settler) == ["applied"]
    assert (settler.unsettled, settler.next_at(0.0), worker.held.all()) == ([], float("inf"), [])


def test_a_completion_that_waits_for_its_turn_waits_longer_each_time(world: World) -> None:
    _, settler, (_, second) = _done(world, *[("k", "work")] * 2)
    settler.add([second])
    pauses = []
    for _ in range(10):
        _due(settler, [second])
        assert _send_batches(world, settler) == ["try_again"]
        assert settler.slots_ending == 0
        at = time.monotonic()
        pauses.append(settler.next_at(at) - at)
    longest = max(pause for pause in pauses if pause < float("inf"))  # one that is over by now says nothing
    assert 0.2 < longest < 1.6, "the first is one of 0.02 s"


def test_a_completion_that_may_come_late_keeps_its_turn_after_the_end_of_its_lease(world: World) -> None:
    _, settler, (first, second) = _done(world, *[("k", "work")] * 2, late=True)
    world.sql("UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = %s", second.claimed.id)
    settler.add([second])
    assert _send_batches(world, settler) == ["lease_expired"]
    assert settler.unsettled == [second]
    settler.add([first])
    assert _send_batches(world, settler)[0] == "applied"
    _due(settler, [second])
    assert _send_batches(world, settler) == ["applied"]


def test_completions_are_cut_where_late_completion_changes_and_each_is_in_its_turn(world: World) -> None:
    kinds = {"a": ("strict", "strict", "late", "late", "strict"), "b": ("late", "strict"), "c": ("late",)}
    _, settler, attempts = _done(world, *((key, kind) for key in kinds for kind in kinds[key]))
    settler.add(attempts)
    rows = [[(each.claimed.partition_key, each.job.kind) for each in batch] for batch, _ in settler.batches()]
    strict = [("a", "strict"), ("a", "strict")]
    late = [("a", "late"), ("a", "late"), ("b", "late"), ("c", "late")]
    assert [sorted(batch) for batch in rows] == [strict, late, [("a", "strict"), ("b", "strict")]]
    assert set(_send_batches(world, settler)) == {"applied"}
    assert world.count("live") == 0


@pytest.mark.parametrize("lost", ["lease_expired", "token_mismatch", "no_such_row"])
def test_a_completion_that_is_refused_for_good_is_not_kept(world: World, lost: str) -> None:
    worker, settler, (first, _) = _done(world, *[("k", "work")] * 2)
    if lost == "token_mismatch":
        world.sql("UPDATE live SET lease_generation = 9 WHERE id = %s", first.claimed.id)
    elif lost == "lease_expired":
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = %s", first.claimed.id)
    else:
        world.sql("DELETE FROM live WHERE id = %s", first.claimed.id)
    settler.add([first])
    assert _send_batches(world, settler) == [lost]
    assert (settler.unsettled, first.settled, first in worker.held.leased()) == ([], True, False)


def test_completions_behind_a_locked_row_wait_for_it_and_what_goes_back_does_not(world: World) -> None:
    _, settler, attempts = _done(world, *[("k", "work")] * 4)
    settler.add(attempts)
    attempts[3].outcome = Release()
    settler.turned_away(attempts, alone=True)
    assert [batch for batch, _ in settler.batches()] == [[each] for each in attempts]
    settler.turned_away([attempts[1]], alone=True)
    assert settler.due() == [attempts[0], attempts[3]]
    settler.one_by_one = False
    assert settler.locked() == []
    _due(settler, attempts)
    assert settler.batches() == []
    assert [batch for batch, _ in settler.locked()] == [[each] for each in attempts]


def test_the_claimer_sleeps_until_the_pause_of_the_locked_row_is_over(world: World) -> None:
    """The pause of a row behind it may be over before: that is no reason to wake."""
    _, settler, (first, second) = _done(world, *[("k", "work")] * 2)
    settler.add([second])
    assert _send_batches(world, settler) == ["try_again"]
    settler.add([first])
    settler.turned_away([first], alone=True)
    _due(settler, [])
    eventually(lambda: settler._put_off._pauses[second].until < time.monotonic())
    at = time.monotonic()
    assert (settler.due(), settler.next_at(at)) == ([], settler._put_off._pauses[first].until)


def test_a_statement_that_was_turned_away_with_a_claim_blames_no_row(world: World) -> None:
    _, settler, attempts = _done(world, *[("k", "work")] * 1)
    settler.add(attempts)
    settler.turned_away(attempts, alone=False)
    assert (settler.due(), settler.one_by_one) == (attempts, True)
    settler.turned_away([], alone=True)
    assert (settler.due(), settler.one_by_one) == (attempts, False)


def test_a_row_that_was_settled_meanwhile_is_not_kept_for_a_statement_that_was_turned_away(world: World) -> None:
    _, settler, attempts = _done(world, *[("k", "work")] * 1)
    settler.add(attempts)
    assert _send_batches(world, settler) == ["applied"]
    settler.turned_away(attempts, alone=True)
    assert settler.next_at(0.0) == float("inf")
