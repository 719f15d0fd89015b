"""A rebuild, step by step: what the tables, the checkpoints and the neighbours are like after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.errors import DuplicateSchema, LockNotAvailable, UndefinedTable

from crew import eventually, working
from guarantees.facts import Beside, waits_for_a_lock
from tenure.app.inbox import Inbox
from tenure.errors import BadSettings
from tenure.shapes.projection import Journal
from tenure.verbs.kinds import declared
from tenure.verbs.projections import forget_projection, plan_projection, resume_projection
from tenure.verbs.rebuild import ask_rebuild, enter_shadow, lock_checkpoints, open_shadow, swap_shadow
from tenure.verbs.statement import Statement
from world import World


@pytest.fixture
def names(world: World) -> Iterator[tuple[str, str]]:
    """Two projections of two shards, each with a table of its own: the first is there only to be left alone."""
    other, mine, home = f"o_{world.schema}", f"p_{world.schema}", f"h_{world.schema}"
    world.sql(f"CREATE SCHEMA {home}")
    world.sql(f"SET search_path = {world.schema}, {home}, public")
    for name, table in ((other, "apart"), (mine, "sums")):
        world.sql(f"CREATE TABLE {home}.{table} (stream text PRIMARY KEY, amount int)")
        world.run(plan_projection(name, shards=2, like=None, tables=[f"{home}.{table}"]))
    yield other, mine
    for place in (f"{other}_next", f"{mine}_next", home):
        world.sql(f"DROP SCHEMA IF EXISTS {place} CASCADE")


def checkpoints(world: World, name: str) -> list[tuple[int, int]]:
    return world.sql("SELECT shard, position FROM checkpoints WHERE projection = %s ORDER BY shard", name)


def tables(world: World, name: str) -> list[str]:
    place = f"{name}_next"
    return [row[0] for row in world.sql("SELECT tablename::text FROM pg_tables WHERE schemaname = %s", place)]


def swapped(world: World, name: str, shards: int = 2, upto: int = 9) -> str:
    """In the schema of the new tables, as a worker does it: how, or why not."""
    try:
        with world.conn.transaction():
            world.run(enter_shadow(name))
            return world.run(swap_shadow(name, shards, upto))
    except psycopg.Error as error:
        return str(error.diag.message_primary)


def skip(world: World, name: str, position: int, shard: int) -> None:
    world.sql("INSERT INTO skipped VALUES (%s, %s, %s, 'order:1', 'paid', 'boom')", name, position, shard)


# -- the new tables


def test_the_new_tables_are_made_once_and_are_filled_further_by_the_next_worker(
    world: World, names: tuple[str, str]
) -> None:
    other, mine = names
    assert world.run(open_shadow(other)) == 0
    assert world.run(open_shadow(mine)) == 0
    assert (tables(world, other), tables(world, mine)) == (["apart"], ["sums"])
    world.sql(f"INSERT INTO {mine}_next.sums VALUES ('order:1', 5)")
    world.sql("UPDATE checkpoints SET position = 7 WHERE projection = %s AND shard = -1", mine)
    world.sql("UPDATE checkpoints SET position = 3 WHERE projection = %s AND shard = -1", other)
    assert world.run(open_shadow(mine)) == 7
    assert world.sql(f"SELECT amount FROM {mine}_next.sums") == [(5,)]
    assert world.run(open_shadow(f"{mine}_gone")) is None, "it was forgotten meanwhile"
    assert checkpoints(world, other) == [(-1, 3), (0, 0), (1, 0)]


@pytest.mark.parametrize("lost", ["checkpoint", "schema"])
def test_half_of_a_shadow_is_none_and_it_is_made_anew(world: World, names: tuple[str, str], lost: str) -> None:
    other, mine = names
    for name in names:
        world.run(open_shadow(name))
        world.sql(f"INSERT INTO {name}_next.{tables(world, name)[0]} VALUES ('order:1', 5)")
        for position, shard in ((2, -1), (3, 0)):
            skip(world, name, position, shard)
    world.sql("UPDATE checkpoints SET position = 7 WHERE shard = -1")
    if lost == "schema":
        world.sql(f"DROP SCHEMA {mine}_next CASCADE")
    else:
        world.sql("DELETE FROM checkpoints WHERE projection = %s AND shard = -1", mine)
    assert world.run(open_shadow(mine)) == 0
    assert world.sql(f"SELECT count(*) FROM {mine}_next.sums") == [(0,)]
    assert checkpoints(world, mine) == [(-1, 0), (0, 0), (1, 0)]
    assert checkpoints(world, other) == [(-1, 7), (0, 0), (1, 0)]
    left = world.sql("SELECT projection, position FROM skipped ORDER BY projection DESC, position")
    assert left == [(mine, 3), (other, 2), (other, 3)], "what the lost one had skipped is tried again"


def test_a_schema_of_that_name_that_is_not_ours_is_not_touched(world: World, names: tuple[str, str]) -> None:
    place = f"{names[1]}_next"
    world.sql(f"CREATE SCHEMA {place}")
    world.sql(f"CREATE TABLE {place}.dear (n int)")
    with pytest.raises(DuplicateSchema, match="is there and is not ours: rename it"):
        world.run(open_shadow(names[1]))
    assert tables(world, names[1]) == ["dear"]


def test_a_table_that_is_not_there_is_named(world: World, names: tuple[str, str]) -> None:
    world.sql("DROP TABLE sums")
    with pytest.raises(UndefinedTable, match=r"sums of projection \w+ is not there: create it, or mend"):
        world.run(open_shadow(names[1]))


def test_names_mean_the_new_tables_of_this_projection_and_of_no_other(world: World, names: tuple[str, str]) -> None:
    for name in names:
        world.run(open_shadow(name))
        with world.conn.transaction():
            world.run(enter_shadow(name))
            ((path,),) = world.sql("SHOW search_path")
            assert path.split(", ")[0].strip('"') == f"{name}_next"
            assert path.count("_next") == 1
    assert "_next" not in world.sql("SHOW search_path")[0][0]


# -- the swap


def test_all_shards_of_a_projection_are_held_where_they_are_and_no_others(world: World, names: tuple[str, str]) -> None:
    other, mine = names
    world.run(open_shadow(mine))
    for name, shard, position in ((other, 0, 99), (mine, -1, 50), (mine, 0, 7), (mine, 1, 3)):
        world.sql("UPDATE checkpoints SET position = %s WHERE projection = %s AND shard = %s", position, name, shard)
    look = "SELECT FROM checkpoints WHERE projection = %s AND shard = %s FOR UPDATE NOWAIT"
    with world.conn.transaction(), world.connect() as second:
        assert world.run(lock_checkpoints(mine)) == 7
        for shard in (0, 1):
            with pytest.raises(LockNotAvailable):
                second.execute(look, [mine, shard])
        for free in ((other, 0), (other, 1), (mine, -1)):
            second.execute(look, free)


@pytest.mark.parametrize(("shards", "view"), [(1, False), (2, True), (3, False)])
def test_after_the_swap_all_begin_where_it_ended_and_the_neighbours_are_as_they_were(
    world: World, names: tuple[str, str], shards: int, view: bool
) -> None:
    other, mine = names
    if view:
        world.sql(f"CREATE VIEW h_{world.schema}.seen AS SELECT stream, amount FROM sums")
    for name in names:
        world.run(open_shadow(name))
        for position, shard in ((2, 0), (3, 1), (9, 1), (10, 1), (4, -1)):
            skip(world, name, position, shard)
    world.sql("INSERT INTO sums VALUES ('order:1', 1)")
    world.sql(f"INSERT INTO {mine}_next.sums VALUES ('order:1', 10)")
    world.sql("UPDATE checkpoints SET position = 5, state = 'stopped', stopped_at = 6, error = 'boom'")
    rows = dict(world.sql("SELECT shard, row_id FROM checkpoints WHERE projection = %s AND shard >= 0", mine))
    apart = "SELECT projection, position, shard FROM skipped WHERE projection = %s ORDER BY position"
    beside = world.sql(apart, other)
    assert swapped(world, mine, shards) == ("copied" if view else "moved")
    assert world.sql("SELECT amount FROM sums") == [(10,)]
    assert checkpoints(world, mine) == [(shard, 9) for shard in range(shards)]
    assert world.sql("SELECT DISTINCT state, stopped_at, error FROM checkpoints WHERE projection = %s", mine) == [
        ("running", None, None)
    ]
    kept = dict(world.sql("SELECT shard, row_id FROM checkpoints WHERE projection = %s", mine))
    assert kept == {shard: rows.get(shard) for shard in range(shards)}
    assert checkpoints(world, other) == [(-1, 5), (0, 5), (1, 5)]
    assert world.sql("SELECT projection, shards, rebuilt_at IS NULL FROM projections ORDER BY 1") == [
        (other, 2, True),
        (mine, shards, False),
    ]
    assert [row[1] for row in world.sql(apart, mine)] == [4, 10], "what the rebuild skipped, and what comes after it"
    assert {row[2] for row in world.sql(apart, mine)} == set(world.sql("SELECT bucket('order:1') %% %s", shards)[0])
    assert world.sql(apart, other) == beside


def test_a_copy_leaves_out_what_no_insert_may_name(world: World, names: tuple[str, str]) -> None:
    """A dropped column, a generated one, and the hidden ones of every table."""
    world.sql("ALTER TABLE sums ADD COLUMN gone int, ADD COLUMN twice int GENERATED ALWAYS AS (amount * 2) STORED")
    world.sql(f"CREATE VIEW h_{world.schema}.seen AS SELECT stream, amount, twice FROM sums")
    world.run(open_shadow(names[1]))
    place = f"{names[1]}_next.sums"
    world.sql(f"ALTER TABLE {place} DROP COLUMN gone")
    world.sql("ALTER TABLE sums DROP COLUMN gone")
    world.sql(f"INSERT INTO {place} VALUES ('order:1', 10)")
    assert swapped(world, names[1]) == "copied"
    assert world.sql("SELECT stream, amount, twice FROM seen") == [("order:1", 10, 20)]


@pytest.mark.parametrize(
    ("made", "stood", "values", "comes"),
    [
        ("BY DEFAULT AS IDENTITY", "", [1, 2, 7], 8),
        ("ALWAYS AS IDENTITY (INCREMENT BY 5)", "", [1, 6, 11], 16),
        ("BY DEFAULT AS IDENTITY (INCREMENT BY -1)", "", [-1, -2], -3),
        ("BY DEFAULT AS IDENTITY", "RESTART WITH 40", [1, 7], 40),
        ("BY DEFAULT AS IDENTITY", "", [], 1),
        ("BY DEFAULT AS IDENTITY", "", [0, -4], 1),
        ("BY DEFAULT AS IDENTITY (MAXVALUE 9)", "", [3, 9, 12], 4),
    ],
)
def test_after_a_copy_a_column_goes_on_past_its_values_and_not_before_where_it_was(
    world: World, names: tuple[str, str], made: str, stood: str, values: list[int], comes: int
) -> None:
    """Values that the sequence cannot give were given by hand: they say nothing."""
    world.sql(f"ALTER TABLE sums ADD COLUMN id bigint GENERATED {made}")
    if stood:
        world.sql(f"ALTER TABLE sums ALTER COLUMN id {stood}")
    world.run(open_shadow(names[1]))
    for n in values:
        world.sql(f"INSERT INTO {names[1]}_next.sums OVERRIDING SYSTEM VALUE VALUES (%s, 1, %s)", f"order:{n}", n)
    assert swapped(world, names[1]) == "copied"
    assert world.sql("INSERT INTO sums VALUES ('new', 1) RETURNING id") == [(comes,)]


def test_a_sequence_of_another_table_stays_where_it_was(world: World, names: tuple[str, str]) -> None:
    for table in ("apart", "sums"):
        world.sql(f"ALTER TABLE {table} ADD COLUMN id int GENERATED BY DEFAULT AS IDENTITY")
    world.run(open_shadow(names[1]))
    world.sql(f"INSERT INTO {names[1]}_next.sums VALUES ('order:1', 1, 7)")
    world.sql("INSERT INTO apart VALUES ('order:1', 1, 9)")
    assert swapped(world, names[1]) == "copied"
    assert world.sql("INSERT INTO apart VALUES ('order:2', 1) RETURNING id") == [(1,)]


def test_a_swap_that_is_rolled_back_leaves_the_sequence_where_it_was(world: World, names: tuple[str, str]) -> None:
    world.sql("ALTER TABLE sums ADD COLUMN id int GENERATED BY DEFAULT AS IDENTITY")
    world.run(open_shadow(names[1]))
    world.sql(f"INSERT INTO {names[1]}_next.sums VALUES ('order:1', 1, 7)")
    with world.conn.transaction(force_rollback=True):
        assert swapped(world, names[1]) == "copied"
    assert world.sql("INSERT INTO sums VALUES ('order:2', 1) RETURNING id") == [(1,)]


def test_a_swap_is_written_down_with_its_own_time_and_not_that_of_its_transaction(
    world: World, names: tuple[str, str]
) -> None:
    world.run(open_shadow(names[1]))
    with world.conn.transaction():
        world.sql("SELECT now()")
        ((moment,),) = world.sql("SELECT clock_timestamp()")
        assert swapped(world, names[1]) == "moved"
    assert world.sql("SELECT min(updated_at) > %s FROM checkpoints WHERE projection = %s", moment, names[1]) == [
        (True,)
    ]
    assert world.sql("SELECT rebuilt_at > %s FROM projections WHERE projection = %s", moment, names[1]) == [(True,)]


def test_what_was_forgotten_is_not_swapped(world: World, names: tuple[str, str]) -> None:
    assert world.sql("SELECT swap_shadow('nobody', 2, 9)") == [(None,)]
    assert world.sql("SELECT DISTINCT shards, rebuilt_at FROM projections") == [(2, None)]


def test_nobody_changes_or_forgets_a_projection_while_its_tables_are_swapped(
    world: World, names: tuple[str, str]
) -> None:
    """The swap waits for somebody who reads the old table; the row of the projection is its own by then."""
    world.run(open_shadow(names[1]))
    reader = world.connect()
    with reader.transaction():
        reader.execute(f"SELECT FROM h_{world.schema}.sums".encode())
        swapping = Beside(lambda: swapped(world, names[1]))
        waits_for_a_lock(world, world.conn)
        with pytest.raises(LockNotAvailable):
            world.connect().execute("SELECT FROM projections WHERE projection = %s FOR UPDATE NOWAIT", [names[1]])
    assert swapping.result() == "moved"


@pytest.mark.parametrize("verb", [forget_projection, resume_projection])
def test_who_changes_a_projection_waits_for_the_swap_that_holds_its_checkpoints(
    world: World, names: tuple[str, str], verb: Callable[[str], Statement[Any]]
) -> None:
    """All take the projection first. In another order each would wait for the other, and Postgres would end one."""
    world.run(open_shadow(names[1]))
    world.sql("UPDATE checkpoints SET state = 'stopped', stopped_at = 1 WHERE projection = %s AND shard = 1", names[1])
    changer = world.connect()
    with world.conn.transaction():
        world.run(lock_checkpoints(names[1]))
        changing = Beside(lambda: world.run(verb(names[1]), changer))
        waits_for_a_lock(world, changer)
        assert swapped(world, names[1]) == "moved"
    assert changing.result()


# -- asking for one


def asked(world: World, name: str, conn: psycopg.Connection[Any] | None = None) -> UUID:
    return world.run(ask_rebuild(name), conn)


def test_each_projection_has_one_rebuild_at_a_time_and_a_new_one_when_that_has_ended(
    world: World, names: tuple[str, str]
) -> None:
    other, mine = names
    first = asked(world, other)
    second = asked(world, mine)
    assert first != second
    assert (asked(world, other), asked(world, mine)) == (first, second)
    assert dict(world.sql("SELECT projection, rebuild_id FROM projections")) == {other: first, mine: second}
    world.sql("DELETE FROM live WHERE id = %s", second)
    third = asked(world, mine)
    assert third not in (first, second)
    assert dict(world.sql("SELECT projection, rebuild_id FROM projections")) == {other: first, mine: third}
    with pytest.raises(BadSettings, match="there is no projection 'nobody'"):
        asked(world, "nobody")


def test_a_rebuild_goes_to_the_queue_that_a_worker_has_declared_for_it_or_to_that_of_its_shards(
    world: World, names: tuple[str, str]
) -> None:
    def queue(name: str) -> str:
        return str(world.sql("SELECT queue FROM live WHERE id = %s", asked(world, name))[0][0])

    assert queue(names[0]) == f"projection:{names[0]}"
    world.run(plan_projection("third", shards=2, like=None, queue="theirs"))
    world.run(plan_projection("fourth", shards=1, like=None, queue="those"))
    assert queue("third") == "theirs"
    Journal(inbox := Inbox(schema=world.schema)).projection("fourth", queue="mine")(lambda _tx, _event: None)
    with working(world, inbox, queues={"none": 1}):
        eventually(lambda: world.run(declared("rebuild:fourth")))
    assert queue("fourth") == "mine"


def test_two_who_ask_at_once_get_the_same_rebuild(world: World, names: tuple[str, str]) -> None:
    first, second = world.connect(), world.connect()
    with first.transaction():
        one = asked(world, names[1], first)
        asking = Beside(lambda: asked(world, names[1], second))
        waits_for_a_lock(world, second)
    assert asking.result() == one
