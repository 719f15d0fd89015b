"""Long runs: what a claim takes is shared among the keys that have rows, and what ends together is settled together."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from crew import eventually, working
from guarantees.facts import Beside, user_connection
from plans import Plans
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.model.rows import NewRow
from tenure.verbs import settle
from tenure.worker.claim_rule import RUN_MAX
from tenure.worker.news import News
from world import World


def _send(world: World, n: int, key: str = "k", **options: Any) -> list[UUID]:
    rows = [NewRow("work", key=key, ordered=True, **options) for _ in range(n)]
    return [row.id for row in world.run(verbs.enqueue_many(rows))]


# -- a claim shares its rows among the keys that it finds


def test_a_key_that_is_alone_has_all_the_rows_of_a_claim(world: World) -> None:
    ids = _send(world, 9)
    assert [job.id for job in world.claim_ordered("A", 200, run_length=8, most=8)] == ids[:8]


def test_keys_share_the_rows_of_a_claim_alike(world: World) -> None:
    for key in ("a", "b", "c"):
        _send(world, 9, key)
    taken = Counter(job.partition_key for job in world.claim_ordered("A", 200, run_length=8, most=12))
    assert taken == {"a": 4, "b": 4, "c": 4}


def test_only_keys_that_are_taken_share_the_rows_of_a_claim(world: World) -> None:
    for key in ("a", "b", "c"):
        _send(world, 9, key)
    taken = Counter(job.partition_key for job in world.claim_ordered("A", 2, run_length=8, most=8))
    assert sorted(taken.values()) == [4, 4]


def test_each_key_that_is_found_gives_a_row_however_few_a_claim_may_take(world: World) -> None:
    for key in ("a", "b", "c"):
        _send(world, 2, key)
    taken = Counter(job.partition_key for job in world.claim_ordered("A", 200, run_length=8, most=2))
    assert taken == {"a": 1, "b": 1, "c": 1}


# -- heads that are made


@pytest.mark.parametrize("other", ["a", "b"])
def test_a_key_of_two_queues_has_a_head_in_each(world: World, other: str) -> None:
    _send(world, 1, queue="a")
    world.claim_ordered("A", queues=["a"])
    (second,) = _send(world, 1, queue=other)
    assert [job.id for job in world.claim_ordered("B", queues=["a", "b"])] == ([second] if other == "b" else [])


@pytest.mark.parametrize(
    ("queue", "key", "hold", "found"),
    [("a", "k", True, 0), ("b", "k", True, 1), ("a", "l", True, 1), ("a", "k", False, 1)],
)
def test_a_key_that_waits_for_an_operator_waits_with_a_new_head_too(
    world: World, queue: str, key: str, hold: bool, found: int
) -> None:
    _send(world, 1, hold=hold, queue="a")
    world.fail(world.claim_ordered("A", queues=["a"])[0].lease)
    assert world.claim_ordered("A", queues=["a"]) == []
    assert world.count("heads") == 0
    _send(world, 1, key, queue=queue)
    assert len(world.claim_ordered("A", queues=["a", "b"])) == found


def test_arrivals_of_a_key_without_rows_and_without_a_head_are_forgotten(world: World) -> None:
    world.sql("INSERT INTO arrivals (queue, partition_key, seq) VALUES ('default', 'nothing', 1)")
    (id,) = _send(world, 1)
    assert [job.id for job in world.claim_ordered("A")] == [id]
    assert (world.count("heads"), world.count("arrivals")) == (1, 0)


def test_arrivals_of_a_key_whose_rows_are_gone_wait_for_its_locked_head(world: World) -> None:
    _send(world, 1)
    world.run(settle.complete(world.claim_ordered("A")))
    other = user_connection(world)
    other.execute("SELECT FROM heads FOR UPDATE")
    (free,) = _send(world, 1, "free")
    assert [job.id for job in Beside(lambda: world.claim_ordered("A")).result()] == [free]
    assert world.count("arrivals") == 1
    other.rollback()
    assert world.claim_ordered("A") == []
    assert world.sql("SELECT partition_key FROM heads") == [("free",)]


def test_a_key_that_is_over_does_not_count_for_one_whose_head_is_locked(world: World) -> None:
    """It was counted twice, with its head and among keys without one, and the arrival of the other was lost."""
    _send(world, 1, "over")
    _send(world, 1, "locked")
    world.run(settle.complete(world.claim_ordered("A")))
    other = user_connection(world)
    other.execute("SELECT FROM heads WHERE partition_key = 'locked' FOR UPDATE")
    (id,) = _send(world, 1, "locked")
    assert Beside(lambda: world.claim_ordered("A")).result() == []
    other.rollback()
    assert [job.id for job in world.claim_ordered("A")] == [id]


def test_arrivals_of_a_key_whose_head_another_claim_makes_wait_for_it(world: World) -> None:
    (id,) = _send(world, 1)
    other = user_connection(world)
    other.execute(
        "INSERT INTO heads (queue, partition_key, bucket, from_seq, due_at)"
        " VALUES ('default', 'k', bucket('k'), 1000000, 'infinity')"
    )
    lock = "SELECT pg_advisory_xact_lock('heads'::regclass::oid::int, hashtext('default') # hashtext('k') & 255)"
    other.execute(lock)
    assert Beside(lambda: world.claim_ordered("A")).result() == []
    other.commit()
    assert [job.id for job in world.claim_ordered("A")] == [id]


# -- rows are completed in order at a cost that follows their number


@pytest.mark.parametrize("part", ["first", "all"])
def test_completing_rows_of_many_runs_looks_at_each_of_them_once(world: World, part: str) -> None:
    """Each row that ends was compared with every key that has rows left: 400 rows of 200 keys took 80,000 looks."""
    for key in range(60):
        _send(world, 4, f"k{key}")
    jobs = world.claim_ordered("A", 60, run_length=4)
    ending = [job for n, job in enumerate(jobs) if part == "all" or n % 4 < 2]
    plans = Plans(world)
    plans.of(settle.complete(ending))
    assert plans.looks < 40 * len(ending)


def test_a_claim_that_was_planned_without_keys_finds_each_key_of_many_by_itself(world: World) -> None:
    """Planned for an empty table, looks at 25 keys were compared with all heads: 15 ms instead of 3 at 1,000 keys."""
    plans = Plans(world)
    for table in ("heads", "arrivals"):
        world.sql(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        world.sql(f"VACUUM ANALYZE {table}")  # seen empty
    for _ in range(8):
        world.enqueue(key="k", ordered=True)
        jobs = world.run(verbs.claim_ordered("A", 25), plans.conn)
        world.run(settle.complete(jobs), plans.conn)
    world.run(verbs.enqueue_many([NewRow("work", key=f"k{n}", ordered=True) for n in range(800)]))
    for _ in range(2):
        jobs = world.run(verbs.claim_ordered("A", 25), plans.conn)
        world.run(settle.release(jobs), plans.conn)
    plans.of(verbs.claim_ordered("A", 25))
    assert plans.looks < 5_000


# -- rows that end together are settled together


@pytest.mark.one_server
def test_rows_of_a_run_that_end_right_after_each_other_are_completed_together(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work() -> None:
        pass

    _send(world, 20 * RUN_MAX)
    with working(world, inbox, slots=200):
        eventually(lambda: world.count("live") == 0)
    completed = world.sql("SELECT count(DISTINCT xmin::text) FROM archive")[0][0]
    assert completed < 20 * RUN_MAX / 10
    (longest,) = world.sql("SELECT max(n) FROM (SELECT count(*) AS n FROM archive GROUP BY fence_token) AS claims")[0]
    assert longest == RUN_MAX


@pytest.mark.one_server
@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_row_is_completed_while_the_next_of_its_run_goes_on(world: World, pool: str) -> None:
    inbox, gate = Inbox(), threading.Event()
    ids: list[UUID] = []

    def blocks(job: Job) -> None:
        if job.id == ids[-1]:
            gate.wait(90)

    async def blocks_async(job: Job) -> None:
        await asyncio.to_thread(blocks, job)

    inbox.handler("work")(blocks_async if pool == "loop" else blocks)
    ids += _send(world, 5)
    with working(world, inbox):
        eventually(lambda: world.count("archive") == 4)
        assert world.status(ids[-1]) == "processing"
        gate.set()
        eventually(lambda: world.count("archive") == 5)


def test_the_end_of_a_row_in_a_run_is_never_told_after_that_of_a_later_one() -> None:
    news = News()
    told: list[Any] = []
    rows: list[Any] = [object() for _ in range(1000)]

    def end() -> None:
        for n, row in enumerate(rows):
            news.ended(row, goes_on=n % 100 != 99)

    def all_told() -> bool:
        news.take(0.001, told.extend)
        return len(told) == len(rows)

    thread = threading.Thread(target=end)
    thread.start()
    eventually(all_told)
    thread.join()
    assert news.empty
    for run in (rows[n : n + 100] for n in range(0, 1000, 100)):
        assert [row for row in told if row in run] == run
