"""What else lives in the database: readers of its log, sessions with their own calendar, snapshots held for hours."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from psycopg import sql as identifiers

from crew import eventually
from guarantees.facts import Beside, user_connection
from patience import SECONDS_MAX
from tenure import verbs
from tenure.postgres import connect, migrate
from tenure.verbs import fleet, operators
from world import World

EVERY_TABLE = (
    "SELECT c.relname, c.relreplident, EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary)"
    " FROM pg_class AS c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' ORDER BY 1"
)


@pytest.fixture
def published(world: World) -> Iterator[World]:
    """A world whose every table is published, as FOR ALL TABLES does to a whole database."""
    tables = world.sql(
        "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = current_schema()::regnamespace"
        " AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
    )
    names = identifiers.SQL(", ").join(identifiers.Identifier(world.schema, name) for (name,) in tables)
    name = identifiers.Identifier(f"of_{world.schema}")
    world.conn.execute(identifiers.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, names))
    yield world
    world.conn.execute(identifiers.SQL("DROP PUBLICATION {}").format(name))


def completed(world: World) -> UUID:
    id = world.enqueue()
    assert world.complete(world.claim_one().lease).standing == "applied"
    return id


# -- readers of the log


def test_a_published_row_is_deleted_from_the_archive(published: World) -> None:
    id = completed(published)
    assert published.run(operators.delete([id])) == [id]
    assert published.count("archive") == 0


def test_retention_goes_on_while_the_tables_are_published(published: World) -> None:
    published.sql("SELECT keep_archive()")
    completed(published)
    columns = (
        "created_at, available_at, claimed_at, lease_generation, fence_token, attempts, max_attempts, priority, ordered"
    )
    more = f"{columns}, kind, queue, finished_by, payload"
    published.sql(  # where no day is
        f"INSERT INTO archive (id, completed_at, {more})"
        f" SELECT id, completed_at - interval '40 days', {more} FROM archive"
    )
    assert published.count("archive_rest") == 1
    kept = dict(published.sql("SELECT what, n FROM keep_archive()"))
    assert kept["stray_rows_forgotten"] == 1


def test_every_table_says_which_row_a_change_is_about(world: World) -> None:
    """Without a primary key or the whole old row, a table that is published takes neither UPDATE nor DELETE."""
    without = [name for name, said, has_key in world.sql(EVERY_TABLE) if said not in ("f", "i") and not has_key]
    assert without == []


def test_so_does_a_day_that_stood_before_this_version(world: World) -> None:
    with connect(world.url) as conn:
        schema = f"{world.schema}_old"
        migrate.apply(conn, schema, to=9)
        migrate.apply(conn, schema)
        conn.execute(identifiers.SQL("SET search_path = {}").format(identifiers.Identifier(schema)))
        found = conn.execute(EVERY_TABLE.encode()).fetchall()
    days = [name for name, said, _ in found if name.startswith("archive_") and said == "f"]
    assert len(days) == 5  # four days and the rest


# -- a calendar of one's own


@pytest.mark.parametrize("style", ["SQL, DMY", "German", "Postgres, MDY", "ISO, YMD"])
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_a_day_of_the_archive_is_a_day_of_utc_whatever_the_session_says(world: World, style: str, zone: str) -> None:
    drop_days(world)
    conn = world.connect()
    conn.execute(f"SET DateStyle = '{style}'".encode())
    conn.execute(f"SET TimeZone = '{zone}'".encode())
    conn.execute("SELECT keep_archive()")
    assert bounds(world) == four_days(world)


def test_a_day_that_was_made_askew_costs_no_round_of_housekeeping(world: World) -> None:
    """Before, such a session made days from 03:30 to 03:30: the next straight one overlaps."""
    drop_days(world)
    (first, *_) = four_days(world)
    day = first[1] + timedelta(hours=3.5)
    askew = f"archive_{first[1] - timedelta(days=1):%Y%m%d}"
    world.sql("SET TimeZone = 'UTC'")
    world.sql(f"CREATE TABLE {askew} PARTITION OF archive FOR VALUES FROM ('{day - timedelta(days=1)}') TO ('{day}')")
    kept = dict(world.sql("SELECT what, n FROM keep_archive()"))
    assert kept["partitions_made"] == 3
    completed(world)
    assert world.count("archive") == 1


def test_a_worker_login_keeps_the_archive_after_an_upgrade_too(world: World) -> None:
    """What the roles made of keep_archive outlives its replacement."""
    ((definer, settings),) = world.sql("SELECT prosecdef, proconfig FROM pg_proc WHERE oid = 'keep_archive'::regproc")
    with connect(world.url) as conn:
        schema = f"{world.schema}_old"
        migrate.apply(conn, schema, to=9)
        conn.execute(
            f"ALTER FUNCTION {schema}.keep_archive SECURITY DEFINER SET search_path = pg_catalog, pg_temp".encode()
        )
        migrate.apply(conn, schema)
        found = conn.execute(
            "SELECT prosecdef, proconfig FROM pg_proc WHERE oid = %s::regproc", [f"{schema}.keep_archive"]
        ).fetchone()
    assert not definer
    assert found == (True, [*settings, "search_path=pg_catalog, pg_temp"])


def drop_days(world: World) -> None:
    for name, *_ in bounds(world):
        world.sql(f"DROP TABLE {name}")


def bounds(world: World) -> list[tuple[str, datetime, datetime]]:
    """The days of the archive, with where each begins and ends."""
    conn = world.connect()
    conn.execute("SET TimeZone = 'UTC'")
    conn.execute("SET DateStyle = 'ISO, YMD'")
    found = conn.execute(
        "SELECT c.relname, (regexp_match(b.it, 'FROM \\(''([^'']+)''\\)'))[1]::timestamptz,"
        " (regexp_match(b.it, 'TO \\(''([^'']+)''\\)'))[1]::timestamptz"
        " FROM pg_inherits AS h JOIN pg_class AS c ON c.oid = h.inhrelid"
        " CROSS JOIN LATERAL pg_get_expr(c.relpartbound, c.oid) AS b (it)"
        " WHERE h.inhparent = 'archive'::regclass AND b.it <> 'DEFAULT' ORDER BY 1"
    ).fetchall()
    return [(name, start, end) for name, start, end in found]


def four_days(world: World) -> list[tuple[str, datetime, datetime]]:
    ((today,),) = world.sql("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")
    return [_day(today + timedelta(days=n)) for n in range(4)]


def _day(day: date) -> tuple[str, datetime, datetime]:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return f"archive_{day:%Y%m%d}", start, start + timedelta(days=1)


# -- snapshots held for hours


def test_the_small_hot_tables_are_vacuumed_without_a_pause(world: World) -> None:
    """They are few pages that change all the time: each dead version is passed by every look."""
    hot = {"live", "heads", "arrivals", "claims", "permits", "workers", "queues", "chores", "tally"}
    found = world.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND 'autovacuum_vacuum_cost_delay=0' = ANY (reloptions)"
    )
    assert {name for (name,) in found} >= hot


def test_beside_a_held_snapshot_the_registry_stays_small(world: World) -> None:
    """Every enqueue looks through it, and every claim at its worker: dead versions must not pile up there."""
    world.run(fleet.register("A"))
    holder = user_connection(world)
    holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    holder.execute("SELECT FROM workers")
    world.sql("DO $$ BEGIN FOR n IN 1..5000 LOOP UPDATE workers SET last_seen_at = clock_timestamp(); END LOOP; END $$")
    dead = "SELECT pg_stat_get_dead_tuples('workers'::regclass)"
    eventually(lambda: world.sql(dead)[0][0] > 2_000)
    world.run(fleet.set_waiting("A", waiting=True))
    before = world.sql("SELECT ctid FROM workers")
    for waiting in (False, True, False, True, False):
        assert world.run(fleet.set_waiting("A", waiting=waiting))
    assert world.sql("SELECT ctid FROM workers") == before
    assert world.sql("SELECT waiting FROM workers") == [(True,)], "a note too many, rather than one too few"
    holder.rollback()

    def heard() -> bool:
        world.sql("VACUUM workers")
        world.run(fleet.set_waiting("A", waiting=False))
        return world.sql("SELECT waiting FROM workers") == [(False,)]

    eventually(heard)


def test_to_say_again_that_one_sleeps_changes_nothing(world: World) -> None:
    world.run(fleet.register("A"))
    world.run(fleet.set_waiting("A", waiting=True))
    before = world.sql("SELECT ctid FROM workers")
    assert world.run(fleet.set_waiting("A", waiting=True))
    assert world.sql("SELECT ctid FROM workers") == before


# -- two-phase commit (tests/chaos/test_two_phase.py prepares; here no server can)


def test_a_note_that_waits_for_its_commit_is_sent_by_it(world: World) -> None:
    ear, producer = user_connection(world, autocommit=True), user_connection(world)
    ear.execute(f"LISTEN {world.sql('SELECT channel()')[0][0]}".encode())
    producer.execute("INSERT INTO wakes (queue, bucket) VALUES ('mail', 7), ('mail', NULL)")
    assert list(ear.notifies(timeout=0.1)) == []
    producer.commit()
    assert {note.payload for note in ear.notifies(timeout=SECONDS_MAX, stop_after=2)} == {"7 mail", "* mail"}
    assert world.count("wakes") == 0


def test_a_note_in_a_statement_that_speaks_of_prepare_transaction_is_left_to_polling(world: World) -> None:
    ear = user_connection(world, autocommit=True)
    ear.execute(f"LISTEN {world.sql('SELECT channel()')[0][0]}".encode())
    world.sql("INSERT INTO wakes (queue) VALUES ('left out') -- Prepare  Transaction")
    world.sql("INSERT INTO wakes (queue) VALUES ('sent')")
    assert [note.payload for note in ear.notifies(timeout=SECONDS_MAX, stop_after=1)] == ["* sent"]


# -- a clock that was set back: what was written before lies in the future


def set_back(world: World, hours: int = 1) -> None:
    """The clock was ahead by so many hours when all this was written."""
    world.sql(
        "UPDATE live SET claimed_at = claimed_at + %s * interval '1 hour',"
        " lease_expires_at = lease_expires_at + %s * interval '1 hour' WHERE status = 'processing'",
        hours,
        hours,
    )
    world.sql("UPDATE workers SET last_seen_at = last_seen_at + %s * interval '1 hour'", hours)


def seconds_left(world: World) -> float:
    ((left,),) = world.sql("SELECT date_part('epoch', lease_expires_at - clock_timestamp()) FROM live")
    return float(left)


def test_a_lease_that_is_too_long_is_as_long_as_any_after_its_next_renewal(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    set_back(world)
    assert seconds_left(world) > 3600
    world.run(verbs.renew([lease], lease_seconds=90))
    assert seconds_left(world) <= 90


def test_a_lease_that_is_too_long_does_not_outlive_the_session_of_its_worker(world: World) -> None:
    session = world.connect()
    world.run(fleet.register("A"), session)
    world.run(fleet.appear("A"), session)
    id = world.enqueue()
    world.claim_one("A")
    set_back(world)
    session.close()
    eventually(lambda: world.run(fleet.notice(grace_seconds=0.0)).get("A") == "gone")
    eventually(lambda: world.run(fleet.notice(grace_seconds=0.0)).get("A") == "dead")
    assert [each.id for each in world.run(fleet.evict(grace_seconds=0.0))] == [id]
    assert world.status(id) == "pending"


def test_a_worker_seen_in_the_future_is_dead_when_it_stays_silent_from_now_on(world: World) -> None:
    """Else the dead would keep their buckets for as long as the step was."""
    world.run(fleet.register("A"))
    set_back(world)
    assert world.run(fleet.sweep_workers(ttl_seconds=30)) == {}
    world.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '31 seconds'")  # as if so much time had passed
    assert world.run(fleet.sweep_workers(ttl_seconds=30)) == {"A": "dead"}


def test_a_worker_that_is_seen_a_little_ahead_is_left_alone(world: World) -> None:
    world.run(fleet.register("A"))
    world.sql("UPDATE workers SET last_seen_at = clock_timestamp() + interval '20 seconds'")
    before = world.sql("SELECT ctid FROM workers")
    world.run(fleet.sweep_workers(ttl_seconds=30))
    assert world.sql("SELECT ctid FROM workers") == before


def test_a_worker_seen_in_the_future_whose_row_is_locked_is_left_to_the_next_round(world: World) -> None:
    world.run(fleet.register("A"))
    set_back(world)
    other = world.connect()
    with other.transaction():
        other.execute("SELECT id FROM workers FOR UPDATE")
        assert Beside(lambda: world.run(fleet.sweep_workers())).result() == {}
    assert world.sql("SELECT last_seen_at > clock_timestamp() + interval '1 minute' FROM workers") == [(True,)]
