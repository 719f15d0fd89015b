"""Connections that survive: silent peers are given up, every fault says what it is, and nothing hangs for ever."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from guarantees.facts import Beside, until
from patience import soon
from tenure import postgres, verbs
from tenure.drills.stage.proxy import FaultProxy
from tenure.drills.stage.sockets import can_drop_packets
from tenure.embedded import attach
from tenure.postgres.patience import Patience
from tenure.postgres.sqlstates import trouble_of
from tenure.verbs import settle
from world import World

SILENCE_SECONDS = 2.0
BRIEF = Patience(silence_seconds=SILENCE_SECONDS)
PROMPT = Patience(silence_seconds=1.0, statement_seconds=0.5)  # an answer is due within a second and a half

LINUX = sys.platform == "linux"
vanishing = pytest.mark.skipif(not can_drop_packets(), reason="this user may not drop packets (Linux, often only root)")


@pytest.fixture(scope="module")
def small_server() -> Iterator[str]:
    """A server of its own that takes ten connections, by TCP where loopback has addresses to spare."""
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules")
        rules.write_text("local all all trust\nhost all all 127.0.0.0/8 trust\n")
        for path in (rules.parent, rules):
            path.chmod(0o755)
        address = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}" if LINUX else ""
        settings = {"listen_addresses": address, "hba_file": str(rules), "max_connections": "10"}
        with attach(Path(folder, "pg"), fast=True, linger_seconds=0.2, settings=settings) as server:
            yield make_conninfo(server.url, host=address) if LINUX else server.url


@pytest.fixture
def proxy(small_server: str) -> Iterator[FaultProxy]:
    with FaultProxy(small_server) as between:
        yield between


# -- what is asked for, of whom


def test_what_the_user_set_stays_and_ours_comes_on_top() -> None:
    words = conninfo_to_dict(
        postgres.conninfo("postgresql://h/d?connect_timeout=7&options=-c%20jit%3Don", "me", Patience(lock_seconds=1.5))
    )
    assert (words["connect_timeout"], words["application_name"], words["keepalives_idle"]) == ("7", "me", "4")
    options = str(words["options"])
    assert "lock_timeout=1500" in options
    assert "statement_timeout" not in options
    assert options.index("jit=off") < options.index("jit=on")  # of two settings the later one holds


@pytest.mark.parametrize("silence_seconds", [0.3, 1, 2, 3, 5, 7.5, 10, 60])
def test_keepalives_add_up_to_the_silence(silence_seconds: float) -> None:
    words = Patience(silence_seconds=silence_seconds).of_client()
    total = words["keepalives_idle"] + words["keepalives_interval"] * words["keepalives_count"]
    assert silence_seconds * 0.8 <= total <= max(2, silence_seconds + 1)
    assert words["tcp_user_timeout"] == silence_seconds * 1000


def test_settings_hold_in_the_session(world: World) -> None:
    patience = Patience(statement_seconds=7, lock_seconds=1, idle_in_transaction_seconds=9)
    with postgres.connect(world.url, patience=patience) as conn:
        asked = ("enable_seqscan", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        answers = [conn.execute(f"SHOW {name}".encode()).fetchone() for name in asked]
        assert answers == [("off",), ("7s",), ("1s",), ("9s",)]
        assert not conn.pooled
        assert conn.prepare_threshold is not None


# -- a peer that does not even acknowledge


@vanishing
def test_a_query_into_a_black_hole_is_given_up_within_the_silence(proxy: FaultProxy) -> None:
    ours = postgres.connect(proxy.url, patience=BRIEF)
    with psycopg.connect(proxy.url, autocommit=True) as theirs:
        proxy.blackhole()
        control = Beside(lambda: theirs.execute("SELECT 1").fetchone())
        _is_given_up(lambda: ours.execute("SELECT 1"))
        assert ours.closed
        assert not control.done, "a plain connection waits on"
        proxy.heal()
        assert control.result() == (1,)


@vanishing
def test_a_listener_notices_a_black_hole_without_asking_anything(proxy: FaultProxy) -> None:
    conn = postgres.connect(proxy.url, patience=BRIEF)
    conn.execute("LISTEN news")
    proxy.blackhole()
    _is_given_up(lambda: list(conn.notifies(timeout=120)))


@vanishing
def test_no_connection_is_made_into_a_black_hole(proxy: FaultProxy) -> None:
    proxy.blackhole()
    _is_given_up(lambda: postgres.connect(proxy.url, patience=BRIEF))


@vanishing
def test_a_black_hole_that_heals_in_time_costs_nothing(proxy: FaultProxy) -> None:
    with postgres.connect(proxy.url) as conn:
        proxy.blackhole()
        asking = Beside(lambda: conn.execute("SELECT 1").fetchone())
        until(lambda: conn.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE, "it is asked")
        proxy.heal()
        assert asking.result() == (1,)


@vanishing
def test_the_server_ends_the_session_of_a_client_that_was_cut_off(small_server: str, proxy: FaultProxy) -> None:
    with postgres.connect(small_server) as watcher:
        ours = postgres.connect(proxy.url, patience=BRIEF)
        theirs = psycopg.connect(proxy.url, autocommit=True)

        def stands(conn: psycopg.Connection[object]) -> bool:
            pid = conn.info.backend_pid
            return watcher.execute("SELECT pid FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is not None

        proxy.blackhole()
        began = time.monotonic()
        until(lambda: not stands(ours), "the server has given up the silent client")
        assert time.monotonic() - began < SILENCE_SECONDS + soon(2)
        assert stands(theirs), "a plain connection's session stays, with all it holds"
        ours.close()
        theirs.close()


# -- a peer that acknowledges, and does not answer


def test_an_answer_that_is_overdue_is_not_waited_for(proxy: FaultProxy) -> None:
    conn = postgres.connect(proxy.url, patience=PROMPT)
    proxy.drop_replies()
    with pytest.raises(psycopg.OperationalError, match=r"has not answered for 1\.5 s") as raised:
        conn.execute("SELECT 1")
    assert trouble_of(raised.value) == "away"
    assert conn.closed


def test_two_answers_of_one_round_trip_are_not_waited_for_either(world: World) -> None:
    world.enqueue()
    held = world.claim("A")
    with FaultProxy(world.url) as proxy:
        conn = postgres.connect(proxy.url, patience=PROMPT)
        proxy.drop_replies()
        with pytest.raises(psycopg.OperationalError, match="has not answered"):
            postgres.run_both(conn, settle.complete(held), verbs.claim("A", 1), world.schema)
        assert conn.closed


def test_nor_awaiting(proxy: FaultProxy) -> None:
    async def ask() -> None:
        conn = await postgres.connect_async(proxy.url, patience=PROMPT)
        proxy.drop_replies()
        with pytest.raises(psycopg.OperationalError, match="has not answered"):
            await conn.execute("SELECT 1")
        assert conn.closed

    asyncio.run(ask())


def test_a_connection_that_only_listens_owes_no_answer(proxy: FaultProxy) -> None:
    with postgres.connect(proxy.url, patience=PROMPT) as conn:
        assert list(conn.notifies(timeout=1.8)) == []
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_connection_without_a_due_time_waits_for_a_slow_answer(proxy: FaultProxy) -> None:
    with postgres.connect(proxy.url, patience=Patience(silence_seconds=0.3)) as conn:
        assert conn.execute("SELECT 1 FROM pg_sleep(0.8)").fetchone() == (1,)


def test_a_completion_whose_reply_was_lost_is_known_as_ones_own(world: World) -> None:
    world.enqueue()
    (job,) = world.claim("A")
    with FaultProxy(world.url) as proxy:
        conn = postgres.connect(proxy.url, patience=PROMPT)
        proxy.drop_replies()
        with pytest.raises(psycopg.OperationalError):
            postgres.run(conn, settle.complete([job]), world.schema)
        proxy.heal()
        with postgres.connect(proxy.url) as again:
            (settled,) = postgres.run(again, settle.complete([job]), world.schema)
    assert (settled.standing, world.status(job.id)) == ("already_mine", "completed")


# -- a server that says no


def test_a_terminated_backend_is_away(world: World) -> None:
    conn = world.connect()
    world.sql("SELECT pg_terminate_backend(%s::int)", conn.info.backend_pid)
    _gone(world, conn.info.backend_pid)
    with pytest.raises(psycopg.Error) as raised:
        conn.execute("SELECT 1")
    assert trouble_of(raised.value) == "away"
    assert conn.closed


def test_the_timeouts_end_a_statement_a_wait_and_an_idle_transaction(world: World) -> None:
    patience = Patience(statement_seconds=0.3, lock_seconds=0.1, idle_in_transaction_seconds=0.1)
    id = world.enqueue()
    conn = postgres.connect(world.url, patience=patience)
    with pytest.raises(psycopg.errors.QueryCanceled) as slow:
        conn.execute("SELECT pg_sleep(10)")
    with world.conn.transaction():
        world.sql("SELECT FROM live WHERE id = %s FOR UPDATE", id)
        with pytest.raises(psycopg.errors.LockNotAvailable) as locked:
            conn.execute(f"SELECT FROM {world.schema}.live FOR UPDATE".encode())
    assert (trouble_of(slow.value), trouble_of(locked.value)) == ("again", "again")
    conn.execute("BEGIN")
    _gone(world, conn.info.backend_pid)
    with pytest.raises(psycopg.Error) as idle:
        conn.execute("SELECT 1")
    assert trouble_of(idle.value) == "away"


def test_a_server_with_no_connection_to_spare_is_away(small_server: str) -> None:
    taken: list[postgres.QueueConnection] = []
    try:
        with pytest.raises(psycopg.OperationalError, match="too many clients") as raised:
            taken.extend(postgres.connect(small_server) for _ in range(11))
        assert trouble_of(raised.value) == "away"
    finally:
        for conn in taken:
            conn.close()
    until(lambda: _connects(small_server), "there is room again")


# -- the proxy itself


def test_a_refused_and_a_cut_connection_are_away(proxy: FaultProxy) -> None:
    conn = postgres.connect(proxy.url)
    proxy.refuse()
    with pytest.raises(psycopg.OperationalError) as refused:
        postgres.connect(proxy.url)
    assert conn.execute("SELECT 1").fetchone() == (1,)
    proxy.cut()
    with pytest.raises(psycopg.OperationalError) as cut:
        conn.execute("SELECT 1")
    assert (trouble_of(refused.value), trouble_of(cut.value)) == ("away", "away")
    until(lambda: proxy.connections == 0, "nothing passes any more")
    proxy.heal()
    with postgres.connect(proxy.url) as again:
        assert again.execute("SELECT 1").fetchone() == (1,)
        assert proxy.connections == 1


def test_a_delay_is_felt_both_ways(proxy: FaultProxy) -> None:
    with postgres.connect(proxy.url) as conn:
        proxy.delay(0.1)
        began = time.monotonic()
        conn.execute("SELECT 1")
        assert time.monotonic() - began >= 0.2


def _is_given_up(action: Callable[[], object]) -> None:
    """It fails as `away`, and no later than the silence allows."""
    began = time.monotonic()
    with pytest.raises(psycopg.OperationalError) as raised:
        action()
    assert trouble_of(raised.value) == "away"
    assert SILENCE_SECONDS - 1 < time.monotonic() - began < SILENCE_SECONDS + soon(2)


def _gone(world: World, pid: int) -> None:
    until(lambda: not world.sql("SELECT pid FROM pg_stat_activity WHERE pid = %s", pid), "the backend is gone")


def _connects(url: str) -> bool:
    try:
        postgres.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
