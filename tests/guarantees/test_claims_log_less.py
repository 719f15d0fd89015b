"""What a claim changes stands at the end of a row: a claim logs no payload, and a table from before loses nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg
import pytest

from plans import Plans
from tenure import postgres, verbs
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from tenure.verbs import settle
from world import World

BEFORE, AFTER = 22, 23
MOVED = (
    "lease_generation", "fence_token", "claimed_at", "lease_expires_at", "claim_id", "attempts", "limited", "status",
    "claimed_by",
)  # fmt: skip
_numbers = count(1)

# All that a table has, each thing by its name, in no order.
THINGS = {
    "columns": """
        SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
          pg_get_expr(d.adbin, d.adrelid), a.attacl, COALESCE(a.attstattarget, -1), a.attstorage,
          col_description(a.attrelid, a.attnum)
        FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
        WHERE a.attrelid = 'live'::regclass AND a.attnum > 0 AND NOT a.attisdropped""",
    "constraints": "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'live'::regclass",
    "indexes": "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'live'::regclass",
    "triggers": "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'live'::regclass",
    "tables": """
        SELECT oid, relacl, reloptions, relreplident FROM pg_class
        WHERE oid IN ('live'::regclass, 'inbox'::regclass)""",
    "view": "SELECT pg_get_viewdef('inbox'::regclass)",
    "sequence": "SELECT pg_get_serial_sequence('live', 'seq')",
}  # fmt: skip


@pytest.fixture
def before(server_url: str) -> Iterator[World]:
    """A schema as it was, with the statements of today."""
    schema = f"before_{os.getpid()}_{next(_numbers)}"
    with postgres.connect(server_url) as conn:
        migrate.apply(conn, schema, to=BEFORE)
    world = World(server_url, schema)
    yield world
    world.sql(f'DROP SCHEMA "{schema}" CASCADE')
    world.close()


def things(world: World) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(world.sql(query), key=str) for name, query in THINGS.items()}


def logged(world: World, letters: int) -> float:
    """Bytes that a claim logs for each of its rows, when nothing was on its pages since the last checkpoint."""
    plans, found = Plans(world), []
    for _ in range(5):
        world.run(verbs.enqueue_many([NewRow("work", {"note": "x" * letters})] * 20))
        plans.of(verbs.claim("A", 20))
        found.append(plans.logged / 20)
    return min(found)


def test_a_claim_logs_no_payload(world: World) -> None:
    if world.sql("SHOW wal_level") == [("logical",)]:  # as on nodes of Citus
        pytest.skip("for readers that decode it, the server logs the whole of a changed row")
    assert logged(world, 1500) < logged(world, 100) + 100 < 500


def test_control_before_a_claim_logged_it(before: World) -> None:
    assert logged(before, 1500) > logged(before, 100) + 1000


def test_a_table_from_before_keeps_all_it_has(before: World) -> None:
    before.sql("GRANT UPDATE (status, kind), INSERT (attempts) ON live TO PUBLIC")
    before.sql("GRANT SELECT ON inbox TO PUBLIC")
    before.sql("COMMENT ON COLUMN live.status IS 'it''s ours'")
    before.sql("ALTER TABLE live ALTER COLUMN attempts SET STATISTICS 77")
    before.sql("ALTER TABLE live REPLICA IDENTITY FULL")
    had = things(before)
    migrate.apply(before.conn, before.schema, to=AFTER)
    have = things(before)
    checks = [dict(each.pop("constraints")) for each in (had, have)]
    assert have == had
    assert set(checks[0]) - set(checks[1]) == {"live_status"}
    assert {name for name in checks[1] if checks[0][name] != checks[1][name]} == {"live_owned_or_free"}


def test_rows_from_before_are_what_they_were(before: World) -> None:
    """Waiting, held, retried, given back, held under a limit, and brought back with its tokens."""
    for _ in range(4):
        before.enqueue("work")
    held, retried, released = before.claim("A", 3)
    before.run(settle.retry([retried.lease], ["once more"]))
    before.run(settle.release([released.lease]))
    before.sql("UPDATE live SET limited = true WHERE id = %s", held.id)
    before.sql("INSERT INTO live (kind, payload, lease_generation, fence_token) VALUES ('work', '{}', 7, 12345)")
    query = f"SELECT id, {', '.join(MOVED)}, payload, last_error FROM live ORDER BY id"
    rows, shown = before.sql(query), before.sql("SELECT * FROM inbox ORDER BY id")
    assert len(rows) == 5
    migrate.apply(before.conn, before.schema, to=AFTER)
    assert before.sql(query) == rows
    assert before.sql("SELECT * FROM inbox ORDER BY id") == shown
    before.sql("UPDATE live SET limited = false")
    assert before.fail(held.lease).ok
    before.due()
    assert len(before.claim("B", 9)) == 4


def test_a_session_goes_on_through_it(before: World) -> None:
    """What it has prepared before it runs after it, also inside functions."""
    session = before.connect()
    session.prepare_threshold = 0
    for _ in range(3):
        before.run(verbs.enqueue(NewRow("work")), session)
    (first,) = before.run(verbs.claim("A", 1), session)
    assert before.run(settle.fail([first.lease], ["no"]), session)[0].ok
    (second,) = before.run(verbs.claim("A", 1), session)
    migrate.apply(before.conn, before.schema, to=AFTER)
    assert before.run(settle.fail([second.lease], ["no"]), session)[0].ok
    (third,) = before.run(verbs.claim("A", 1), session)
    before.run(settle.retry([third.lease], ["once more"]), session)
    before.run(verbs.enqueue(NewRow("work")), session)
    assert before.sql("SELECT count(*) FROM live") == [(2,)]


def test_a_question_about_other_states_does_not_look_at_live_rows(world: World) -> None:
    world.enqueue("work")
    plan = world.sql("EXPLAIN SELECT id FROM inbox WHERE status = 'dead_letter'")
    assert not [line for (line,) in plan if "on live" in line]


def test_a_view_on_what_is_moved_stops_the_migration_and_loses_nothing(before: World) -> None:
    before.sql("CREATE VIEW held AS SELECT id, claimed_by FROM live WHERE status = 'processing'")
    had = things(before)
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match=r"view .*held depends on column"):
        migrate.apply(before.conn, before.schema, to=AFTER)
    assert things(before) == had
