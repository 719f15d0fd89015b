"""What the rows of a claim share is kept once, and what happens to one of them happens to no other."""

from __future__ import annotations

import time

import pytest

from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.model.outcome import Completed
from tenure.model.rows import Claimed, Settled
from tenure.verbs import settle
from tenure.verbs.settle import AllCompleted
from tenure.worker.attempt import Attempt, State
from tenure.worker.claim_rule import UNORDERED, SentClaim
from tenure.worker.config import Terms
from tenure.worker.worker import Worker
from world import World

pytestmark = pytest.mark.one_server


def test_a_renewal_of_one_row_is_no_renewal_of_those_claimed_with_it(world: World) -> None:
    first, second, other = _claimed(world, "work", "work", "long")
    assert first.common is second.common
    assert (first.lease_seconds, other.lease_seconds) == (90.0, 600.0)
    assert other.renew_at < first.renew_at == second.renew_at
    first.renew_at = first.job.deadline = 7.0
    assert second.renew_at > 7.0
    assert second.job.deadline > 7.0


def test_one_that_is_lost_or_let_go_leaves_the_others_as_they_were(world: World) -> None:
    first, second, _ = _claimed(world, "work", "work", "long")
    first.lose("lease_expired")
    assert first.let_go(Completed())
    assert (second.state, second.outcome, second.job.lost) == (State.RUNNING, None, "")
    first.settle()
    assert (first.state, second.state) == (State.ABANDONED, State.RUNNING)


def test_how_a_kind_is_completed_goes_with_each_of_its_jobs(world: World) -> None:
    work, _, long = _claimed(world, "work", "work", "long")
    assert (work.job.keep_payload, long.job.keep_payload) == (True, False)
    assert (work.accept_late, long.accept_late) == (False, True)
    assert work.job.schema == long.job.schema == world.schema
    long.job.keep_payload = True
    assert work.job.keep_payload


def test_a_batch_that_was_applied_as_a_whole_reads_like_one_answer_for_each_row(world: World) -> None:
    for _ in range(3):
        world.enqueue("work")
    rows = world.run(verbs.claim("w", 3))
    answers = world.run(settle.complete_all(rows))
    assert isinstance(answers, AllCompleted)
    assert list(answers) == [Settled(row, "complete", "applied", "completed") for row in rows]
    assert (len(answers), list(answers[1:])) == (3, list(answers)[1:])
    again = world.run(settle.complete_all(rows))
    assert [answer.standing for answer in again] == ["already_mine"] * 3
    assert not isinstance(again, AllCompleted)


def _claimed(world: World, *kinds: str) -> list[Attempt]:
    """These rows, claimed together by a worker that was not started."""
    inbox = Inbox()
    inbox.handler("work")(_nothing)
    inbox.handler("long", lease_seconds=600, late_completion="accept", keep_payload=False)(_nothing)
    worker = Worker(inbox, Terms(world.url, schema=world.schema))
    for kind in kinds:
        world.enqueue(kind)
    statement = verbs.claim(worker.id, len(kinds))
    claim = SentClaim(UNORDERED, len(kinds), 1, time.monotonic(), statement)
    rows: list[Claimed] = world.run(statement)
    made = worker.claimer.claims.attempts(claim, rows)
    return sorted(made, key=lambda attempt: kinds.index(attempt.job.kind))


def _nothing() -> None: ...
