"""Large batches are completed on a connection of their own: what the claimer promises of them holds there as well."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from crew import Hired, eventually, working
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import DatabaseUnreachable, JobCompleted, StaleWriteBlocked
from tenure.postgres.runner import run
from tenure.worker import completer
from tenure.worker.completer import LARGE
from world import World

MANY = 2 * LARGE

pytestmark = pytest.mark.one_server


def test_a_large_round_is_completed_by_the_completer_and_a_small_one_in_one_trip_with_the_claim(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch, working(world, _inbox(), slots=LARGE - 1) as hired:
        patch.setattr("tenure.worker.ahead.WORK_SECONDS", 0.0)  # no row waits ahead
        _send(world, MANY)
        hired.saw(JobCompleted, MANY)
        assert hired.worker.claimer.completer.ident is None, "it takes no connection that is not needed"
    with working(world, _inbox(), slots=MANY) as hired:
        _completing(world, hired)
        before = len(hired.of(JobCompleted))
        _send(world, 5 * MANY)
        hired.saw(JobCompleted, before + 5 * MANY)
        assert len(_pids(world, hired)) == 1
        assert hired.stop() == 0
    assert world.sql("SELECT count(*), max(attempts) FROM live")[0][0] == 0
    assert world.sql("SELECT count(DISTINCT id) = count(*), max(attempts) FROM archive") == [(True, 1)]


def test_a_slot_is_free_while_its_row_is_being_completed_and_its_lease_is_kept(world: World) -> None:
    with working(world, _inbox(), slots=MANY) as hired:
        _completing(world, hired)
        with _one_locked(world, hired) as id:
            eventually(lambda: hired.worker.claimer.completer.busy)
            eventually(lambda: hired.worker.held.slots_used == 0)
            assert id in {attempt.job.id for attempt in hired.worker.held.leased()}
        eventually(lambda: world.count("live") == 0)


def test_one_locked_row_keeps_back_no_other_one_of_its_batch(world: World) -> None:
    with working(world, _inbox(), slots=MANY) as hired:
        _completing(world, hired)
        with _one_locked(world, hired) as id:
            eventually(lambda: world.count("live") == 1)
            assert world.status(id) == "processing"
        eventually(lambda: world.status(id) == "completed")
        assert not hired.of(StaleWriteBlocked)


def test_a_row_that_is_no_longer_ours_is_refused_alone(world: World) -> None:
    with working(world, _inbox(), slots=MANY) as hired:
        _completing(world, hired)
        with _held(world, hired) as (ids, go):
            world.sql("UPDATE live SET lease_generation = lease_generation + 1 WHERE id = %s", ids[0])
            done = len(hired.of(JobCompleted))
            go()
            assert [each.job_id for each in hired.saw(StaleWriteBlocked)] == [ids[0]]
            assert len(hired.saw(JobCompleted, done + MANY - 1)) == done + MANY - 1
        assert [world.status(id) for id in ids[:2]] == ["processing", "completed"]


def test_a_reply_that_was_lost_is_asked_for_and_counted_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[str] = []

    def reply_lost(conn: Any, statement: Any) -> Any:
        answer = run(conn, statement)
        if statement.name == "complete" and not lost:
            lost.append("reply")
            raise psycopg.OperationalError("the reply is lost")
        return answer

    with working(world, _inbox(), slots=MANY) as hired:
        _completing(world, hired)
        before = len(hired.of(JobCompleted))
        monkeypatch.setattr(completer, "run", reply_lost)
        with _held(world, hired) as (ids, go):
            go()
            eventually(lambda: lost)
            hired.saw(JobCompleted, before + MANY)
        eventually(lambda: not hired.worker.held.all())
        assert [each.who for each in hired.of(DatabaseUnreachable)] == ["completer"]
        told = [each.job_id for each in hired.of(JobCompleted) if each.job_id in ids]
        assert sorted(told) == sorted(ids), "each is told once"
        assert not hired.of(StaleWriteBlocked)


def test_connections_that_are_killed_again_and_again_cost_no_job(world: World) -> None:
    n = 20 * MANY
    with working(world, _inbox(), slots=MANY) as hired:
        _completing(world, hired)
        before = len(hired.of(JobCompleted))
        _send(world, n)
        for name in ("completer", "claimer", "completer"):
            done = len(hired.of(JobCompleted))
            _kill(world, hired, name)
            hired.saw(JobCompleted, min(done + MANY, before + n))
        eventually(lambda: world.count("live") == 0)
        hired.saw(JobCompleted, before + n)
        assert hired.stop() == 0
    assert world.sql("SELECT count(*) - count(DISTINCT id) FROM archive") == [(0,)]


def test_when_the_claimer_connects_again_so_does_the_completer(world: World) -> None:
    with working(world, _inbox(), slots=MANY) as hired:
        _completing(world, hired)
        [(first,)] = _pids(world, hired)
        _kill(world, hired, "claimer")
        eventually(lambda: [pid for (pid,) in _pids(world, hired) if pid != first])
        _completing(world, hired)


def test_a_drain_waits_for_the_batch_that_the_completer_has(world: World) -> None:
    with working(world, _inbox(), slots=MANY) as hired:
        _completing(world, hired)
        with _one_locked(world, hired):
            eventually(lambda: hired.worker.claimer.completer.busy)
            hired.worker.stop()
            eventually(lambda: hired.worker.draining)
        assert hired.gone() == 0
    assert world.count("live") == 0


def _inbox() -> Inbox:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    @inbox.handler("waits")
    async def waits(job: Job) -> None:
        begun.release()
        await go.wait()

    begun, go = threading.Semaphore(0), asyncio.Event()
    inbox.begun, inbox.go = begun, go  # type: ignore[attr-defined]
    return inbox


def _send(world: World, n: int, kind: str = "work") -> None:
    world.sql("SELECT enqueue(%s, '{}') FROM generate_series(1, %s)", kind, n)


def _name(hired: Hired, who: str = "completer") -> str:
    return f"tenure {who} {hired.worker.id}"[:63]


def _pids(world: World, hired: Hired) -> list[tuple[int]]:
    return world.sql("SELECT pid FROM pg_stat_activity WHERE application_name = %s", _name(hired))


def _kill(world: World, hired: Hired, who: str) -> None:
    world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", _name(hired, who))


def _completing(world: World, hired: Hired) -> None:
    """Work until the completer takes batches."""

    def ready() -> bool:
        _send(world, MANY)
        eventually(lambda: world.count("live") == 0)
        eventually(lambda: not hired.worker.held.all() and not hired.worker.claimer.unsettled)  # all is told
        return hired.worker.claimer.completer._ready

    eventually(ready)


@contextmanager
def _held(world: World, hired: Hired) -> Iterator[tuple[list[Any], Any]]:
    """Many rows whose handlers have begun; they return all at once."""
    inbox: Any = hired.worker.inbox
    loop: Any = hired.worker._loop
    _send(world, MANY, "waits")
    for _ in range(MANY):
        assert inbox.begun.acquire(timeout=60)
    try:
        ids = [id for (id,) in world.sql("SELECT id FROM live ORDER BY id")]
        yield ids, partial(loop.call_soon_threadsafe, inbox.go.set)
    finally:
        loop.call_soon_threadsafe(inbox.go.set)


@contextmanager
def _one_locked(world: World, hired: Hired) -> Iterator[Any]:
    """The same, returned, while somebody has a lock on one of them."""
    with _held(world, hired) as (ids, go), world.connect() as other, other.transaction():
        other.execute(f"SELECT 1 FROM {world.schema}.live WHERE id = %s FOR UPDATE".encode(), [ids[5]])
        go()
        yield ids[5]
