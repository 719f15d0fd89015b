"""A slice of `make soak-journal`; and the journal through a prepared transaction, and a dump in the middle."""

from __future__ import annotations

import subprocess

import psycopg
import pytest

import servers
from chaos.soak_journal import Soak
from guarantees.facts import user_connection
from tenure.embedded.binaries import binaries
from tenure.model.journal import NewEvent
from tenure.postgres import run
from tenure.verbs.journal import append, read_after
from world import World

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


def test_no_event_is_missed_doubled_or_inverted_and_naive_readers_show_their_faults(world: World) -> None:
    soak = Soak(world, events=3_000, writers=8, seed=5)
    faults = soak.run()
    assert not +faults["marks"], faults
    assert faults["sequence"]["missed"], "the control was lucky"
    assert faults["xid"]["inversions"], "the control was lucky"


def test_a_journal_restored_from_a_dump_in_the_middle_goes_on_where_it_was(world: World) -> None:
    def add(conn: psycopg.Connection[object], n: int) -> int:
        return run(conn, append(f"order:{n}", [NewEvent("order.paid")]), world.schema).position

    late, first = user_connection(world), add(world.conn, 1)
    add(late, 2)
    third = add(world.conn, 3)
    dump = [str(binaries().program("pg_dump")), "--schema", world.schema, world.url]
    written = subprocess.run(dump, capture_output=True, check=True).stdout
    late.commit()
    name = f"restored_{world.schema}"
    world.sql(f"CREATE DATABASE {name}")
    url = psycopg.conninfo.make_conninfo(world.url, dbname=name)
    try:
        subprocess.run([binaries().program("psql"), "-q", url], input=written, capture_output=True, check=True)
        with psycopg.connect(url, autocommit=True) as conn, psycopg.connect(url) as other:
            assert [event.position for event in run(conn, read_after(), world.schema)] == [first, third]
            held = add(other, 4)
            after = add(conn, 5)
            assert held > third, "the sequence goes on"
            assert run(conn, read_after(third), world.schema) == []
            other.commit()
            assert [event.position for event in run(conn, read_after(third), world.schema)] == [held, after]
    finally:
        world.sql(f"DROP DATABASE {name} WITH (FORCE)")
