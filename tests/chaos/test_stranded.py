"""Stranded connections: the peer acknowledges and never answers, while new connections work. Nothing waits for ever."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from apps import crunch
from crew import eventually, working
from guarantees.facts import Beside
from patience import soon
from tenure import postgres
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.drills.stage.proxy import FaultProxy
from tenure.events import DatabaseUnreachable, ExecutionStarted, JobCompleted, JobRetried
from tenure.model.backoff import Fixed
from tenure.postgres.connection import _ask
from tenure.postgres.doubt import Doubts
from tenure.postgres.handler_pool import HandlerPool
from tenure.postgres.patience import Patience
from world import World

pytestmark = pytest.mark.one_server

DOUBTFUL = Patience(doubt_seconds=0.3)


@pytest.fixture
def proxy(world: World) -> Iterator[FaultProxy]:
    with FaultProxy(world.url) as between:
        yield between


# -- a connection


def test_an_answer_that_the_server_does_not_owe_is_not_waited_for(proxy: FaultProxy) -> None:
    conn = postgres.connect(proxy.url, patience=DOUBTFUL)
    proxy.strand()
    began = time.monotonic()
    with pytest.raises(psycopg.OperationalError, match="the server waits for us"):
        conn.execute("SELECT 1")
    assert conn.closed
    assert time.monotonic() - began < soon(10)


def test_a_session_that_has_ended_owes_none_either(world: World, proxy: FaultProxy) -> None:
    conn = postgres.connect(proxy.url, patience=DOUBTFUL)
    pid = conn.info.backend_pid
    proxy.strand()
    world.sql("SELECT pg_terminate_backend(%s::int)", pid)
    with pytest.raises(psycopg.OperationalError, match="its session is gone"):
        conn.execute("SELECT 1")


def test_a_long_answer_is_waited_for(proxy: FaultProxy) -> None:
    with postgres.connect(proxy.url, patience=DOUBTFUL) as conn:
        assert conn.execute("SELECT 7 FROM pg_sleep(3)").fetchone() == (7,)


def test_so_is_a_lock(world: World, proxy: FaultProxy) -> None:
    world.sql("CREATE TABLE here (n int)")
    asked: list[int] = []

    def ask(pid: int) -> list[tuple[str | None, str | None]]:
        asked.append(pid)
        return _ask(world.url, pid)

    with postgres.connect(proxy.url, patience=DOUBTFUL) as conn:
        conn.doubts = Doubts(ask, 0.1)
        with world.conn.transaction():
            world.sql("LOCK here")
            asking = Beside(lambda: conn.execute(f'SELECT n FROM "{world.schema}".here'.encode()).fetchall())
            eventually(lambda: len(asked) >= 3)
            assert not asking.done
        assert asking.result() == []


def test_when_nobody_can_be_asked_the_wait_ends_all_the_same(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.postgres.doubt.UNANSWERED_SECONDS_MAX", 2.0)
    conn = postgres.connect(proxy.url, patience=DOUBTFUL)
    proxy.strand()
    proxy.refuse()
    with pytest.raises(psycopg.OperationalError, match="cannot be asked"):
        conn.execute("SELECT 1")


# -- what lends handlers their connections


def test_an_idle_connection_that_is_stranded_is_not_lent(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.postgres.handler_pool.FRESH_SECONDS", 0.0)
    pool = HandlerPool(proxy.url, 2, idle_seconds=60.0)
    with pool.blocking() as conn:
        first = conn.info.backend_pid
    proxy.strand()
    with pool.blocking() as conn:
        assert conn.execute("SELECT pg_backend_pid()").fetchone() != (first,)


# -- a worker


@pytest.mark.parametrize("awaiting", [False, True], ids=["thread", "loop"])
def test_a_handler_inside_fenced_ends_and_its_row_is_done_by_another_attempt(
    world: World, proxy: FaultProxy, awaiting: bool
) -> None:
    inbox, gate, inside = Inbox(), threading.Event(), threading.Event()
    world.sql("CREATE TABLE receipts (row_id uuid)")
    insert = f'INSERT INTO "{world.schema}".receipts VALUES (%s)'

    @inbox.handler("blocks", backoff=Fixed(0))
    def blocks(job: Job) -> None:
        with job.fenced() as tx:
            inside.set()
            gate.wait(60)
            tx.execute(insert, [job.id])

    @inbox.handler("awaits", backoff=Fixed(0))
    async def awaits(job: Job) -> None:
        async with job.fenced() as tx:
            inside.set()
            await asyncio.to_thread(gate.wait, 60)
            await tx.execute(insert, [job.id])

    with working(world, inbox, url=proxy.url, poll_seconds=0.5, grace_seconds=60.0) as hired:
        id = world.enqueue("awaits" if awaiting else "blocks")
        inside.wait(60)
        proxy.strand()
        gate.set()
        (retried,) = hired.saw(JobRetried)
        assert "the server" in retried.error
        hired.saw(JobCompleted)
        eventually(lambda: hired.worker.held.slots_used == 0)
    assert world.sql("SELECT row_id FROM receipts") == [(id,)]


def test_so_does_a_handler_in_a_process(world: World, proxy: FaultProxy, tmp_path: Path) -> None:
    world.sql("CREATE TABLE receipts (row_id uuid)")
    with working(world, crunch.inbox, url=proxy.url, poll_seconds=0.5, grace_seconds=60.0) as hired:
        id = world.enqueue("receipt", {"folder": str(tmp_path), "table": f"{world.schema}.receipts"})
        hired.saw(ExecutionStarted)
        eventually(lambda: (tmp_path / "inside").exists())
        proxy.strand()
        (tmp_path / "go").touch()
        hired.saw(JobCompleted)
        eventually(lambda: hired.worker.held.slots_used == 0)
    assert world.sql("SELECT row_id FROM receipts") == [(id,)]


def test_the_claimer_finds_new_rows_within_seconds(world: World, proxy: FaultProxy) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    def work(job: Job) -> None:
        pass

    with working(world, inbox, url=proxy.url, poll_seconds=0.5) as hired:
        world.enqueue("work")
        hired.saw(JobCompleted)
        proxy.strand()
        world.enqueue("work")
        hired.saw(JobCompleted, 2)
    (lost,) = [event for event in hired.of(DatabaseUnreachable) if event.who == "claimer"]
    assert "the server waits for us" in lost.error  # and not: the longest time a statement may take
