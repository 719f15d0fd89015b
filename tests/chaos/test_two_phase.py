"""Two-phase commit: an enqueue in a transaction that is then prepared works, whoever sleeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from chaos.own_server import own_server
from guarantees.facts import user_connection
from patience import SECONDS_MAX
from tenure import verbs
from tenure.model.journal import NewEvent
from tenure.model.rows import NewRow
from tenure.postgres import run
from tenure.verbs import fleet, journal, questions, queues
from world import World, new_world

pytestmark = pytest.mark.one_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with own_server(tmp_path_factory.mktemp("two-phase") / "pg", max_prepared_transactions="5") as server:
        yield server.url


@pytest.fixture
def world(url: str) -> Iterator[World]:
    with new_world(url) as mine:
        mine.run(fleet.register("A"))
        yield mine


def enqueue(world: World, conn: psycopg.Connection[object]) -> None:
    run(conn, verbs.enqueue(NewRow("send_receipt", {})), world.schema)


@pytest.mark.parametrize("sleeps", [True, False])
@pytest.mark.parametrize("word", ["PREPARE TRANSACTION", "/* app:42 */ prepare   transaction"])
def test_a_transaction_that_enqueued_can_be_prepared(world: World, sleeps: bool, word: str) -> None:
    world.run(fleet.set_waiting("A", waiting=sleeps))
    conn = user_connection(world, autocommit=True)
    conn.execute("BEGIN")
    enqueue(world, conn)
    conn.execute(f"{word} 'of {world.schema}'".encode())
    assert world.claim("A", 1) == []
    conn.execute(f"COMMIT PREPARED 'of {world.schema}'".encode())
    assert len(world.claim("A", 1)) == 1
    assert world.count("wakes") == 0


def test_rows_that_were_prepared_before_there_was_a_limit_per_key_are_found(world: World) -> None:
    conn = user_connection(world, autocommit=True)
    conn.execute("BEGIN")
    enqueue(world, conn)
    conn.execute(f"PREPARE TRANSACTION 'of {world.schema}'".encode())
    world.run(queues.limit("default", max_per_key=1))
    assert world.run(queues.claim_limited("A", 1, "default")) == []
    conn.execute(f"COMMIT PREPARED 'of {world.schema}'".encode())
    world.sql("UPDATE limits_begun SET again_at = clock_timestamp()")
    assert len(world.run(queues.claim_limited("A", 1, "default"))) == 1


def test_so_are_those_that_were_prepared_and_met_a_restart(tmp_path: Path) -> None:
    """A transaction has another name after it: what was noted under the old one seemed to be over."""
    with own_server(tmp_path / "pg", max_prepared_transactions="5") as server, new_world(server.url) as before:
        conn = user_connection(before, autocommit=True)
        conn.execute("BEGIN")
        enqueue(before, conn)
        before.run(queues.limit("default", max_per_key=1))
        assert before.run(queues.claim_limited("A", 1, "default")) == []
        conn.execute("PREPARE TRANSACTION 'late'")
        before.close()
        server.end("fast")
        server.start()
        world = World(server.url, before.schema)
        for _ in range(2):
            world.sql("UPDATE limits_begun SET again_at = clock_timestamp()")
            assert world.run(queues.claim_limited("A", 1, "default")) == []
        world.sql("COMMIT PREPARED 'late'")
        world.sql("UPDATE limits_begun SET again_at = clock_timestamp()")
        assert len(world.run(queues.claim_limited("A", 1, "default"))) == 1
        world.close()


def test_also_by_the_driver(world: World) -> None:
    world.run(fleet.set_waiting("A", waiting=True))
    conn = user_connection(world)
    conn.tpc_begin("shop")
    enqueue(world, conn)
    conn.tpc_prepare()
    conn.tpc_rollback()
    assert world.claim("A", 1) == []


@pytest.mark.parametrize("sleeps", [True, False])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a transaction"])
def test_a_commit_wakes_who_sleeps_as_everywhere(world: World, sleeps: bool, alone: bool) -> None:
    world.run(fleet.set_waiting("A", waiting=sleeps))
    ear = user_connection(world, autocommit=True)
    ((channel,),) = world.sql("SELECT channel()")
    ear.execute(f"LISTEN {channel}".encode())
    conn = user_connection(world, autocommit=alone)
    enqueue(world, conn)
    conn.commit()
    heard = [note.payload.split()[1] for note in ear.notifies(timeout=SECONDS_MAX if sleeps else 0.2, stop_after=1)]
    assert heard == (["default"] if sleeps else [])
    assert world.count("wakes") == 0


def test_whoever_makes_all_constraints_immediate_silences_the_note(world: World) -> None:
    """Then it is sent at once, and the server refuses to prepare: the setting of the guide is the way out."""
    world.run(fleet.set_waiting("A", waiting=True))
    conn = user_connection(world, autocommit=True)
    conn.execute("BEGIN")
    conn.execute("SET LOCAL tenure_inbox.notify = off")
    conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
    enqueue(world, conn)
    conn.execute(f"PREPARE TRANSACTION 'of {world.schema}'".encode())
    conn.execute(f"ROLLBACK PREPARED 'of {world.schema}'".encode())


def test_why_names_the_prepared_transaction_that_has_locked_a_row(world: World) -> None:
    id = world.enqueue()
    conn = user_connection(world, autocommit=True)
    conn.execute("BEGIN")
    conn.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [id])
    conn.execute(f"PREPARE TRANSACTION 'by {world.schema}'".encode())
    assert f", but the prepared transaction 'by {world.schema}' has locked it for " in world.run(questions.why(id))
    conn.execute(f"ROLLBACK PREPARED 'by {world.schema}'".encode())
    assert "locked" not in world.run(questions.why(id))


def test_events_in_a_prepared_transaction_hold_readers_back_until_it_ends(world: World) -> None:
    conn = user_connection(world, autocommit=True)
    world.run(journal.await_events("A", 60))
    conn.execute("BEGIN")
    run(conn, journal.append("order:1", [NewEvent("order.paid")]), world.schema)
    conn.execute(f"PREPARE TRANSACTION 'of {world.schema}'".encode())
    conn.close()
    last = world.run(journal.append("order:2", [NewEvent("order.paid")])).position
    assert world.run(journal.read_after()) == []
    assert world.sql("SELECT pid FROM marks()") == [(None,)]
    world.sql(f"COMMIT PREPARED 'of {world.schema}'")
    assert [event.position for event in world.run(journal.read_after())] == [last - 1, last]
