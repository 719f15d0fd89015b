"""Ordered keys: runs of rows under one claim, heads found by time, and rows that keep their key until they are over."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import UUID

import pytest

from crew import eventually, working
from guarantees.facts import Beside, user_connection
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import BadSettings
from tenure.events import JobReleased, StaleWriteBlocked
from tenure.model.backoff import Fixed
from tenure.model.outcome import Retry
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import operators, questions, settle
from world import World

HOUR = 3600.0


def _send(world: World, n: int = 1, key: str = "k", **options: Any) -> list[UUID]:
    return [world.enqueue(key=key, ordered=True, **options) for _ in range(n)]


def _claim(world: World, run: int = 10, n: int = 10, **options: Any) -> list[Claimed]:
    return world.claim_ordered(options.pop("worker", "A"), n, run_length=run, **options)


def _ids(jobs: list[Claimed]) -> list[UUID]:
    return [job.id for job in jobs]


def _now(world: World) -> None:
    world.sql("UPDATE live SET available_at = clock_timestamp() WHERE available_at > clock_timestamp()")


# -- what a run is


def test_a_claim_takes_the_next_rows_of_a_key_in_order(world: World) -> None:
    ids = _send(world, 5)
    assert _ids(_claim(world, run=3)) == ids[:3]
    assert _claim(world, worker="B") == []


def test_behind_a_row_whose_lease_ends_within_a_long_transaction_none_is_completed(world: World) -> None:
    _send(world, 2)
    first, second = _claim(world)
    with world.conn.transaction():
        world.sql("SELECT now()")  # the transaction's clock stands still from here
        with world.connect().cursor() as elsewhere:
            elsewhere.execute("UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = %s", [first.id])
        answers = world.run(settle.complete([first, second]))
    assert [answer.ok for answer in answers] == [False, False]
    assert world.count("live") == 2


def test_a_run_of_the_same_key_in_another_queue_holds_nothing_back(world: World) -> None:
    _send(world, queue="a")
    _send(world, queue="b")
    jobs = _claim(world, queues=["a", "b"])
    assert {job.queue for job in jobs} == {"a", "b"}
    assert world.complete(next(job.lease for job in jobs if job.queue == "b")).ok


def test_each_row_of_a_run_has_its_own_lease(world: World) -> None:
    _send(world, 3)
    jobs = _claim(world)
    assert [job.generation for job in jobs] == [1, 1, 1]
    assert world.complete(jobs[0].lease).ok
    assert [lease.id for lease in world.run(verbs.renew([job.lease for job in jobs])).kept] == _ids(jobs[1:])


def test_the_key_is_taken_until_the_last_row_of_the_run_is_over(world: World) -> None:
    ids = _send(world, 4)
    jobs = _claim(world, run=2)
    assert world.complete(jobs[0].lease).ok
    assert _claim(world, worker="B") == []
    assert world.complete(jobs[1].lease).ok
    assert _ids(_claim(world, worker="B")) == ids[2:]


def test_a_run_ends_before_a_row_that_is_not_due(world: World) -> None:
    ids = _send(world, 2)
    _send(world, delay_seconds=HOUR)
    _send(world)
    assert _ids(_claim(world)) == ids


def test_keys_have_their_runs_side_by_side_up_to_n(world: World) -> None:
    for _ in range(3):
        for key in ("a", "b", "c"):
            _send(world, key=key)
    assert [(job.partition_key) for job in _claim(world, n=2)] == ["a"] * 3 + ["b"] * 3


def test_a_run_of_no_rows_is_refused(world: World) -> None:
    with pytest.raises(BadSettings, match="at least 1"):
        _claim(world, run=0)


# -- a run ends at the first row that does not complete


def test_rows_of_a_run_are_completed_in_order_or_not_at_all(world: World) -> None:
    _send(world, 3)
    first, second, third = _claim(world)
    refused = world.complete(second.lease)
    assert (refused.standing, refused.reason) == ("unknown", "try_again")
    answers = world.run(settle.complete([third, first]))
    assert [answer.ok for answer in answers] == [False, True]
    assert [answer.ok for answer in world.run(settle.complete([second, third]))] == [True, True]


def test_behind_a_row_whose_lease_is_over_none_is_completed(world: World) -> None:
    _send(world, 2)
    first, second = _claim(world)
    world.sql("UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = %s", first.id)
    assert [answer.ok for answer in world.run(settle.complete([first, second]))] == [False, False]


@pytest.mark.parametrize("end", ["retry", "release", "fail", "dead_letter"])
def test_with_a_row_that_ends_otherwise_the_rows_behind_it_go_back_unstarted(world: World, end: str) -> None:
    ids = _send(world, 4)
    first, second, third, fourth = _claim(world)
    world.complete(first.lease)
    getattr(world, end)(second.lease)
    assert [world.row(id).attempts for id in ids[2:]] == [0, 0]
    assert [world.status(id) for id in ids[2:]] == ["pending", "pending"]
    for late in (third, fourth):
        assert world.complete(late.lease).standing == "stale"
    _now(world)
    assert _ids(_claim(world, run=1)) == [ids[1] if end in ("retry", "release") else ids[2]]


@pytest.mark.parametrize("old", ["generation", "fence"])
def test_an_old_token_in_the_same_call_keeps_no_row_behind_from_going_back(world: World, old: str) -> None:
    ids = _send(world, 3)
    first, second, _ = _claim(world)
    lease = second.lease._replace(generation=0) if old == "generation" else second.lease._replace(fence=1)
    answers = world.run(settle.retry([first.lease, lease], ["boom", "boom"], delays=[HOUR, None]))
    assert [answer.standing for answer in answers] == ["applied", "stale"]
    assert [world.status(id) for id in ids] == ["pending"] * 3
    assert world.complete(second.lease).standing == "stale", "it would overtake the first"


@pytest.mark.parametrize("apart", ["key", "queue"])
def test_runs_that_were_claimed_together_end_apart(world: World, apart: str) -> None:
    near = "SELECT key FROM generate_series(1, 9999) AS s (n), concat('k', n) AS key WHERE bucket(key) = 7 LIMIT 2"
    keys = [key for (key,) in world.sql(near)]
    runs = [{"key": key} for key in keys] if apart == "key" else [{"key": "k", "queue": q} for q in ("a", "b")]
    sent = [_send(world, **run) for _ in range(2) for run in runs]
    one, other, behind_one, behind_other = (id for (id,) in sent)
    jobs = {job.id: job for job in _claim(world, queues=["default", "a", "b"])}
    beside = user_connection(world)
    beside.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [other])
    world.sql("SET lock_timeout = '4s'")  # who would wait for the other is refused
    world.retry(jobs[one].lease)
    assert [world.status(id) for id in (one, behind_one)] == ["pending", "pending"]
    assert [world.status(id) for id in (other, behind_other)] == ["processing", "processing"]


def test_the_rows_before_one_that_goes_back_stay_with_their_holder(world: World) -> None:
    ids = _send(world, 3)
    _, second, _ = _claim(world)
    world.release(second.lease)
    assert [world.status(id) for id in ids] == ["processing", "pending", "pending"]


def test_a_row_that_has_begun_is_a_run_of_its_own(world: World) -> None:
    ids = _send(world, 3)
    world.retry(_claim(world)[0].lease, delay=0)
    (again,) = _claim(world)
    assert (again.id, again.attempts) == (ids[0], 2)
    world.complete(again.lease)
    assert _ids(_claim(world)) == ids[1:]


def test_each_row_of_a_run_whose_leases_ran_out_costs_an_attempt_and_is_a_run_of_its_own(world: World) -> None:
    ids = _send(world, 4)
    first, *rest = _claim(world)
    world.complete(first.lease)
    world.expire(*(job.lease for job in rest))
    world.run(verbs.sweep(10))
    assert [world.row(id).attempts for id in ids[1:]] == [1, 1, 1]
    for id in ids[1:]:
        _now(world)
        (job,) = _claim(world)
        assert job.id == id
        world.complete(job.lease)


def test_what_may_be_tried_once_only_is_never_behind_another(world: World) -> None:
    ids = [*_send(world, 2), *_send(world, 2, max_attempts=1), *_send(world)]
    for run in (ids[:2], ids[2:3], ids[3:]):
        jobs = _claim(world)
        assert _ids(jobs) == run
        world.run(settle.complete(jobs))


@pytest.mark.parametrize("n", [1, 2])
def test_when_one_of_them_is_swept_those_behind_it_go_back_too(world: World, n: int) -> None:
    ids = _send(world, 3)
    _first, *rest = _claim(world)
    world.expire(*(job.lease for job in rest))
    assert len(world.run(verbs.sweep(n))) == n
    assert [world.status(id) for id in ids] == ["processing", "pending", "pending"]
    assert world.sql("SELECT outcome FROM attempts") == [("expired",)] * 2


def test_rows_of_a_run_that_crashed_are_done_before_one_that_was_committed_late(world: World) -> None:
    slow = user_connection(world)
    (first,) = _send(world)
    late = world.run(verbs.enqueue(NewRow("work", key="k", ordered=True)), slow).id
    (third,) = _send(world)
    jobs = _claim(world)
    slow.commit()
    world.expire(*(job.lease for job in jobs))
    world.run(verbs.sweep(9))
    for id in (first, third, late):
        _now(world)
        (job,) = _claim(world)
        assert job.id == id
        world.complete(job.lease)


def test_a_row_that_was_committed_late_into_a_run_does_not_hold_up_its_rows(world: World) -> None:
    """It waits behind them, though its number is lower: it is nobody's, and no row of the run."""
    first = world.enqueue(key="k", ordered=True)
    slow = user_connection(world)
    late = world.run(verbs.enqueue(NewRow("work", key="k", ordered=True)), slow).id
    third = world.enqueue(key="k", ordered=True)
    run = _claim(world)
    assert _ids(run) == [first, third]
    slow.commit()
    assert all(answer.ok for answer in world.run(settle.complete([job.lease for job in run])))
    assert _ids(_claim(world)) == [late]


def test_a_row_of_a_run_that_is_to_be_cancelled_is_cancelled_when_it_goes_back(world: World) -> None:
    ids = _send(world, 2)
    first, _ = _claim(world)
    world.run(verbs.cancel([ids[1]]))
    world.retry(first.lease)
    assert [world.status(id) for id in ids] == ["pending", "cancelled"]


# -- a row that has begun keeps its key (none overtakes)


@pytest.mark.parametrize("way", ["retry", "expiry"])
def test_a_row_that_was_long_in_its_transaction_does_not_overtake_one_that_has_begun(world: World, way: str) -> None:
    slow = user_connection(world)
    late = world.run(verbs.enqueue(NewRow("work", key="k", ordered=True)), slow).id
    (second,) = _send(world)
    (job,) = _claim(world)
    assert job.id == second
    slow.commit()
    if way == "retry":
        world.retry(job.lease, delay=0)
    else:
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = %s", second)
        world.run(verbs.sweep_pages())
        _now(world)
    (again,) = _claim(world)
    assert again.id == second
    world.complete(again.lease)
    assert _ids(_claim(world)) == [late]


def test_a_row_that_was_given_back_unstarted_has_not_begun(world: World) -> None:
    slow = user_connection(world)
    late = world.run(verbs.enqueue(NewRow("work", key="k", ordered=True)), slow).id
    _send(world)
    (job,) = _claim(world)
    slow.commit()
    world.release(job.lease)
    assert _ids(_claim(world, run=1)) == [late]


def test_a_row_that_was_redriven_goes_first_unless_another_has_begun(world: World) -> None:
    ids = _send(world, 3)
    world.fail(_claim(world, run=1)[0].lease)
    world.retry(_claim(world, run=1)[0].lease, delay=0)
    world.run(verbs.redrive([ids[0]]))
    (begun,) = _claim(world)
    assert begun.id == ids[1]
    world.complete(begun.lease)
    assert _ids(_claim(world, run=1)) == [ids[0]]


# -- heads are found by time, whatever else waits


def test_a_key_that_falls_due_among_thousands_is_found_by_the_next_claim(world: World) -> None:
    world.run(
        verbs.enqueue_many([NewRow("work", key=f"later:{n}", ordered=True, delay_seconds=HOUR) for n in range(3000)])
    )
    (id,) = _send(world, key="x", delay_seconds=HOUR)
    assert _claim(world) == []
    world.sql("UPDATE live SET available_at = clock_timestamp() WHERE id = %s", id)
    assert _ids(_claim(world)) == [id]


def test_the_board_knows_when_the_next_key_falls_due(world: World) -> None:
    _send(world, key="a", delay_seconds=HOUR)
    _send(world, key="b", delay_seconds=60)
    _claim(world)
    (offer,) = [offer for offer in world.run(questions.board(["default"])) if offer.ordered]
    assert offer.due_seconds == pytest.approx(60, abs=30)


def test_keys_whose_rows_somebody_has_locked_hide_no_other(world: World) -> None:
    keys = [f"locked:{n}" for n in range(40)]
    for key in keys:
        _send(world, key=key)
    (free,) = _send(world, key="free")
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE partition_key <> 'free' FOR UPDATE")
    assert _ids(Beside(lambda: _claim(world, n=1)).result()) == [free]


def test_arrivals_of_a_key_whose_head_is_locked_hide_no_other(world: World) -> None:
    _send(world)
    _claim(world, n=1)
    other = user_connection(world)
    other.execute("SELECT FROM heads FOR UPDATE")
    world.sql("INSERT INTO arrivals (queue, partition_key, seq) SELECT 'default', 'k', 1 FROM generate_series(1, 3000)")
    (free,) = _send(world, key="free")
    assert _ids(Beside(lambda: _claim(world)).result()) == [free]
    other.rollback()
    assert _claim(world) == []
    assert world.count("arrivals") == 0


def test_a_key_without_rows_leaves_nothing_behind(world: World) -> None:
    _send(world, 3)
    world.run(settle.complete(_claim(world)))
    assert _claim(world) == []
    assert (world.count("heads"), world.count("arrivals")) == (0, 0)


@pytest.mark.parametrize("by", ["update", "delete"])
def test_what_is_changed_by_hand_is_found_too(world: World, by: str) -> None:
    head, second = *_send(world, delay_seconds=HOUR), *_send(world)
    assert _claim(world) == []
    if by == "update":
        world.sql("UPDATE live SET available_at = clock_timestamp() WHERE id = %s", head)
    else:
        world.run(operators.delete([head]))
    assert _ids(_claim(world)) == ([head, second] if by == "update" else [second])


# -- the worker


@pytest.mark.one_server
def test_a_worker_does_the_rows_of_a_run_one_after_the_other(world: World) -> None:
    inbox, seen, running = Inbox(), [], []

    @inbox.handler("work")
    async def work(job: Job) -> None:
        running.append(job.id)
        assert len(running) == 1
        seen.append(job.id)
        running.pop()

    ids = [row.id for row in world.run(verbs.enqueue_many([NewRow("work", key="k", ordered=True) for _ in range(500)]))]
    began = time.monotonic()
    with working(world, inbox):
        eventually(lambda: world.count("live") == 0)
    print(f"\n500 rows of one key in {time.monotonic() - began:.2f} s")
    assert seen == ids
    claims = world.sql("SELECT count(DISTINCT fence_token) FROM archive")[0][0]
    assert claims < 400  # far fewer claims than rows


@pytest.mark.one_server
@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_row_that_fails_is_tried_again_before_those_behind_it(world: World, pool: str) -> None:
    inbox, seen = Inbox(), []

    def note(job: Job) -> Any:
        seen.append((job.id, job.attempt))
        return Retry("not yet") if job.id == ids[5] and job.attempt < 3 else None

    async def note_async(job: Job) -> Any:
        return note(job)

    inbox.handler("work", backoff=Fixed(0.01))(note_async if pool == "loop" else note)
    ids = [row.id for row in world.run(verbs.enqueue_many([NewRow("work", key="k", ordered=True) for _ in range(12)]))]
    with working(world, inbox, slots=2):
        eventually(lambda: world.count("live") == 0)
    assert seen == [*((id, 1) for id in ids[:6]), (ids[5], 2), (ids[5], 3), *((id, 1) for id in ids[6:])]


@pytest.mark.one_server
def test_a_drain_gives_the_rest_of_a_run_back_at_no_cost(world: World) -> None:
    inbox, gate, begun = Inbox(), threading.Event(), []

    @inbox.handler("work")
    def work(job: Job) -> None:
        begun.append(job.id)
        if len(begun) > 20:
            gate.wait(90)

    ids = [row.id for row in world.run(verbs.enqueue_many([NewRow("work", key="k", ordered=True) for _ in range(300)]))]
    with working(world, inbox) as hired:
        eventually(lambda: len(begun) == 21)
        hired.worker.stop()
        eventually(lambda: hired.of(JobReleased))
        gate.set()
    assert begun == ids[:21]
    left = world.sql("SELECT status, attempts, count(*) FROM live GROUP BY 1, 2")
    assert left == [("pending", 0, 279)]


@pytest.mark.one_server
@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_fenced_row_behind_a_plain_one_of_its_run_waits_for_its_turn(world: World, pool: str) -> None:
    inbox, seen = Inbox(), []
    world.sql("CREATE TABLE receipts (row_id uuid)")
    receipt = f"INSERT INTO {world.schema}.receipts VALUES (%s)".encode()

    def plain(job: Job) -> None:
        seen.append(job.id)

    def fenced(job: Job) -> None:
        with job.fenced() as tx:
            tx.execute(receipt, [job.id])
            seen.append(job.id)  # in the block: behind it the row is over, and the next one may start

    async def fenced_async(job: Job) -> None:
        async with job.fenced() as tx:
            await tx.execute(receipt, [job.id])
            seen.append(job.id)

    inbox.handler("plain")(plain)
    inbox.handler("fenced")(fenced_async if pool == "loop" else fenced)
    rows = [NewRow("fenced" if n % 3 else "plain", key="k", ordered=True) for n in range(60)]
    ids = [row.id for row in world.run(verbs.enqueue_many(rows))]
    with working(world, inbox) as hired:
        eventually(lambda: world.count("live") == 0)
        assert not hired.of(StaleWriteBlocked)
    assert seen == ids
    assert world.sql("SELECT count(*) FROM attempts WHERE outcome <> 'released'") == [(0,)]
    assert world.count("receipts") == 40
