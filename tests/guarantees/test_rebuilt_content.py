"""After a rebuild the tables hold what the journal says: of many batches, under load, with names found by path.

The old tables hold a row that no event made: only tables that were truly filled anew are without it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from crew import eventually, working
from guarantees.facts import user_connection
from tenure.app.inbox import Inbox
from tenure.errors import StaleLease
from tenure.events import ProjectionStopped, ProjectionSwapped, StaleWriteBlocked
from tenure.model.journal import Event, NewEvent
from tenure.model.rows import Lane
from tenure.postgres import run
from tenure.shapes.projection import Journal
from tenure.testing.address import with_schema
from tenure.verbs.journal import append
from tenure.verbs.projections import advance, plan_projection
from tenure.verbs.rebuild import ask_rebuild
from world import World

pytestmark = pytest.mark.one_server

ADD = b"INSERT INTO sums AS s VALUES (%s, %s) ON CONFLICT (stream) DO UPDATE SET amount = s.amount + EXCLUDED.amount"
TOLD = "SELECT stream, sum((data->>'amount')::int)::int FROM journal GROUP BY stream"
BATCH = 5


@pytest.fixture
def place(world: World) -> Iterator[str]:
    """A schema of the user's, with the table in it."""
    name = f"p_{world.schema}"
    world.sql(f"CREATE SCHEMA {name}")
    world.sql(f"CREATE TABLE {name}.sums (stream text PRIMARY KEY, amount int)")
    yield name
    world.sql(f"DROP SCHEMA {name} CASCADE")


def projection(
    world: World, *, tables: str = "sums", way: str = "plain", before: str = "", shards: int = 1, **how: Any
) -> Journal:
    """Of small batches, so that a few events are many of them; it may put a schema of its own before the others."""
    journal = Journal(Inbox(schema=world.schema))
    made = journal.projection(
        f"sums_{world.schema}", of=["order.*"], tables=[tables], shards=shards, batch=BATCH, **how
    )
    first = "SELECT set_config('search_path', %s || current_setting('search_path'), true)"

    def apply(tx: psycopg.Connection[Any], event: Event) -> None:
        tx.execute(first, [before])
        tx.execute(ADD, [event.stream, event.data["amount"]])

    async def apply_on_loop(tx: psycopg.AsyncConnection[Any], event: Event) -> None:
        await tx.execute(first, [before])
        await tx.execute(ADD, [event.stream, event.data["amount"]])

    made(apply_on_loop if way == "async" else apply)
    return journal


def pay(world: World, conn: psycopg.Connection[Any], n: int) -> None:
    """So many events, each committed alone."""
    for each in range(n):
        run(conn, append(f"order:{each % 7}", [NewEvent("order.paid", {"amount": each})]), world.schema)
        conn.commit()


def told(world: World) -> dict[str, int]:
    return dict(world.sql(TOLD))


def sums(world: World, place: str) -> dict[str, int]:
    return dict(world.sql(f"SELECT stream, amount FROM {place}.sums"))


def spoil(world: World, place: str) -> None:
    world.sql(f"INSERT INTO {place}.sums VALUES ('nobody', 1)")


@pytest.mark.parametrize("batches", [0, 1, 2, 8])
@pytest.mark.parametrize("way", ["plain", "async"])
@pytest.mark.parametrize("hangs", ["nothing", "a view"])
def test_tables_found_by_the_search_path_are_rebuilt_whole(
    world: World, place: str, batches: int, way: str, hangs: str
) -> None:
    if hangs == "a view":
        world.sql(f"CREATE VIEW {place}.seen AS SELECT stream, amount FROM {place}.sums")
    journal, conn = projection(world, way=way), user_connection(world)
    pay(world, conn, batches * BATCH)
    with working(world, journal.inbox, url=with_schema(world.url, place)) as hired:
        eventually(lambda: sums(world, place) == told(world))
        spoil(world, place)
        world.run(ask_rebuild(f"sums_{world.schema}"))
        (swapped,) = hired.saw(ProjectionSwapped)
        assert swapped.how == ("moved" if hangs == "nothing" else "copied")
        assert sums(world, place) == told(world)
        pay(world, conn, BATCH)
        eventually(lambda: sums(world, place) == told(world))


@pytest.mark.parametrize("named", ["sums", "place.sums"])
@pytest.mark.parametrize("before", ["", "pg_catalog, ", '"$user", '])
def test_tables_are_rebuilt_whole_whatever_path_the_function_sets_and_however_they_are_named(
    world: World, place: str, named: str, before: str
) -> None:
    journal = projection(world, tables=named.replace("place", place), before=before, shards=3)
    pay(world, user_connection(world), 4 * BATCH)
    with working(world, journal.inbox, url=with_schema(world.url, place)) as hired:
        eventually(lambda: sums(world, place) == told(world))
        spoil(world, place)
        world.run(ask_rebuild(f"sums_{world.schema}"))
        assert hired.saw(ProjectionSwapped)[0].how == "moved"
        assert sums(world, place) == told(world)


@pytest.mark.parametrize("way", ["plain", "async"])
def test_under_load_every_rebuild_gives_what_the_journal_says(world: World, place: str, way: str) -> None:
    """Writers go on all the time: the swap itself has events left to apply, more than one batch of them."""
    journal, rebuilds = projection(world, way=way, shards=3), 4
    conns, full = [user_connection(world) for _ in range(2)], threading.Event()

    def write(conn: psycopg.Connection[Any]) -> None:
        while not full.wait(0.1):  # slower than a rebuild reads, on a busy machine too
            pay(world, conn, 10)

    writers = [threading.Thread(target=write, args=[conn], daemon=True) for conn in conns]
    with working(world, journal.inbox, url=with_schema(world.url, place)) as hired:
        for each in writers:
            each.start()
        for n in range(1, rebuilds + 1):
            spoil(world, place)
            world.run(ask_rebuild(f"sums_{world.schema}"))
            hired.saw(ProjectionSwapped, n)
            assert "nobody" not in sums(world, place), f"rebuild {n} was thrown away"
        full.set()
        for each in writers:
            each.join(60)
        eventually(lambda: sums(world, place) == told(world))
        assert {event.how for event in hired.of(ProjectionSwapped)} == {"moved"}


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_streams_are_dealt_among_another_number_of_shards_and_each_event_counts_once(
    world: World, place: str, before: int, after: int
) -> None:
    """Without a new start: the rows of new shards come with the swap, and those of shards that are no more end."""
    old, new = (projection(world, shards=n) for n in (before, after))
    conn, url = user_connection(world), with_schema(world.url, place)
    pay(world, conn, 30)
    with working(world, old.inbox, url=url):
        eventually(lambda: sums(world, place) == told(world))
    with working(world, new.inbox, url=url) as hired:
        spoil(world, place)
        world.run(ask_rebuild(f"sums_{world.schema}"))
        while not hired.of(ProjectionSwapped):
            pay(world, conn, 7)
        pay(world, conn, 30)
        eventually(lambda: sums(world, place) == told(world))
        shards = [(n,) for n in range(after)]
        assert world.sql("SELECT shard FROM checkpoints ORDER BY shard") == shards
        held = "SELECT DISTINCT (payload->>'shard')::int FROM live WHERE status = 'processing' ORDER BY 1"
        eventually(lambda: world.sql(held) == shards and world.count("live") == after)
        assert not hired.of(StaleWriteBlocked)


def test_what_was_read_before_the_streams_were_dealt_anew_is_not_written(world: World) -> None:
    """The checkpoint may be where it was, but what the shard has read is no longer its own."""
    world.run(plan_projection("p", shards=2, like=None))
    held = world.claim_one("A", lanes=[Lane("projection:p")])
    ((shard,),) = world.sql("SELECT shard FROM checkpoints WHERE row_id = %s", held.id)
    world.run(plan_projection("q", shards=3, like=None))
    world.run(advance("p", shard, 0, 5, held, shards=2))
    world.sql("UPDATE projections SET shards = 3 WHERE projection = 'p'")
    with pytest.raises(StaleLease, match="checkpoint_moved"):
        world.run(advance("p", shard, 5, 9, held, shards=2))
    world.run(advance("p", shard, 5, 9, held, shards=3))
    world.run(advance("p", shard, 9, 10, held))


@pytest.mark.parametrize(
    "number",
    ["bigint GENERATED BY DEFAULT AS IDENTITY", "int GENERATED ALWAYS AS IDENTITY (CACHE 20)", "serial"],
)
def test_after_a_rebuild_new_rows_get_numbers_that_no_row_has(world: World, place: str, number: str) -> None:
    """The mended function makes more rows of each event: the numbers of the new table are ahead of the old ones."""
    world.sql(f"CREATE TABLE {place}.lines (id {number} PRIMARY KEY, stream text)")
    journal, each, conn = Journal(Inbox(schema=world.schema)), [1], user_connection(world)

    @journal.projection(f"lines_{world.schema}", tables=["lines"])
    def apply(tx: psycopg.Connection[Any], event: Event) -> None:
        for _ in range(each[0]):
            tx.execute("INSERT INTO lines (stream) VALUES (%s)", [event.stream])

    def lines() -> int:
        return int(world.sql(f"SELECT count(*) FROM {place}.lines")[0][0])

    pay(world, conn, 10)
    with working(world, journal.inbox, url=with_schema(world.url, place)) as hired:
        eventually(lambda: lines() == 10)
        each[0] = 5
        world.run(ask_rebuild(f"lines_{world.schema}"))
        assert hired.saw(ProjectionSwapped)[0].how == "copied"
        assert lines() == 50
        pay(world, conn, 4)
        eventually(lambda: lines() == 70 or hired.of(ProjectionStopped))
        assert not hired.of(ProjectionStopped)


@pytest.mark.parametrize("type", ["text", "numeric", "smallint", "int", "bigint"])
def test_a_sequence_is_raised_past_numbers_it_can_give_and_left_alone_beside_text(world: World, type: str) -> None:
    """Codes such as A7 are made of a sequence that their column owns, and are no numbers."""
    world.sql("CREATE SEQUENCE given MAXVALUE 100")
    first, gives = ("'A' || ", "A") if type == "text" else ("", "")
    world.sql(f"CREATE TABLE codes (code {type} DEFAULT {first}nextval('given'))")
    world.sql("ALTER SEQUENCE given OWNED BY codes.code")
    world.sql(f"INSERT INTO codes VALUES ('{gives}7'), ('{gives}101')")
    world.sql("SELECT raise_sequences('codes'::regclass)")
    assert world.sql("SELECT nextval('given')::int") == [(1 if type == "text" else 8,)]


@pytest.mark.parametrize(("step", "number", "then"), [(10, 5, 11), (10, 11, 21), (-10, -5, -11), (-10, -11, -21)])
def test_a_sequence_is_raised_only_past_numbers_that_it_has_not_passed(
    world: World, step: int, number: int, then: int
) -> None:
    """It gives every tenth: one between the last that it gave and the next is none that it would give."""
    first = 1 if step > 0 else -1
    world.sql(f"CREATE SEQUENCE given INCREMENT {step} START {first}")
    world.sql("CREATE TABLE codes (code int DEFAULT nextval('given'))")
    world.sql("ALTER SEQUENCE given OWNED BY codes.code")
    world.sql("SELECT nextval('given')")
    world.sql(f"INSERT INTO codes VALUES ({number})")
    world.sql("SELECT raise_sequences('codes'::regclass)")
    assert world.sql("SELECT nextval('given')") == [(then,)]


def test_a_rebuild_is_done_by_a_worker_of_the_projections_own_queue(world: World, place: str) -> None:
    journal = projection(world, queue="apart")
    pay(world, user_connection(world), BATCH)
    with working(world, journal.inbox, url=with_schema(world.url, place)) as hired:
        eventually(lambda: sums(world, place) == told(world))
        spoil(world, place)
        world.run(ask_rebuild(f"sums_{world.schema}"))
        hired.saw(ProjectionSwapped)
        assert sums(world, place) == told(world)
