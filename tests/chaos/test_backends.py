"""How many connections a worker opens: three, and one for each handler inside fenced(); fewer when nothing runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from apps import crunch
from chaos.own_server import own_server
from crew import Hired, eventually, working
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import JobCompleted
from tenure.postgres.handler_pool import HandlerPool
from world import World, new_world

pytestmark = pytest.mark.one_server

SLOTS = 3
TENURES = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name LIKE 'tenure%' AND application_name <> 'tenure doubt'"  # only while something is silent
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_server(tmp_path / "pg") as server, new_world(server.url) as mine:
        mine.sql("CREATE TABLE receipts (row_id uuid)")
        yield mine


class Counter:
    """Counts the backends of workers all the time, on a session of its own."""

    def __init__(self, url: str) -> None:
        self.most, self._ended = 0, threading.Event()
        self._conn = psycopg.connect(url, autocommit=True, application_name="counter")
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def now(self) -> int:
        """How many there are."""
        (found,) = self._conn.execute(TENURES).fetchone() or (0,)
        return int(found)

    def end(self) -> int:
        """The most it has seen."""
        self._ended.set()
        self._thread.join()
        return self.most

    def _count(self) -> None:
        # A backend whose client has left is there for a moment longer: what counts is there five times in a row.
        last: deque[int] = deque([0] * 5, maxlen=5)
        while not self._ended.wait(0.02):
            last.append(self.now())
            self.most = max(self.most, min(last))


def mixed(world: World) -> Inbox:
    inbox = Inbox()
    insert = f'INSERT INTO "{world.schema}".receipts VALUES (%s)'

    @inbox.handler("blocks")
    def blocks(job: Job) -> None:
        with job.fenced() as tx:
            tx.execute(insert.encode(), [job.id])

    @inbox.handler("awaits")
    async def awaits(job: Job) -> None:
        async with job.fenced() as tx:
            await tx.execute(insert.encode(), [job.id])

    inbox.handlers["receipt"] = crunch.inbox.handlers["receipt"]
    return inbox


def test_a_worker_never_opens_more_than_three_and_one_for_each_slot(world: World, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    table = {"folder": str(tmp_path), "table": f"{world.schema}.receipts"}
    with working(world, mixed(world), slots=SLOTS) as hired:
        counter = Counter(world.url)
        ids: list[UUID] = []
        for n in (1, 2):  # the second round finds what the first has left open
            for kind in ("blocks", "awaits", "receipt"):
                ids += [world.enqueue(kind, table if kind == "receipt" else {}) for _ in range(2 * SLOTS)]
                hired.saw(JobCompleted, len(ids))
            assert len(ids) == n * 6 * SLOTS
        assert counter.end() <= 3 + SLOTS
        eventually(lambda: counter.now() == 3)
    assert world.count("receipts") == len(ids)


def test_four_workers_of_one_process_share_nothing_and_stay_within_four_times_that(world: World) -> None:
    inbox = mixed(world)
    with working(world, inbox, slots=SLOTS) as one:
        crew = [one, *(Hired(inbox, one.worker.terms).ready() for _ in range(3))]
        try:
            counter = Counter(world.url)
            ids = [world.enqueue(kind) for kind in ("blocks", "awaits") * 60]
            eventually(lambda: sum(len(each.of(JobCompleted)) for each in crew) == len(ids))
            assert counter.end() <= 4 * (3 + SLOTS)
        finally:
            for each in crew[1:]:
                each.stop()


def test_handlers_that_ask_for_more_than_there_are_wait_and_are_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.postgres.handler_pool.WAIT_SECONDS_MAX", 0.1)
    pool = HandlerPool(world.url, 1)
    with pool.blocking(), pytest.raises(psycopg.OperationalError, match="in use"), pool.blocking():
        pass
    with pool.blocking() as again:
        again.execute("SELECT 1")
