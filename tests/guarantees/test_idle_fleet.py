"""An idle fleet costs the database almost nothing, and hears of a row at once all the same."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psycopg
import pytest

from crew import eventually, working
from patience import soon
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import ExecutionStarted
from tenure.verbs import questions
from world import World

pytestmark = pytest.mark.one_server

WORKERS = 20
SECONDS = 6.0
TRANSACTIONS_MAX = 1.2  # of one worker in one second; `make bench ONLY=idle` counts those of one and of eight


def test_twenty_idle_workers_cost_almost_nothing(world: World) -> None:
    inbox = Inbox()
    watcher = world.connect()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    with contextlib.ExitStack() as shift:
        crew = [shift.enter_context(working(world, inbox, slots=2)) for _ in range(WORKERS)]
        eventually(lambda: all(len(hired.worker.lease_keeper.ring.workers) == WORKERS for hired in crew))
        eventually(lambda: world.sql("SELECT count(*) FROM workers WHERE waiting") == [(WORKERS,)])
        # What they did to get there is counted when they report it, up to ten seconds later.
        costs = eventually(lambda: found if (found := look(world, watcher))[0] < TRANSACTIONS_MAX else None)
        assert costs is not None
        each, share = costs
        sent = time.monotonic()
        id = world.enqueue("work")
        eventually(lambda: any(event.job_id == id for hired in crew for event in hired.of(ExecutionStarted)))
        woken = time.monotonic() - sent
        eventually(lambda: world.run(questions.depth()) == [])
        for hired in crew:  # all at once, then one after the other
            hired.worker.stop()
    print(f"\n{WORKERS} idle workers: {each:.2f} transactions/s each, {share:.1%} of one core, row in {woken:.3f} s")
    assert share < 0.5
    assert woken < soon(2.0)


def look(world: World, watcher: psycopg.Connection[tuple[int]]) -> tuple[float, float]:
    """What each worker asks in a second, and what all of them cost the server of one core."""
    began, before, cpu = time.monotonic(), transactions(watcher), cpu_seconds(world)
    eventually(lambda: time.monotonic() - began > SECONDS, seconds=SECONDS + 20)
    took = time.monotonic() - began
    return (transactions(watcher) - before) / took / WORKERS, (cpu_seconds(world) - cpu) / took


def transactions(conn: psycopg.Connection[tuple[int]]) -> int:
    """Transactions committed in this database so far, once all sessions have reported theirs."""
    conn.execute("SELECT pg_stat_clear_snapshot()")
    (found,) = conn.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").fetchall()
    return int(found[0])


def cpu_seconds(world: World) -> float:
    """What the sessions of this database have used of the processor, where they run on this machine."""
    ticks = 0
    for (pid,) in world.sql("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tenure %'"):
        with contextlib.suppress(OSError):
            used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(used[11]) + int(used[12])
    return ticks / os.sysconf("SC_CLK_TCK")
