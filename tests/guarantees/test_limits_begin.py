"""A limit that is set while rows run counts them, whatever limits there were when they started."""

from __future__ import annotations

from typing import Any

import pytest

from guarantees.facts import Beside, user_connection
from tenure import verbs
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import queues, settle
from world import World

MAIL = "mail"
BEFORE: dict[str, dict[str, Any]] = {
    "no limit": {},
    "a rate": {"rate_per_second": 1000, "burst": 1000},
    "rows in all": {"max_running": 100},
    "rows of a key": {"max_per_key": 100},
    "both, taken away": {"max_running": 100, "max_per_key": 100},
}


def _send(world: World, n: int, key: str | None = None, **options: Any) -> None:
    world.run(verbs.enqueue_many([NewRow("k", **{"queue": MAIL, **options}, key=key) for _ in range(n)]))


def _claim(world: World, n: int = 10, queue: str = MAIL) -> list[Claimed]:
    return world.run(queues.claim_limited("A", n, queue))


def _run(world: World, n: int, key: str | None, before: str) -> list[Claimed]:
    """So many rows that run since before the limit."""
    _send(world, n, key)
    if BEFORE[before]:
        world.run(queues.limit(MAIL, **BEFORE[before]))
    running = _claim(world, n) if BEFORE[before] else world.claim("A", n, lanes=[Lane(MAIL)])
    assert len(running) == n
    if before == "both, taken away":
        world.run(queues.limit(MAIL, clear=True))
    return running


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("key", [None, "a"])
def test_rows_that_run_count_in_all(world: World, before: str, key: str | None) -> None:
    running = _run(world, 3, key, before)
    world.run(queues.limit(MAIL, max_running=4))
    _send(world, 9)
    assert len(_claim(world)) == 1
    world.run(settle.complete(running[:2]))
    assert len(_claim(world)) == 2
    assert _claim(world) == []


@pytest.mark.parametrize("before", BEFORE)
def test_rows_that_run_count_for_their_key(world: World, before: str) -> None:
    running = _run(world, 2, "a", before)
    world.run(queues.limit(MAIL, max_per_key=3))
    _send(world, 9, "a")
    _send(world, 9, "b")
    _send(world, 9)
    assert sorted(str(job.partition_key)[:1] for job in _claim(world, 100) if job.partition_key in "ab") == list("abbb")
    world.run(settle.complete(running))
    assert [job.partition_key for job in _claim(world)] == ["a", "a"]


def test_more_than_the_limit_may_run_and_then_none_starts(world: World) -> None:
    running = _run(world, 5, "a", "no limit")
    world.run(queues.limit(MAIL, max_running=2, max_per_key=1))
    _send(world, 9, "a")
    for job in running:
        assert _claim(world) == []
        world.complete(job.lease)
    assert len(_claim(world)) == 1
    assert world.count("permits") == 2


def test_an_ordered_row_that_runs_counts(world: World) -> None:
    _send(world, 2, "a", ordered=True)
    (job,) = world.claim_ordered("A", queues=[MAIL])
    world.run(queues.limit(MAIL, max_running=1))
    _send(world, 1)
    assert _claim(world) == []
    world.complete(job.lease)
    assert len(_claim(world)) == 1


def test_rows_of_other_queues_and_rows_that_wait_do_not_count(world: World) -> None:
    _send(world, 5, "a", queue="web")
    world.claim("A", 3, lanes=[Lane("web")])
    _send(world, 1)
    world.retry(world.claim("A", 1, lanes=[Lane(MAIL)])[0].lease, delay=0)
    world.run(queues.limit(MAIL, max_running=1, max_per_key=1))
    assert len(_claim(world)) == 1
    assert world.sql("SELECT queue FROM permits") == [(MAIL,)]


def test_a_row_that_ends_at_this_moment_is_not_waited_for(world: World) -> None:
    (job,) = _run(world, 1, "a", "no limit")
    other = user_connection(world)
    world.run(settle.complete([job]), other)
    world.run(queues.limit(MAIL, max_running=1))
    _send(world, 1)
    assert len(Beside(lambda: _claim(world)).result()) == 1
    other.commit()
    assert world.count("permits") == 1


def test_a_row_whose_claim_is_not_committed_yet_counts_when_it_is(world: World) -> None:
    _send(world, 1)
    other = user_connection(world)
    (job,) = world.run(verbs.claim("A", 1, lanes=[Lane(MAIL)]), other)
    world.run(queues.limit(MAIL, max_running=1))
    assert _claim(world) == []
    other.commit()
    world.sql("UPDATE limits_begun SET again_at = clock_timestamp()")
    _send(world, 1)
    assert _claim(world) == []
    world.complete(job.lease)
    assert len(_claim(world)) == 1


def test_a_session_that_keeps_a_lock_is_no_open_transaction(world: World) -> None:
    """Rows are read again while a transaction from before is open: such a session would have them read for ever."""
    other = world.connect()
    other.execute("SELECT pg_advisory_lock(7)")
    locks = "SELECT virtualtransaction, open_transactions() FROM pg_locks WHERE pid = %s AND locktype = 'advisory'"
    ((name, found),) = world.sql(locks, other.info.backend_pid)
    assert name not in found
    with other.transaction():
        ((name, found),) = world.sql(locks, other.info.backend_pid)
        assert name in found


def test_a_limit_that_is_only_moved_reads_no_rows(world: World) -> None:
    world.run(queues.limit(MAIL, max_running=5, max_per_key=5))
    assert _claim(world) == []
    world.run(queues.limit(MAIL, max_running=6))
    assert world.count("limits_begun") == 1
    world.run(queues.limit(MAIL, max_per_key=6))
    assert world.count("limits_begun") == 0
