"""A worker outlives its database: whatever becomes of server, sessions and network, every row ends as if nothing had.

Where nothing was lost, nothing is run twice and no attempt is spent: rows are completed under their first token.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from chaos.own_server import OwnServer, occupy, own_server
from chaos.pgbouncer import PROGRAM, pgbouncer
from crew import Hired, eventually, working
from tenure import postgres, verbs
from tenure.app.fence import fenced
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.drills.stage.proxy import FaultProxy
from tenure.drills.stage.sockets import can_drop_packets
from tenure.events import (
    DatabaseBack,
    DatabaseUnreachable,
    ExecutionStarted,
    JobCompleted,
    JobReleased,
    JobRetried,
    LeaseLost,
    StaleWriteBlocked,
    WakeupChanged,
)
from tenure.model.rows import NewRow
from tenure.postgres import handler_pool
from tenure.postgres.connection import connect
from tenure.worker import claimer
from tenure.worker.claims import Claims
from world import World, new_world

LINES = ("claimer", "lease_keeper", "housekeeper")
STRANGERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
POOLED = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenure handler'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    with own_server(tmp_path_factory.mktemp("own") / "pg") as ours:
        yield ours


@pytest.fixture
def world(server: OwnServer) -> Iterator[World]:
    """A schema of its own, on the server that may be ended."""
    with new_world(server.url) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def small_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with own_server(tmp_path_factory.mktemp("small") / "pg", max_connections="12") as ours:
        yield ours.url


@pytest.fixture
def small_world(small_url: str) -> Iterator[World]:
    """A schema of its own on a server that takes twelve connections."""
    with new_world(small_url) as fresh:
        yield fresh


def again(world: World) -> None:
    """The test itself has lost its connection as well."""
    world.conn = world.connect()


class Gate:
    """An inbox whose handlers wait to be let through."""

    def __init__(self) -> None:
        self.inbox, self.open = Inbox(), threading.Event()

        @self.inbox.handler("waits")
        async def waits(job: Job) -> None:
            while not self.open.is_set():
                await asyncio.sleep(0.01)

        @self.inbox.handler("work")
        async def work(job: Job) -> None:
            await asyncio.sleep(0.001)


def tokens(world: World, ids: list[UUID]) -> Counter[tuple[str, int, int]]:
    """How many rows stand how: status, attempts, generation."""
    return Counter((row.status, row.attempts, row.lease_generation) for row in map(world.row, ids))


def all_at_first_try(world: World, hired: Hired, ids: list[UUID]) -> None:
    """Every row was completed under its first token, by one run."""
    assert tokens(world, ids) == {("completed", 1, 1): len(ids)}
    runs = Counter(event.job_id for event in hired.of(ExecutionStarted))
    assert runs == dict.fromkeys(ids, 1)
    assert not hired.of(LeaseLost) + hired.of(StaleWriteBlocked) + hired.of(JobRetried)


def outages(hired: Hired) -> tuple[Counter[str], Counter[str]]:
    """How often each line was said to be lost, and back."""
    return (
        Counter(event.who for event in hired.of(DatabaseUnreachable)),
        Counter(event.who for event in hired.of(DatabaseBack)),
    )


def back(hired: Hired, *lines: str, n: int = 1) -> None:
    """Returns once these lines were back for the nth time."""
    eventually(lambda: all(outages(hired)[1][line] >= n for line in lines))


def cut(world: World, hired: Hired, who: str) -> None:
    """End the session of one line."""
    name = f"tenure {who} {hired.worker.id}"[:63]
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    eventually(lambda: world.sql(ended, name))


# -- the server itself


@pytest.mark.parametrize("way", ["fast", "immediate", "killed"])
def test_handlers_outlive_a_restart_that_is_shorter_than_half_the_grace(
    server: OwnServer, world: World, way: str
) -> None:
    gate = Gate()
    with working(world, gate.inbox, slots=8, grace_seconds=60.0, drain_seconds=1.0) as hired:
        ids = [world.enqueue("waits") for _ in range(5)] + [world.enqueue("work") for _ in range(30)]
        hired.saw(JobCompleted, 30)
        server.end(way)
        ended = time.monotonic()
        hired.saw(DatabaseUnreachable)
        server.start()
        again(world)
        ids += [world.enqueue("work") for _ in range(30)]
        hired.saw(JobCompleted, 60)
        away = time.monotonic() - ended
        back(hired, "claimer", "lease_keeper")
        gate.open.set()
        hired.saw(JobCompleted, 65)
    print(f"\n{way}: working again {away:.1f} s after the server ended")
    all_at_first_try(world, hired, ids)
    lost, found = outages(hired)
    assert lost["claimer"] == lost["lease_keeper"] == found["claimer"] == found["lease_keeper"] == 1
    assert lost["housekeeper"] <= 1


def test_handlers_stop_in_a_longer_outage_and_their_rows_come_back_at_no_cost(server: OwnServer, world: World) -> None:
    gate = Gate()
    with working(world, gate.inbox, slots=8, grace_seconds=2.0, drain_seconds=1.0) as hired:
        ids = [world.enqueue("waits") for _ in range(5)]
        hired.saw(ExecutionStarted, 5)
        server.end("immediate")
        lost = hired.saw(LeaseLost, 5)
        server.start()
        again(world)
        hired.saw(ExecutionStarted, 10)
        gate.open.set()
        hired.saw(JobCompleted, 5)
    assert {event.reason for event in lost} == {"presence_lost"}
    assert len(hired.of(JobReleased)) == 5
    assert tokens(world, ids) == {("completed", 1, 2): 5}


def test_a_worker_paces_itself_while_the_server_is_away(server: OwnServer, world: World) -> None:
    with working(world, Gate().inbox, poll_seconds=0.5) as hired:
        server.end("fast")
        tries: list[float] = []
        for line in (hired.worker.claimer, hired.worker.lease_keeper, hired.worker.posts[0].housekeeper):
            _counting(line, "_connect_and_work", tries)
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 3.0)
        n = len(tries)
        server.start()
        again(world)
        id = world.enqueue("work")
        hired.saw(JobCompleted)
    print(f"\n{n} attempts to connect in 3 s")
    assert 3 <= n <= 30  # each line: after 0.1, 0.2, 0.4, 0.8, 1.6 s, or half of it
    all_at_first_try(world, hired, [id])


def _counting(there: Any, name: str, tries: list[float]) -> None:
    real: Callable[..., Any] = getattr(there, name)

    def counted(*args: Any) -> Any:
        tries.append(time.monotonic())
        return real(*args)

    setattr(there, name, counted)


def test_a_server_that_lets_in_but_refuses_every_write_is_one_outage(server: OwnServer, world: World) -> None:
    with working(world, Gate().inbox, poll_seconds=0.3, grace_seconds=60) as hired:
        read_only(world, "on")
        for line in LINES:
            cut(world, hired, line)
        eventually(lambda: {event.who for event in hired.of(DatabaseUnreachable)} == set(LINES))
        tries: list[float] = []
        _counting(hired.worker.claimer, "_connect_and_work", tries)
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 2.0)
        n = len(tries)
        read_only(world, "off")
        id = world.enqueue("work")
        hired.saw(JobCompleted)
        back(hired, *LINES)
    assert n <= 10
    assert outages(hired) == (Counter(LINES), Counter(LINES))
    all_at_first_try(world, hired, [id])


def test_a_server_that_refuses_every_write_is_refused_by_whoever_wants_to_write(
    server: OwnServer, world: World
) -> None:
    """Also by one who would only have read in its first round, and would have taken the server for good."""
    read_only(world, "on")
    try:
        with connect(server.url) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="read-only"), connect(server.url, writes=True):
            pass
    finally:
        read_only(world, "off")
    with connect(server.url, writes=True) as conn:
        assert conn.execute("SELECT 1").fetchone() == (1,)


def read_only(world: World, switch: str) -> None:
    """As after a failover, when the old primary comes back as a standby."""
    world.sql("SET default_transaction_read_only = off")
    world.sql(f"ALTER SYSTEM SET default_transaction_read_only = {switch}")
    world.sql("SELECT pg_reload_conf()")
    eventually(lambda: _asked(world.url, "SHOW default_transaction_read_only") == switch)


def _asked(url: str, question: str) -> Any:
    with psycopg.connect(url) as conn:
        (answer,) = conn.execute(question.encode()).fetchone() or (None,)
        return answer


# -- its sessions


def test_under_load_every_session_can_be_ended_in_turn_and_every_row_runs_once(world: World) -> None:
    gate = Gate()
    stop = threading.Event()
    sent: list[UUID] = []
    other = world.connect()

    def produce() -> None:
        while not stop.is_set():
            sent.extend(row.id for row in world.run(verbs.enqueue_many([NewRow("work") for _ in range(5)]), other))
            stop.wait(0.01)

    with working(world, gate.inbox, slots=10, grace_seconds=60.0) as hired:
        producer = threading.Thread(target=produce)
        producer.start()
        for turn, who in itertools.product((1, 2, 3), LINES):
            cut(world, hired, who)
            back(hired, who, n=turn)
        stop.set()
        producer.join()
        hired.saw(JobCompleted, len(sent))
    print(f"\n{len(sent)} rows, 9 sessions ended")
    all_at_first_try(world, hired, sent)


def test_connections_of_handlers_that_died_in_the_pool_cost_no_attempt(world: World) -> None:
    inbox = Inbox()
    world.sql("CREATE TABLE receipts (row_id uuid)")

    @inbox.handler("awaits")
    async def awaits(job: Job) -> None:
        async with job.fenced() as tx:
            await tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (%s)', [job.id])

    @inbox.handler("blocks")
    def blocks(job: Job) -> None:
        with job.fenced() as tx:
            tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (%s)', [job.id])

    with working(world, inbox) as hired:
        ids: list[UUID] = []
        for n in (1, 2, 3):
            ids += [world.enqueue(kind) for kind in ("awaits", "blocks")]
            hired.saw(JobCompleted, 2 * n)
            eventually(lambda: not world.sql(POOLED))
    all_at_first_try(world, hired, ids)
    assert Counter(id for (id,) in world.sql("SELECT row_id FROM receipts")) == dict.fromkeys(ids, 1)


def test_control_unchecked_a_connection_that_died_in_the_pool_costs_an_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox()
    monkeypatch.setattr(handler_pool, "_is_sound", lambda *_: True)

    @inbox.handler("blocks")
    def blocks(job: Job) -> None:
        with job.fenced():
            pass

    with working(world, inbox) as hired:
        world.enqueue("blocks")
        hired.saw(JobCompleted)
        eventually(lambda: not world.sql(POOLED))
        world.enqueue("blocks")
        hired.saw(JobRetried)


def test_a_worker_declared_dead_goes_on_under_another_id(world: World) -> None:
    gate = Gate()
    with working(world, gate.inbox, heartbeat_seconds=0.3, ttl_seconds=600.0, grace_seconds=60.0) as hired:
        held = world.enqueue("waits")
        hired.saw(ExecutionStarted)
        before = hired.worker.id
        world.sql("UPDATE workers SET status = 'dead'")
        eventually(lambda: hired.worker.id != before)
        eventually(lambda: hired.worker.lease_keeper.ring.workers == (hired.worker.id,))
        id = world.enqueue("work")
        hired.saw(JobCompleted)
        assert world.row(id).finished_by == hired.worker.id
        gate.open.set()
        hired.saw(JobCompleted, 2)
    assert tokens(world, [id]) == {("completed", 1, 1): 1}
    assert tokens(world, [held]) == {("completed", 1, 2): 1}, "stopped, given back at no cost, and run again"
    assert world.sql("SELECT id, status FROM workers") == [(before, "dead")]


# -- the network


def impatient(proxy: FaultProxy) -> str:
    """Its address for a client that gives a silent peer up within two seconds."""
    settings = "connect_timeout=2 tcp_user_timeout=1000 keepalives_idle=1 keepalives_interval=1 keepalives_count=1"
    return f"{proxy.url} {settings}"


@pytest.mark.skipif(not can_drop_packets(), reason="this user may not drop packets (Linux, often only root)")
def test_a_worker_comes_back_from_a_black_hole(world: World) -> None:
    gate = Gate()
    with (
        FaultProxy(world.url) as proxy,
        working(
            world, gate.inbox, url=impatient(proxy), lease_seconds=12.0, drain_seconds=1.0, poll_seconds=0.2
        ) as hired,
    ):
        ids = [world.enqueue("waits")]
        hired.saw(ExecutionStarted)
        proxy.blackhole()
        ids += [world.enqueue("work") for _ in range(20)]
        eventually(lambda: {event.who for event in hired.of(DatabaseUnreachable)} >= {"claimer", "lease_keeper"})
        proxy.heal()
        healed = time.monotonic()
        hired.saw(JobCompleted, 20)
        took = time.monotonic() - healed
        gate.open.set()
        hired.saw(JobCompleted, 21)
    print(f"\nworking again {took:.1f} s after the network healed: {dict(tokens(world, ids))}")
    assert {world.status(id) for id in ids} == {"completed"}
    assert Counter(event.who for event in hired.of(DatabaseUnreachable))["claimer"] == 1


class LostReply:
    """The server hears one statement of the claimer, and what it answers never arrives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, proxy: FaultProxy, name: str) -> None:
        self.done = threading.Event()
        run, run_both = postgres.run, postgres.run_both

        def one(conn: Any, statement: Any) -> Any:
            if statement.name == name and not self.done.is_set():
                self._lose(proxy)
            return run(conn, statement)

        def both(conn: Any, first: Any, second: Any) -> Any:
            if name in (first.name, second.name) and not self.done.is_set():
                self._lose(proxy)
            return run_both(conn, first, second)

        monkeypatch.setattr(claimer, "run", one)
        monkeypatch.setattr(claimer, "run_both", both)

    def _lose(self, proxy: FaultProxy) -> None:
        proxy.drop_replies()
        self.done.set()


def test_the_rows_of_a_claim_whose_reply_was_lost_are_found_again_at_no_cost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [world.enqueue("work") for _ in range(7)]
    with FaultProxy(world.url) as proxy:
        lost = LostReply(monkeypatch, proxy, "claim")
        with ended(start(world, Gate().inbox, proxy)) as hired:
            eventually(lost.done.is_set)
            eventually(lambda: {world.status(id) for id in ids} == {"processing"})
            proxy.heal()
            proxy.cut()
            hired.saw(JobCompleted, 7)
    all_at_first_try(world, hired, ids)


def start(world: World, inbox: Inbox, proxy: FaultProxy) -> Hired:
    """A worker behind a proxy, not waited for."""
    from tenure.worker.config import Terms

    inbox.schema = world.schema
    for handler in inbox.handlers.values():
        handler.schema = world.schema
    return Hired(inbox, Terms(proxy.url, schema=world.schema, grace_seconds=60.0))


@contextlib.contextmanager
def ended(hired: Hired) -> Iterator[Hired]:
    try:
        yield hired
    finally:
        hired.worker.stop()
        hired.stop()


def test_control_without_asking_by_its_claim_id_the_rows_of_a_lost_claim_are_held_by_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [world.enqueue("work") for _ in range(7)]
    monkeypatch.setattr(Claims, "reconnected", lambda self: setattr(self, "_sent", None))
    with FaultProxy(world.url) as proxy:
        lost = LostReply(monkeypatch, proxy, "claim")
        with ended(start(world, Gate().inbox, proxy)) as hired:
            eventually(lost.done.is_set)
            eventually(lambda: {world.status(id) for id in ids} == {"processing"})
            proxy.heal()
            proxy.cut()
            later = world.enqueue("work")
            hired.saw(JobCompleted)
    assert world.status(later) == "completed"
    assert {world.status(id) for id in ids} == {"processing"}


def test_a_completion_whose_reply_was_lost_is_known_for_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [world.enqueue("work") for _ in range(7)]
    with FaultProxy(world.url) as proxy:
        lost = LostReply(monkeypatch, proxy, "complete")
        with ended(start(world, Gate().inbox, proxy)) as hired:
            eventually(lost.done.is_set)
            eventually(lambda: "completed" in {world.status(id) for id in ids})
            proxy.heal()
            proxy.cut()
            hired.saw(JobCompleted, 7)
    all_at_first_try(world, hired, ids)


def test_a_registration_whose_reply_was_lost_does_not_end_the_worker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenure.worker import membership

    run, cuts = postgres.run, [1]

    def cut_after(conn: Any, statement: Any) -> Any:
        answer = run(conn, statement)
        if statement.name == "register" and cuts.pop() if cuts else False:
            conn.close()
            raise psycopg.OperationalError("cut")
        return answer

    monkeypatch.setattr(membership, "run", cut_after)
    with working(world, Gate().inbox) as hired:
        id = world.enqueue("work")
        hired.saw(JobCompleted)
        assert world.sql("SELECT id FROM workers") == [(hired.worker.id,)]
    all_at_first_try(world, hired, [id])


def test_an_enqueue_whose_reply_was_lost_is_a_duplicate_when_sent_again(world: World) -> None:
    row = NewRow("work", {"order": 1}, idempotency_key="order 1")
    with FaultProxy(world.url) as proxy:
        conn = postgres.connect(proxy.url, patience=postgres.Patience(silence_seconds=0.3, statement_seconds=0.2))
        proxy.drop_replies()
        with pytest.raises(psycopg.OperationalError):
            postgres.run(conn, verbs.enqueue(row), world.schema)
        proxy.heal()
        with postgres.connect(proxy.url) as conn:
            sent = postgres.run(conn, verbs.enqueue(row), world.schema)
    assert sent.outcome == "duplicate"
    assert world.count("live") == 1


# -- every statement of the claimer


class FailAt:
    """The claimer's connection breaks at its nth statement: right before the server hears it, or right after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left, self._when, self._board = 0, "", False
        self.hit = ""
        self._run, self._run_both = postgres.run, postgres.run_both
        monkeypatch.setattr(claimer, "run", self._one)
        monkeypatch.setattr(claimer, "run_both", self._both)

    def arm(self, n: int, when: str) -> None:
        """Looks at the board are many while a worker is idle: only the first of all is cut."""
        self._left, self._when, self.hit, self._board = n, when, "", n == 1

    def _one(self, conn: Any, statement: Any) -> Any:
        return self._cut(conn, lambda: self._run(conn, statement), statement.name)

    def _both(self, conn: Any, first: Any, second: Any) -> Any:
        return self._cut(conn, lambda: self._run_both(conn, first, second), f"{first.name}+{second.name}")

    def _cut(self, conn: Any, act: Callable[[], Any], name: str) -> Any:
        self._left -= name != "board" or self._board
        if self._left != 0 or self.hit:
            return act()
        if self._when == "after":
            act()
        self.hit = name
        conn.close()
        raise psycopg.OperationalError("cut by the test")


@pytest.mark.parametrize("when", ["before", "after"])
def test_whichever_statement_of_the_claimer_is_cut_rows_are_completed_once(
    world: World, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    cutting = FailAt(monkeypatch)
    hits: Counter[str] = Counter()
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    @inbox.handler("ordered", key="k", ordered=True)
    async def ordered(job: Job) -> None: ...

    with working(world, inbox, slots=3, poll_seconds=600.0, grace_seconds=60.0) as hired:
        ids: list[UUID] = []
        for n in range(1, 17):
            cutting.arm(n, when)
            while not cutting.hit:
                ids += [world.enqueue("work") for _ in range(4)]
                ids += [world.enqueue("ordered", key="k", ordered=True) for _ in range(2)]
                hired.saw(JobCompleted, len(ids))
            hits[cutting.hit] += 1
            back(hired, "claimer", n=n)
    print(f"\ncut {when}: {dict(hits)}")
    all_at_first_try(world, hired, ids)
    cut = {name.partition("+")[0] for name in hits}
    assert "complete" in cut
    assert cut & {"claim", "claim_ordered"}


# -- no room


def test_a_server_without_room_is_waited_for_and_what_is_connected_works_on(small_world: World) -> None:
    world, gate = small_world, Gate()
    with working(world, gate.inbox, grace_seconds=2.0, poll_seconds=0.3, drain_seconds=1.0) as hired:
        eventually(lambda: hired.worker.posts[0].housekeeper.connected)
        held = world.enqueue("waits")
        hired.saw(ExecutionStarted)
        taken = occupy(world.url)
        ids = [world.enqueue("work") for _ in range(10)]
        hired.saw(JobCompleted, 10)
        cut(world, hired, "lease_keeper")
        taken += eventually(lambda: occupy(world.url))  # before it is back
        hired.saw(LeaseLost)
        stopped = len(hired.of(ExecutionStarted))
        ids += [world.enqueue("work") for _ in range(10)]
        hired.saw(JobReleased)
        # Whoever cannot show presence takes nothing: it would have to stop it at once.
        eventually(lambda: world.sql("SELECT status FROM workers") == [("dead",)])
        assert len(hired.of(ExecutionStarted)) == stopped
        leave_room(taken)
        gate.open.set()
        hired.saw(JobCompleted, 21)
    assert tokens(world, ids) == {("completed", 1, 1): 20}
    ((status, attempts, generation),) = tokens(world, [held])
    assert (status, attempts) == ("completed", 1)
    assert generation >= 2, "a machine that stands still for a second gives it back once more"
    assert Counter(event.who for event in hired.of(DatabaseUnreachable)) == {"lease_keeper": 1}


def leave_room(taken: list[psycopg.Connection[Any]]) -> None:
    for conn in taken:
        conn.close()


def test_a_worker_that_finds_no_room_starts_when_there_is_some(small_world: World) -> None:
    world = small_world
    ids = [world.enqueue("work") for _ in range(10)]
    eventually(lambda: world.sql(STRANGERS) == [(0,)])  # sessions of the last test, still on their way out
    taken = occupy(world.url)
    last = taken.pop()  # room for one line of three, as soon as its backend is no more
    backend = last.info.backend_pid
    last.close()
    eventually(lambda: not Path(f"/proc/{backend}").exists())
    with FaultProxy(world.url) as proxy, ended(start(world, Gate().inbox, proxy)) as hired:
        eventually(lambda: len({event.who for event in hired.of(DatabaseUnreachable)}) >= 2)
        leave_room(taken)
        hired.saw(JobCompleted, 10)
        eventually(lambda: hired.worker.lease_keeper.ring.workers)
    assert {who for who, n in outages(hired)[0].items() if n > 1} == set()
    assert {world.status(id) for id in ids} == {"completed"}


# -- a pooler


needs_pooler = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed (tools/pgbouncer)")


def fenced_inbox(world: World) -> Inbox:
    inbox = Inbox()
    world.sql("CREATE TABLE receipts (row_id uuid)")

    @inbox.handler("awaits")
    async def awaits(job: Job) -> None:
        async with job.fenced() as tx:
            await tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (%s)', [job.id])

    @inbox.handler("blocks", queue="mail")
    def blocks(job: Job) -> None:
        with job.fenced() as tx:
            tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (%s)', [job.id])

    return inbox


def send_both(world: World, n: int) -> list[UUID]:
    sent = [world.enqueue("awaits") for _ in range(n)] + [world.enqueue("blocks", queue="mail") for _ in range(n)]
    return [*sent, world.enqueue("awaits", key="k", ordered=True)]


@needs_pooler
def test_through_a_pooler_a_worker_polls_shows_no_presence_and_completes_every_row(world: World) -> None:
    with (
        pgbouncer(world.url) as through,
        working(world, fenced_inbox(world), url=through, poll_seconds=0.3, drain_seconds=1) as hired,
    ):
        ids = send_both(world, 20)
        hired.saw(JobCompleted, 41)
        facts = world.sql("SELECT presence, waiting, metadata->>'wakeup' FROM workers")
        assert facts == [(None, False, "poll")]
        eventually(lambda: hired.worker.posts[0].housekeeper.connected)
        assert hired.worker.lease_keeper.trusted_until == float("inf")
    all_at_first_try(world, hired, ids)
    assert Counter(id for (id,) in world.sql("SELECT row_id FROM receipts")) == dict.fromkeys(ids, 1)
    assert hired.exit_code == 0


@needs_pooler
def test_with_a_direct_address_for_its_session_presence_and_notes_work_beside_a_pooler(world: World) -> None:
    with (
        pgbouncer(world.url) as through,
        working(world, fenced_inbox(world), url=through, session_url=world.url, poll_seconds=600.0) as hired,
    ):
        eventually(lambda: world.sql("SELECT waiting FROM workers") == [(True,)])
        ids = send_both(world, 5)
        hired.saw(JobCompleted, 11)
        assert world.sql("SELECT presence IS NULL FROM workers") == [(False,)]
        assert [event.source for event in hired.of(WakeupChanged)] == ["notify"]
    all_at_first_try(world, hired, ids)


# -- the worker's own machine


def test_a_process_that_stood_still_for_longer_than_half_the_grace_asks_before_it_stops_its_handlers(
    world: World,
) -> None:
    inbox, watched = Inbox(), threading.Event()

    @inbox.handler("stalls")
    def stalls(job: Job) -> None:
        watched.wait(90)
        ctypes.PyDLL(None).usleep(2_500_000)  # nothing else in this process runs meanwhile

    with working(world, inbox, grace_seconds=4.0) as hired:
        id = world.enqueue("stalls")
        eventually(lambda: hired.worker.lease_keeper.trusted_until < float("inf"))
        watched.set()
        hired.saw(JobCompleted)
    all_at_first_try(world, hired, [id])


def test_a_fenced_write_that_comes_too_late_is_refused_and_said_to_be(world: World) -> None:
    inbox, inside, gate = Inbox(), threading.Event(), threading.Event()
    world.sql("CREATE TABLE receipts (token bigint)")

    @inbox.handler("work")
    def work(job: Job) -> None:
        with job.fenced() as tx:
            tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (%s)', [job.token])
            inside.set()
            gate.wait(90)

    with working(world, inbox, drain_seconds=1.0) as hired:
        id = world.enqueue("work")
        eventually(inside.is_set)
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp() - interval '1 second'")
        world.run(verbs.sweep_pages())
        gate.set()
        (blocked,) = hired.saw(StaleWriteBlocked)
        hired.saw(JobCompleted)
    assert (blocked.job_id, blocked.stale_token, blocked.verb) == (id, 1, "complete")
    assert world.sql("SELECT token FROM receipts") == [(2,)]
    assert not hired.of(JobRetried)


def test_a_fenced_commit_whose_reply_was_lost_is_neither_run_again_nor_taken_for_stale(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    def work(job: Job) -> None:
        with fenced(other, job.claimed, schema=world.schema):
            pass
        raise psycopg.OperationalError("the connection broke while it waited for the answer to COMMIT")

    other = world.connect()
    with working(world, inbox) as hired:
        id = world.enqueue("work")
        hired.saw(JobCompleted)
    all_at_first_try(world, hired, [id])
