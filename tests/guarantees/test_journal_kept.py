"""The journal beside its neighbours: one stream, one shard, one partition at a time, and by the clock of the moment."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from guarantees.facts import Beside, user_connection, waits_for_a_lock
from tenure.errors import WrongVersion
from tenure.model.journal import NewEvent
from tenure.postgres import run
from tenure.verbs.journal import (
    append,
    await_events,
    erase_stream,
    horizon,
    keep_journal,
    read_between,
    read_stream,
    retain_journal,
)
from world import World

TEN = 10_000_000  # positions a partition


def add(world: World, stream: str = "order:1", conn: psycopg.Connection[Any] | None = None, **options: Any) -> int:
    """One event more; its position."""
    return world.run(append(stream, [NewEvent("order.paid")], **options), conn).position


# -- streams


def test_streams_at_the_same_version_do_not_move_together(world: World) -> None:
    for stream in ("order:1", "order:2"):
        add(world, stream)
    add(world, "order:1", expect=1)
    assert world.sql("SELECT stream, version FROM streams ORDER BY 1") == [("order:1", 2), ("order:2", 1)]
    add(world, "order:2", expect=1)
    with pytest.raises(WrongVersion, match="at version 0, not 2"):
        add(world, "order:3", expect=2)
    assert [event.version for event in world.run(read_stream("order:2"))] == [1, 2]


def test_whoever_erases_one_stream_keeps_nobody_waiting_at_another(world: World) -> None:
    add(world, "order:1"), add(world, "order:2")
    eraser = user_connection(world, autocommit=True)
    with eraser.transaction():
        run(eraser, erase_stream("order:1"), world.schema)
        world.sql("SELECT FROM streams WHERE stream = 'order:2' FOR UPDATE NOWAIT")


def test_nobody_appends_between_the_events_of_an_erased_stream_and_its_name(world: World) -> None:
    """An event that came in between would stay, in a stream that begins anew without it."""
    add(world)
    holder, eraser = user_connection(world, autocommit=True), user_connection(world, autocommit=True)
    with holder.transaction():
        holder.execute("SELECT FROM journal FOR UPDATE")
        erasing = Beside(lambda: run(eraser, erase_stream("order:1"), world.schema))
        waits_for_a_lock(world, eraser)
        with pytest.raises(LockNotAvailable):
            world.sql("SELECT FROM streams FOR UPDATE NOWAIT")
    assert erasing.result() == 1
    assert (world.count("journal"), world.count("streams")) == (0, 0)


def test_each_event_is_of_one_shard(world: World) -> None:
    last = [add(world, f"order:{n}") for n in range(12)][-1]
    found = [[event.position for event in world.run(read_between(0, last, shard=n, shards=3))] for n in range(3)]
    assert sorted(position for shard in found for position in shard) == [
        event.position for event in world.run(read_between(0, last))
    ]
    assert all(found)
    assert [event.position for event in world.run(read_between(last - 3, last - 1))] == [last - 2, last - 1]


def test_a_wish_for_notes_lasts_from_when_it_was_said(world: World) -> None:
    with world.conn.transaction():
        world.sql("SELECT now()")
        ((moment,),) = world.sql("SELECT clock_timestamp()")
        world.run(await_events("A", 60))
        assert world.sql("SELECT until >= %s + interval '60 seconds' FROM tails", moment) == [(True,)]


def test_a_note_is_sent_while_somebody_waits_and_not_a_moment_longer(world: World) -> None:
    listener = world.connect()
    channel = world.run(await_events("A", 60))
    listener.execute(f'LISTEN "{channel}"'.encode())

    def heard() -> int:
        world.sql("SELECT pg_notify(%s, 'the end')", channel)
        return len(list(takewhile(lambda note: note.payload != "the end", listener.notifies(timeout=120))))

    prepared = world.sql("SHOW max_prepared_transactions") != [
        ("0",)
    ]  # as on nodes of Citus: what has notified cannot be
    add(world)
    assert heard() == (0 if prepared else 1)
    with world.conn.transaction():
        world.sql("SELECT now()")
        world.sql("UPDATE tails SET until = clock_timestamp()")
        add(world)
    assert heard() == 0


# -- locks that are no marks of this journal


@pytest.mark.parametrize("of", ["two numbers", "another database"])
def test_a_lock_that_only_looks_like_a_mark_holds_nobody_back(world: World, of: str) -> None:
    ((tag,),) = world.sql("SELECT mark_tag()")
    with psycopg.connect(world.url, dbname="postgres" if of == "another database" else None) as other:
        if of == "two numbers":
            other.execute("SELECT pg_advisory_xact_lock_shared(%s, 0)", [tag << 16])
        else:
            other.execute("SELECT pg_advisory_xact_lock_shared(%s::bigint << 48)", [tag])
        mine = add(world)
        assert world.run(horizon()).position == mine


# -- keeping


def test_an_event_is_past_retention_by_the_clock_and_not_by_the_transaction(world: World) -> None:
    old, young = add(world), add(world)
    world.run(retain_journal(3600))
    with world.conn.transaction():
        world.sql("SELECT now()")
        world.sql("UPDATE journal SET at = clock_timestamp() - interval '1 hour' WHERE position = %s", old)
        assert world.run(keep_journal())["events_forgotten"] == 1
    assert world.sql("SELECT position FROM journal") == [(young,)]


def put(world: World, *positions: int) -> None:
    """Events where the sequence has not been yet."""
    fixed = "INSERT INTO journal (position, version, stream, type, data) SELECT n, 1, 's', 'a', '{}'"
    world.sql(f"{fixed} FROM unnest(%s::bigint[]) AS n", list(positions))


def test_a_partition_is_made_unless_the_rest_has_events_of_its_own_positions(world: World) -> None:
    world.sql("SELECT setval('journal_position', %s)", 3 * TEN + 5)
    put(world, 3 * TEN, 5 * TEN)
    assert world.run(keep_journal())["partitions_made"] == 1, "the fourth: of the third and the fifth there are events"
    put(world, 4 * TEN, 5 * TEN - 1)
    assert world.sql("SELECT tableoid::regclass::text, count(*) FROM journal GROUP BY 1 ORDER BY 1") == [
        ("journal_000004", 2),
        ("journal_rest", 2),
    ]


@pytest.mark.parametrize(
    ("forgotten", "last", "dropped"),
    [
        (TEN, TEN, 1),
        (TEN - 1, TEN, 0),
        (TEN, TEN - 1, 0),  # positions of the first are still to come, whatever is said to be forgotten
        (2 * TEN, 2 * TEN, 1),  # one at a time
    ],
)
def test_a_partition_is_dropped_that_has_no_events_and_gets_none(
    world: World, forgotten: int, last: int, dropped: int
) -> None:
    world.sql("SELECT setval('journal_position', %s)", last)
    world.sql("UPDATE journal_kept SET forgotten_to = %s", forgotten)
    assert world.run(keep_journal())["partitions_dropped"] == dropped


def test_the_partitions_of_another_journal_are_not_ours(world: World) -> None:
    place = f"j_{world.schema}"
    world.sql(f"CREATE SCHEMA {place}")
    try:
        world.sql(f"CREATE TABLE {place}.journal (position bigint) PARTITION BY RANGE (position)")
        world.sql(f"CREATE TABLE {place}.journal_000000 PARTITION OF {place}.journal FOR VALUES FROM (0) TO ({TEN})")
        world.sql("SELECT setval('journal_position', %s)", TEN)
        world.sql("UPDATE journal_kept SET forgotten_to = %s", TEN)
        assert [world.run(keep_journal())["partitions_dropped"] for _ in range(2)] == [1, 0]
        assert world.sql(f"SELECT to_regclass('{place}.journal_000000') IS NOT NULL") == [(True,)]
    finally:
        world.sql(f"DROP SCHEMA {place} CASCADE")
