"""History: what the fleet did lately is counted once, a refused write leaves its mark, and no work waits for either."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from crew import Hired, eventually, working
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import BadSettings
from tenure.events import (
    ChoreFailed,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobReleased,
    JobRetried,
    LeaseLost,
    LeasesRenewed,
    LeasesSwept,
    StaleWriteBlocked,
)
from tenure.model.outcome import DeadLetter, Fail, Outcome, Release, Retry
from tenure.model.ring import Ring, moved
from tenure.model.rows import BUCKETS
from tenure.telemetry.tally import PERIODS_MAX, REFUSALS_A_SECOND_MAX, Tally
from tenure.verbs import fleet, history, questions, settle
from tenure.verbs.history import BOUNDS_SECONDS, LeaseCounts, percentile, ring_changes, step_for
from world import World

COUNTED = ("acquired", "renewed", "expired", "lost", "stale_writes_blocked")
OUTCOMES = ("completed", "retried", "released", "failed", "dead_lettered", "cancelled")
ZEROS = [0] * (len(BOUNDS_SECONDS) + 1)
HISTORY = "tally, refusals, membership"


def slot(back: int = 0, queue: str = "default", **counts: Any) -> dict[str, Any]:
    """What a worker sends for ten seconds of a queue."""
    zero = dict.fromkeys((*COUNTED, *OUTCOMES), 0)
    return {
        "back": back,
        "queue": queue,
        **zero,
        "again": [],
        "generations": [],
        "waits": ZEROS,
        "runs": ZEROS,
    } | counts


def clock(world: World) -> float:
    ((seconds,),) = world.sql("SELECT date_part('epoch', clock_timestamp())")
    return float(seconds)


def middle(world: World, slots_ago: int = 3) -> float:
    """The middle of that slot of the database's clock: a boundary that passes later does not move it."""
    now = clock(world)
    return now - now % 10 + 5 - 10 * slots_ago


def add(world: World, *slots: dict[str, Any], slots_ago: int = 3, at: float | None = None) -> None:
    moment = middle(world, slots_ago) if at is None else at
    world.run(history.tally(slots, age_seconds=clock(world) - moment))


def totals(world: World, *columns: str, queue: str = "%") -> dict[str, int]:
    """The whole tally, column by column."""
    chosen = columns or ("reclaimed", *COUNTED, *OUTCOMES)
    sums = ", ".join(f"COALESCE(sum({column}), 0)::bigint" for column in chosen)
    return dict(zip(chosen, world.sql(f"SELECT {sums} FROM tally WHERE queue LIKE %s", queue)[0], strict=True))


def told(world: World) -> LeaseCounts:
    return world.run(history.lease_counts(3600))


@contextmanager
def locked(world: World, tables: str) -> Iterator[None]:
    """These tables belong to somebody else for a while."""
    other = world.connect()
    with other.transaction():
        other.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def hurried(hired: Hired) -> Hired:
    """For the tally of this worker a second is ten."""
    hired.worker.shared.tally._clock = lambda: time.monotonic() * 10
    return hired


# -- the tally


def test_what_workers_add_to_the_same_ten_seconds_is_summed(world: World) -> None:
    counts: dict[str, Any] = {what: n for n, what in enumerate((*COUNTED, *OUTCOMES), start=1)}
    bounds = list(range(1, 18))
    at = middle(world)
    for _ in range(2):
        add(world, slot(**counts, waits=bounds, runs=bounds[::-1]), at=at)
    assert world.count("tally") == 1
    assert totals(world) == {"reclaimed": 0} | {what: 2 * n for what, n in counts.items()}
    twice = [2 * n for n in bounds]
    assert world.sql("SELECT waits, runs FROM tally") == [(twice, twice[::-1])]


def test_slots_lie_ten_seconds_apart_on_the_grid_of_the_databases_clock(world: World) -> None:
    add(world, slot(0), slot(1), slot(7), slots_ago=2)
    found = [at for (at,) in world.sql("SELECT at FROM tally ORDER BY at DESC")]
    assert [(found[0] - at).total_seconds() for at in found] == [0, 10, 70]
    assert all(at.timestamp() % 10 == 0 for at in found)
    ((age,),) = world.sql("SELECT date_part('epoch', clock_timestamp() - max(at)) FROM tally")
    assert 20 <= age < 40


def test_each_queue_has_counts_of_its_own(world: World) -> None:
    add(world, slot(completed=1), slot(queue="mail", completed=10))
    assert totals(world, "completed", queue="mail") == {"completed": 10}


def test_the_answer_is_the_databases_clock(world: World) -> None:
    seconds = world.run(history.tally([slot()], age_seconds=1))
    ((now,),) = world.sql("SELECT date_part('epoch', clock_timestamp())")
    assert 0 <= now - seconds < 20


def test_only_a_row_whose_last_attempt_expired_was_reclaimed(world: World) -> None:
    for kind in ("expires", "retries", "releases"):
        world.enqueue(kind)
    first = {job.kind: job for job in world.claim("A", 3)}
    world.expire(first["expires"].lease)
    assert len(world.sweep()) == 1
    world.retry(first["retries"].lease)
    world.release(first["releases"].lease)
    world.due()
    second = world.claim("B", 3)
    again, generations = [job.id.hex for job in second], [job.generation for job in second]
    assert generations == [2, 2, 2]
    add(world, slot(acquired=3, again=again, generations=generations))
    assert totals(world, "reclaimed") == {"reclaimed": 1}


def test_a_row_taken_again_after_a_retry_was_reclaimed_once_not_twice(world: World) -> None:
    id = world.enqueue()
    world.expire(world.claim_one("A").lease)
    world.sweep()
    world.due()
    world.retry(world.claim_one("B").lease)
    world.due()
    third = world.claim_one("C")
    add(world, slot(acquired=2, again=[id.hex, id.hex], generations=[2, third.generation]))
    assert totals(world, "reclaimed") == {"reclaimed": 1}


@pytest.mark.parametrize(
    "statement", [history.tally([slot()], age_seconds=1), history.refuse([])], ids=["tally", "refuse"]
)
def test_whoever_writes_history_waits_for_no_lock(world: World, statement: Any) -> None:
    world.sql("SET lock_timeout = '100s'")
    with locked(world, HISTORY):
        began = time.monotonic()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            world.run(statement)
        assert time.monotonic() - began < 50


# -- the charts


def test_a_series_has_every_step_and_says_none_where_nothing_ran(world: World) -> None:
    add(world, slot(completed=7, retried=2, runs=[9, *ZEROS[1:]]), slots_ago=4)
    points = world.run(history.series(seconds=600))
    assert len(points) == 60
    assert {b.at - a.at for a, b in itertools.pairwise(points)} == {timedelta(seconds=10)}
    (full,) = [point for point in points if point.completed]
    assert full[1:7] == (7, 2, 0, 0, 0, 0)
    assert (full.wait_p50, full.wait_p95) == (None, None)
    assert full.run_p50 == pytest.approx(0.0025)
    assert {point[1:] for point in points if point is not full} == {(0, 0, 0, 0, 0, 0, None, None, None, None)}


def test_longer_steps_and_one_queue_hold_the_same_counts(world: World) -> None:
    add(world, *[slot(back, queue, completed=1) for back in range(12) for queue in ("a", "b")], slots_ago=4)
    assert sum(point.completed for point in world.run(history.series(seconds=600, step_seconds=60))) == 24
    assert len(world.run(history.series(seconds=600, step_seconds=60))) == 10
    assert sum(point.completed for point in world.run(history.series(seconds=600, queue="a"))) == 12


def test_a_series_ends_before_the_slots_that_workers_still_add_to(world: World) -> None:
    add(world, slot(completed=1), slots_ago=0)
    assert sum(point.completed for point in world.run(history.series(seconds=600))) == 0
    ((now,),) = world.sql("SELECT clock_timestamp()")
    last = world.run(history.series(seconds=600))[-1].at
    assert timedelta(seconds=16) <= now - last <= timedelta(seconds=46)


def test_the_strip_counts_the_time_it_was_asked_for(world: World) -> None:
    add(world, slot(acquired=1, renewed=2, expired=3, lost=4, stale_writes_blocked=5), slots_ago=3)
    add(world, slot(acquired=100), slots_ago=700)
    assert world.run(history.lease_counts(3600)) == LeaseCounts(1, 2, 3, 0, 4, 5)
    assert world.run(history.lease_counts(10_000)).acquired == 101
    assert world.run(history.lease_counts(10)) == LeaseCounts(0, 0, 0, 0, 0, 0)


def test_percentiles_lie_between_the_bounds_they_were_counted_in() -> None:
    assert percentile(ZEROS, 0.5) is None
    assert percentile([0, 0, 0, 0, 0, 0, 0, 10, *ZEROS[8:]], 0.5) == pytest.approx(0.75)  # of 0.5 to 1 s
    assert percentile([*ZEROS[:-1], 3], 0.95) == BOUNDS_SECONDS[-1]
    assert percentile([50, 0, 0, 0, 50, *ZEROS[5:]], 0.95) == pytest.approx(0.05 + 0.05 * 45 / 50)
    assert percentile([1, *ZEROS[1:]], 1.0) == pytest.approx(0.005)


@pytest.mark.parametrize("seconds", [10, 3600, 3601, 86_400, 14 * 86_400])
def test_a_step_for_any_time_makes_360_points_at_most(seconds: int) -> None:
    step = step_for(seconds)
    history.series(seconds=seconds, step_seconds=step)
    assert seconds / step <= 360


@pytest.mark.parametrize(
    "asked", [{"seconds": 9}, {"seconds": 10**9}, {"step_seconds": 15}, {"step_seconds": 0}, {"step_seconds": 7200}]
)
def test_a_time_that_makes_no_chart_is_refused_by_name(asked: dict[str, Any]) -> None:
    with pytest.raises(BadSettings, match=r"seconds=\d+ must"):
        history.series(**asked)


# -- refused writes


def refusal(row_id: UUID, verb: str = "complete", **other: Any) -> dict[str, Any]:
    """What a worker sends of one refused write."""
    tokens = {"stale_token": 1, "current_token": 2, "reason": "token_mismatch"}
    return {"age_seconds": 0.0, "row_id": str(row_id), "worker": "A", "verb": verb, **tokens} | other


def test_a_refused_write_is_kept_with_the_kind_of_its_row_wherever_that_stands(world: World) -> None:
    pending, done, dead = (world.enqueue(kind) for kind in ("pending", "done", "dead"))
    jobs = {job.id: job for job in world.claim("A", 3)}
    world.complete(jobs[done].lease)
    world.fail(jobs[dead].lease)
    assert world.run(history.refuse([refusal(id) for id in (pending, done, dead, UUID(int=7))])) == 4
    assert [found.kind for found in world.run(history.recent_refusals())] == ["", "dead", "done", "pending"]


def test_the_marks_of_a_row_are_its_own_the_oldest_first(world: World) -> None:
    mine, other = world.enqueue(), world.enqueue()
    world.run(
        history.refuse([refusal(mine, "retry", age_seconds=60.0), refusal(other), refusal(mine, current_token=None)])
    )
    assert [(found.verb, found.current_token) for found in world.run(history.refusals(mine))] == [
        ("retry", 2),
        ("complete", None),
    ]
    assert [found.verb for found in world.run(history.refusals(mine, n=1))] == ["complete"]
    (first, _) = world.run(history.refusals(mine))
    ((age,),) = world.sql("SELECT date_part('epoch', clock_timestamp() - %s::timestamptz)", first.at)
    assert 60 <= age < 80
    assert len(world.run(history.recent_refusals(2))) == 2


# -- who joined, left and died


def memberships(world: World) -> list[tuple[str, str]]:
    """The newest last."""
    return [(each.worker, each.what) for each in world.run(history.membership(100))][::-1]


def test_joining_and_leaving_are_noted_once_each(world: World) -> None:
    world.run(fleet.register("A", {"queues": ["mail", "default"]}))
    world.run(fleet.register("B"))
    world.run(fleet.heartbeat("A"))
    world.run(fleet.drain("A"))
    world.run(fleet.drain("A"))
    world.run(fleet.leave("A"))
    world.run(fleet.leave("B"))
    assert memberships(world) == [("A", "joined"), ("B", "joined"), ("A", "left"), ("B", "left")]
    (*_, first) = world.run(history.membership())
    assert first.queues == ("default", "mail")


def test_an_id_that_is_taken_joins_once(world: World) -> None:
    world.run(fleet.register("A"))
    with pytest.raises(BadSettings):
        world.run(fleet.register("A"))
    assert memberships(world) == [("A", "joined")]


def test_a_death_is_noted_whoever_finds_it_and_only_the_first_time(world: World) -> None:
    world.run(fleet.register("silent"))
    world.run(fleet.register("gone"))
    session = world.connect()
    world.run(fleet.appear("gone"), session)
    session.close()
    world.sql("UPDATE workers SET last_seen_at = clock_timestamp() - interval '1 hour' WHERE id = 'silent'")
    assert world.run(fleet.sweep_workers()) == {"silent": "dead"}
    eventually(lambda: world.run(fleet.notice(grace_seconds=1)) == {"gone": "gone"})
    world.sql("UPDATE workers SET gone_at = gone_at - interval '1 hour' WHERE id = 'gone'")
    assert world.run(fleet.notice(grace_seconds=1)) == {"gone": "dead"}
    world.sql("UPDATE workers SET last_seen_at = clock_timestamp() - interval '2 days'")
    assert set(world.run(fleet.sweep_workers()).values()) == {"forgotten"}
    assert memberships(world)[2:] == [("silent", "died"), ("gone", "died")]


def test_a_worker_that_dies_while_it_drains_had_left_the_ring_before(world: World) -> None:
    world.run(fleet.register("A"))
    world.run(fleet.drain("A"))
    world.run(fleet.sweep_workers(ttl_seconds=0))
    assert memberships(world) == [("A", "joined"), ("A", "left")]


def test_each_change_tells_how_many_buckets_it_moved(world: World) -> None:
    def join(worker: str, *queues: str) -> None:
        world.run(fleet.register(worker, {"queues": queues}))

    rings = [Ring(())]
    for worker in "abc":
        join(worker, "mail")
        rings.append(Ring([*rings[-1].workers, worker]))
    join("elsewhere", "default")
    world.run(fleet.drain("b"))
    rings.append(Ring(["a", "c"]))
    alive, changes = world.run(questions.live_workers()), world.run(history.membership())
    found = [change for change in reversed(ring_changes(alive, changes)) if change.queues == ("mail",)]
    assert [(change.worker, change.what, change.workers) for change in found] == [
        ("a", "joined", 1),
        ("b", "joined", 2),
        ("c", "joined", 3),
        ("b", "left", 2),
    ]
    assert [change.moved for change in found] == [moved(*pair) for pair in itertools.pairwise(rings)]
    assert found[0].moved == found[0].of == BUCKETS
    assert 200 < found[-1].moved < 500  # about a third
    assert [change.needless < 21 for change in found] == [True] * 4  # never more than 2 % of all


def test_a_locked_history_keeps_no_worker_from_joining(world: World) -> None:
    world.sql("SET lock_timeout = '100s'")
    with locked(world, HISTORY):
        began = time.monotonic()
        world.run(fleet.register("A"))
        assert time.monotonic() - began < 50
    assert memberships(world) == []


# -- retention


def test_history_past_retention_is_forgotten_and_the_rest_is_kept(world: World) -> None:
    old, young = world.enqueue(), world.enqueue()
    for slots_ago in (10, 1000):
        add(world, slot(completed=1), slot(queue="b", completed=1), slots_ago=slots_ago)
    world.run(history.refuse([refusal(old, age_seconds=7200.0), refusal(young)]))
    world.run(fleet.register("A"))
    world.sql("UPDATE membership SET at = at - interval '2 hours'")
    world.run(fleet.register("B"))
    forgotten = world.run(verbs.archive(retention_seconds=3600))
    assert [forgotten[f"{what}_forgotten"] for what in ("slots", "refusals", "memberships")] == [2, 1, 1]
    assert world.count("tally") == 2
    assert [found.row_id for found in world.run(history.recent_refusals())] == [young]
    assert memberships(world) == [("B", "joined")]


def test_history_is_forgotten_in_batches_the_oldest_first(world: World) -> None:
    add(world, slot(completed=1), slot(1, completed=2), slots_ago=1000)
    world.run(history.refuse([refusal(UUID(int=n), age_seconds=7200.0 - n) for n in (1, 2)]))
    for worker in "AB":
        world.run(fleet.register(worker))
    world.sql("UPDATE membership SET at = at - interval '2 hours'")
    forgotten = world.run(verbs.archive(retention_seconds=3600, n=1))
    assert [forgotten[f"{what}_forgotten"] for what in ("slots", "refusals", "memberships")] == [1, 1, 1]
    assert totals(world, "completed") == {"completed": 1}
    assert [found.row_id.int for found in world.run(history.recent_refusals())] == [2]
    assert memberships(world) == [("B", "joined")]


def test_history_younger_than_an_hour_is_kept_whatever_retention_is_asked_for(world: World) -> None:
    def forgotten() -> list[int]:
        return [n for (n,) in world.sql("SELECT n FROM keep_history('-10 days', 100000)")]

    add(world, slot(completed=1), slots_ago=10)
    world.run(history.refuse([refusal(world.enqueue())]))
    world.run(fleet.register("A"))
    assert forgotten() == [0, 0, 0]
    for table in ("tally", "refusals", "membership"):
        world.sql(f"UPDATE {table} SET at = at - interval '2 hours'")
    assert forgotten() == [1, 1, 1]


def test_no_more_history_than_so_much_is_forgotten_at_once(world: World) -> None:
    world.sql("INSERT INTO membership (worker, what, at) SELECT 'w', 'joined', 'epoch' FROM generate_series(1, 10001)")
    assert world.sql("SELECT n FROM keep_history(batch => 100000)")[2] == (10_000,)


def test_a_worker_that_may_not_write_history_starts_all_the_same(world: World) -> None:
    world.sql("ALTER TABLE membership ADD CONSTRAINT never CHECK (worker = '')")
    world.run(fleet.register("A"))
    assert world.run(fleet.leave("A"))
    assert world.count("membership") == 0


def test_a_locked_history_does_not_keep_the_archive_from_its_coming_days(world: World) -> None:
    world.sql("SET lock_timeout = '100s'")
    (day,) = world.sql("SELECT 'archive_' || to_char((clock_timestamp() AT TIME ZONE 'UTC')::date + 3, 'YYYYMMDD')")[0]
    world.sql(f"DROP TABLE {day}")
    with locked(world, HISTORY):
        assert world.run(verbs.archive())["partitions_made"] == 1


# -- a worker counts


class Ticking(Tally):
    """A tally whose clock the test owns."""

    def __init__(self) -> None:
        self.at = 1000.0
        super().__init__(lambda: self.at)


def test_a_slot_is_due_when_it_is_over_and_a_refused_write_at_once() -> None:
    counting = Ticking()
    assert not counting.due()
    counting.renewed(1)
    assert not counting.due()
    counting.at += 10
    assert counting.due()
    other = Ticking()
    other(StaleWriteBlocked("A", UUID(int=1), 1, 2, "token_mismatch"))
    assert other.due()


def test_an_hour_without_a_database_is_all_that_is_remembered() -> None:
    counting = Ticking()
    for _ in range(2 * PERIODS_MAX):
        counting.renewed(1)
        counting.at += 10
    assert len(counting._take(everything=True)) == PERIODS_MAX


def test_of_a_storm_of_refused_writes_all_are_counted_and_a_few_a_second_are_kept(world: World) -> None:
    counting = Ticking()
    for _ in range(5):
        for n in range(200):
            counting(StaleWriteBlocked("A", UUID(int=n), 1, 2, "token_mismatch"))
        counting.at += 1
    counting.write(world.conn, world.schema, everything=True)
    assert told(world).stale_writes_blocked == 1000
    assert world.count("refusals") == 5 * REFUSALS_A_SECOND_MAX


def test_what_the_database_does_not_take_is_kept_and_said_once(world: World) -> None:
    counting = Ticking()
    counting.renewed(3)
    counting(StaleWriteBlocked("A", UUID(int=1), 1, 2, "token_mismatch"))
    counting.at += 10
    with locked(world, HISTORY):
        assert "lock timeout" in counting.write(world.conn, world.schema)
        assert counting.write(world.conn, world.schema) == ""
    assert counting.write(world.conn, world.schema) == ""
    assert (told(world).renewed, world.count("refusals")) == (3, 1)
    counting.at += 10
    assert not counting.due()


def test_a_lost_line_loses_no_counts(world: World) -> None:
    counting = Ticking()
    counting.renewed(3)
    counting.at += 10
    conn = world.connect()
    conn.close()
    with pytest.raises(psycopg.OperationalError):
        counting.write(conn, world.schema)
    counting.write(world.conn, world.schema)
    assert told(world).renewed == 3


def test_slots_begin_where_those_of_the_database_do_once_it_has_told_the_time(world: World) -> None:
    counting = Tally()
    counting.renewed(1)
    counting.write(world.conn, world.schema, everything=True)
    ((seconds,),) = world.sql("SELECT date_part('epoch', clock_timestamp())")
    into = (time.monotonic() + counting._phase) % 10
    assert min(abs(into - seconds % 10), 10 - abs(into - seconds % 10)) < 1


# -- real workers


def every_end(inbox: Inbox) -> None:
    """Handlers that end in each way a handler can."""

    @inbox.handler("completes")
    async def completes(job: Job) -> None: ...

    @inbox.handler("fences")
    def fences(job: Job) -> None:
        with job.fenced():
            pass

    @inbox.handler("retries")
    async def retries(job: Job) -> Outcome | None:
        return Retry("later", 0.0) if job.attempt == 1 else None

    @inbox.handler("fails")
    async def fails(job: Job) -> Outcome:
        return Fail("no")

    @inbox.handler("poison")
    async def poison(job: Job) -> Outcome:
        return DeadLetter("never")

    @inbox.handler("releases")
    async def releases(job: Job) -> Outcome | None:
        return Release() if job.token == 1 else None


@pytest.mark.one_server
@pytest.mark.parametrize("housekeeping", [True, False])
def test_the_counts_of_two_workers_are_the_work_they_did(world: World, housekeeping: bool) -> None:
    inbox = Inbox()
    every_end(inbox)
    with (
        working(world, inbox, housekeeping=housekeeping) as one,
        working(world, inbox, housekeeping=housekeeping) as two,
    ):
        hurried(one)
        for kind, n in {"completes": 40, "fences": 10, "retries": 5, "fails": 4, "poison": 3, "releases": 2}.items():
            for _ in range(n):
                world.enqueue(kind)
        eventually(lambda: (world.count("archive"), world.count("dead")) == (57, 7))
        eventually(lambda: world.count("tally"))  # written while it works, not only at the end
        both = [one, two]
        assert [hired.stop() for hired in both] == [0, 0]
    seen = [
        sum(len(hired.of(kind)) for hired in both) for kind in (JobRetried, JobReleased, JobFailed, JobDeadLettered)
    ]
    found = totals(world, "completed", "retried", "released", "failed", "dead_lettered", "cancelled", "acquired")
    assert sum(len(hired.of(JobCompleted)) for hired in both) == found["completed"] == 57
    assert found == {
        "completed": 57,
        "retried": 5,
        "released": 2,
        "failed": 4,
        "dead_lettered": 3,
        "cancelled": 0,
        "acquired": 71,
    }
    assert seen == [5 + 2 + 4 + 3, 2, 4, 3]
    assert sums_of(world, "waits") == 71
    assert sums_of(world, "runs") == 71


@pytest.mark.one_server
def test_rows_are_counted_also_when_nobody_asks_for_the_events_of_each_job(world: World) -> None:
    inbox = Inbox()
    every_end(inbox)
    with working(world, inbox) as hired:
        hired.worker.bus.unsubscribe(hired.events.append)
        assert not hired.worker.bus.each_job
        for kind in ("completes", "fences", "retries"):
            world.enqueue(kind)
        eventually(lambda: world.count("archive") == 3)
        assert hired.stop() == 0
    assert totals(world, "acquired", "completed", "retried") == {"acquired": 4, "completed": 3, "retried": 1}


def sums_of(world: World, histogram: str) -> int:
    ((n,),) = world.sql(f"SELECT sum(n)::int FROM tally, unnest({histogram}) AS n")
    return int(n)


@pytest.mark.one_server
def test_an_idle_worker_writes_nothing(world: World) -> None:
    inbox = Inbox()
    every_end(inbox)
    with working(world, inbox) as hired:
        hurried(hired)
        written = watched(hired)
        rounds = hired.worker.shared.tally._clock
        until = rounds() + 40
        eventually(lambda: rounds() > until)  # four slots
        assert written == []
        assert hired.stop() == 0
    assert world.count("tally") == 0


def watched(hired: Hired) -> list[int]:
    """How many slots each statement of this worker's tally holds."""
    counting, written = hired.worker.shared.tally, []
    write = counting._write_periods

    def note(conn: Any, schema: str | None, taken: Any) -> None:
        written.append(len(taken))
        write(conn, schema, taken)

    counting._write_periods = note  # type: ignore[method-assign]
    return written


@pytest.mark.one_server
def test_a_busy_worker_writes_one_statement_a_slot_at_most(world: World) -> None:
    inbox = Inbox()
    every_end(inbox)
    with working(world, inbox) as hired:
        hurried(hired)
        written = watched(hired)
        slots: set[int] = set()

        def keep_busy() -> bool:
            world.enqueue("completes")
            slots.add(hired.worker.shared.tally._now())
            return len(slots) > 4

        eventually(keep_busy)
        assert 1 <= len(written) <= len(slots)


def overtaken(world: World, id: UUID) -> None:
    """The row's lease runs out, and somebody else takes it over and completes it."""
    other = world.connect()
    other.execute("UPDATE live SET lease_expires_at = clock_timestamp() - interval '1 minute' WHERE id = %s", [id])
    assert [swept.id for swept in world.run(verbs.sweep_pages(), other)] == [id]
    other.execute("UPDATE live SET available_at = clock_timestamp() - interval '1 hour' WHERE id = %s", [id])
    (job,) = world.run(verbs.claim("thief", 1), other)
    assert world.run(settle.complete([job]), other)[0].ok


@pytest.mark.one_server
@pytest.mark.parametrize("fenced", [False, True])
def test_a_stale_write_leaves_its_mark_on_the_row_and_in_the_strip(world: World, fenced: bool) -> None:
    inbox = Inbox()
    entered, go_on = threading.Event(), threading.Event()

    @inbox.handler("overtaken")
    def late(job: Job) -> None:
        entered.set()
        go_on.wait(90)
        if fenced:
            with job.fenced():
                pass

    with working(world, inbox, housekeeping=False) as hired:
        id = world.enqueue("overtaken")
        assert entered.wait(90)
        hired.worker.claimer.draining = True  # the row is for the other one
        overtaken(world, id)
        go_on.set()
        (blocked,) = hired.saw(StaleWriteBlocked)
        (mark,) = eventually(lambda: world.run(history.refusals(id)))  # soon, not at the end of a slot
        worker = hired.worker.id
        assert hired.stop() == 0
    assert (mark.row_id, mark.worker, mark.verb, mark.kind) == (id, worker, blocked.verb, "overtaken")
    assert (mark.stale_token, mark.current_token, mark.reason) == (1, blocked.current_token, blocked.reason)
    assert world.run(history.recent_refusals()) == [mark]
    assert told(world).stale_writes_blocked == 1
    assert told(world).acquired == 1


@pytest.mark.one_server
def test_a_row_of_a_dead_worker_is_expired_and_reclaimed_in_the_strip(world: World) -> None:
    inbox = Inbox()
    every_end(inbox)
    id = world.enqueue("completes")
    world.expire(world.claim_one("dead").lease)
    with working(world, inbox) as hired:
        hired.saw(LeasesSwept)
        world.due()
        eventually(lambda: world.status(id) == "completed")
        assert hired.stop() == 0
    assert told(world)[:4] == (1, 0, 1, 1)


@pytest.mark.one_server
@pytest.mark.parametrize(("tables", "kept"), [(HISTORY, True), ("live", False)])
def test_leases_are_renewed_and_rows_go_round_while_history_is_locked(world: World, tables: str, kept: bool) -> None:
    """With the hot table locked in its place they are not: the test would notice."""
    inbox = Inbox()
    every_end(inbox)
    go_on = threading.Event()

    @inbox.handler("long")
    def long(job: Job) -> None:
        go_on.wait(90)

    with working(world, inbox, lease_seconds=2.0, drain_seconds=1.0) as hired:
        hurried(hired)
        world.enqueue("long")
        hired.saw(LeasesRenewed, 1)
        with locked(world, tables):
            before = len(hired.of(LeasesRenewed))
            if kept:
                hired.saw(ChoreFailed)  # the writer did run into the lock
                hired.saw(LeasesRenewed, before + 4)
                assert not hired.of(LeaseLost)
                world.enqueue("completes")
                hired.saw(JobCompleted)
                failed = {event.chore for event in hired.of(ChoreFailed)}
                assert "tally" in failed <= {"tally", "backlog"}  # this one every ten seconds
            else:
                hired.saw(LeaseLost)
        go_on.set()
        if kept:
            hired.saw(JobCompleted, 2)
            eventually(lambda: totals(world, "completed") == {"completed": 2})
            assert not hired.of(LeaseLost)
