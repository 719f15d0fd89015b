"""Migrations: safe to run twice, by ten at once, killed half-way, and honest about a schema that is not ours."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from guarantees.facts import Beside, until, waits_for_a_lock
from tenure import postgres, sql, verbs
from tenure.errors import BadSettings, SchemaMismatch
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from tenure.verbs import settle
from world import World

_numbers = itertools.count(1)
NEWEST = migrate.newest()


class Empty(World):
    """A schema that does not exist yet."""


@pytest.fixture
def empty(server_url: str) -> Iterator[Empty]:
    world = Empty(server_url, f"m_{os.getpid()}_{next(_numbers)}")
    yield world
    world.sql(f'DROP SCHEMA IF EXISTS "{world.schema}" CASCADE')
    world.close()


def _exists(world: World) -> bool:
    return world.sql("SELECT to_regnamespace(%s) IS NOT NULL", f'"{world.schema}"') == [(True,)]


def _works(world: World) -> None:
    """A row goes through a whole life in this schema."""
    migrate.require(world.conn, world.schema)
    world.run(verbs.enqueue(NewRow("send_receipt", idempotency_key="k")))
    world.run(verbs.enqueue(NewRow("send_receipt", key="order:1", ordered=True)))
    jobs = world.run(verbs.claim("A", 1)) + world.run(verbs.claim_ordered("A", 1))
    assert len(jobs) == 2
    assert all(answer.ok for answer in world.run(settle.complete([job.lease for job in jobs])))
    assert "partitions_made" in world.run(verbs.archive())
    assert world.run(verbs.sweep_pages()) == []


def test_twice_applies_nothing_the_second_time(empty: Empty) -> None:
    assert [migration.version for migration in migrate.apply(empty.conn, empty.schema)] == list(range(1, NEWEST + 1))
    record = empty.sql("SELECT version, name, checksum, kind, applied_at FROM migrations ORDER BY version")
    assert migrate.apply(empty.conn, empty.schema) == []
    assert empty.sql("SELECT version, name, checksum, kind, applied_at FROM migrations ORDER BY version") == record
    _works(empty)


def test_ten_processes_at_once_apply_each_migration_once(empty: Empty) -> None:
    program = (
        "import sys; from tenure.postgres import connect, migrate; "
        "print(len(migrate.apply(connect(sys.argv[1]), sys.argv[2])))"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, empty.url, empty.schema], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(10)
    ]
    said = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0] * 10, said
    assert sorted(int(out) for out, _ in said) == [0] * 9 + [NEWEST]
    _works(empty)


def test_a_second_process_waits_for_the_first_and_then_finds_nothing_to_do(empty: Empty) -> None:
    second = empty.connect()
    with empty.conn.transaction():
        assert len(migrate.apply(empty.conn, empty.schema)) == NEWEST
        waiting = Beside(lambda: migrate.apply(second, empty.schema))
        waits_for_a_lock(empty, second)
    assert waiting.result() == []


def test_a_backend_killed_between_two_migrations_leaves_nothing(empty: Empty, monkeypatch: pytest.MonkeyPatch) -> None:
    real, ran = migrate._run_script, []

    def killed_before_the_second(conn: psycopg.Connection[Any], text: str) -> None:
        if "0002" in text or "enqueue_many" in text:
            empty.connect().execute("SELECT pg_terminate_backend(%s::int, 5000)", [conn.info.backend_pid])
        ran.append(text)
        real(conn, text)

    monkeypatch.setattr(migrate, "_run_script", killed_before_the_second)
    with pytest.raises(psycopg.OperationalError):
        migrate.apply(empty.connect(), empty.schema)
    assert len(ran) > 2  # it had begun
    until(lambda: not _exists(empty), "nothing is left")
    monkeypatch.undo()
    migrate.apply(empty.conn, empty.schema)
    _works(empty)


def test_up_to_a_version_and_then_the_rest(empty: Empty) -> None:
    assert [migration.version for migration in migrate.apply(empty.conn, empty.schema, to=1)] == [1]
    with pytest.raises(
        SchemaMismatch, match=f"is at migration 1, this package needs {NEWEST}: run `tenure migrate --schema "
    ):
        migrate.require(empty.conn, empty.schema)
    assert [migration.version for migration in migrate.apply(empty.conn, empty.schema)] == list(range(2, NEWEST + 1))
    _works(empty)


@pytest.mark.parametrize("to", [0, -1, NEWEST + 1])
def test_up_to_a_version_there_is_not_is_refused(empty: Empty, to: int) -> None:
    with pytest.raises(BadSettings, match=f"there is no migration {to}"):
        migrate.apply(empty.conn, empty.schema, to=to)
    assert not _exists(empty)


@pytest.mark.parametrize("schema", ["user", "select", "_x", "a" * 63, "tenure_2", "order"])
def test_other_schema_names_work_even_reserved_words(server_url: str, schema: str) -> None:
    world = Empty(server_url, schema)
    if _exists(world):
        world.close()
        pytest.skip(f"schema {schema} is somebody's: never dropped by a test")
    try:
        migrate.apply(world.conn, schema)
        _works(world)
        assert world.sql("SELECT count(*) FROM archive") == [(2,)]
    finally:
        world.sql(f'DROP SCHEMA "{schema}" CASCADE')
        world.close()


def test_two_schemas_of_one_database_know_nothing_of_each_other(world: World, empty: Empty) -> None:
    migrate.apply(empty.conn, empty.schema)
    world.enqueue(idempotency_key="k")
    assert empty.run(verbs.claim("A", 10)) == []
    assert empty.run(verbs.enqueue(NewRow("send_receipt", {"other": 1}, idempotency_key="k"))).outcome == "enqueued"
    assert len(world.claim("A", 10)) == 1


@pytest.mark.parametrize("schema", ["", "Tenure", "1a", "a-b", 'a"b', "a.b", "pg_x", "a" * 64, "ü", "a b", "a;drop"])
def test_a_schema_name_that_is_no_plain_name_is_refused(empty: Empty, schema: str) -> None:
    before = empty.sql("SELECT count(*) FROM pg_namespace")
    for action in (lambda: migrate.apply(empty.conn, schema), lambda: migrate.script(schema)):
        with pytest.raises(BadSettings, match="schema"):
            action()
    assert empty.sql("SELECT count(*) FROM pg_namespace") == before


def test_a_missing_schema_says_which_command_makes_it(empty: Empty) -> None:
    assert migrate.applied(empty.conn, empty.schema) == []
    with pytest.raises(SchemaMismatch, match="is missing: run `tenure migrate --schema "):
        migrate.require(empty.conn, empty.schema)
    assert not _exists(empty)


def test_a_migration_applied_with_another_text_is_refused(world: World) -> None:
    world.sql("UPDATE migrations SET checksum = 'x' WHERE version = 1")
    for action in (migrate.require, migrate.apply):
        with pytest.raises(BadSettings, match=r"migration 1 of schema .* was applied with another text"):
            action(world.conn, world.schema)


def test_a_hole_in_the_record_is_refused(world: World) -> None:
    world.sql("UPDATE migrations SET version = 77 WHERE version = 1")
    with pytest.raises(BadSettings):
        migrate.require(world.conn, world.schema)


def _future(world: World, kind: str) -> None:
    world.sql("INSERT INTO migrations (version, name, checksum, kind) VALUES (%s, 'future', 'x', %s)", NEWEST + 1, kind)


def test_a_schema_that_was_contracted_after_us_is_too_new(world: World) -> None:
    _future(world, "contract")
    with pytest.raises(SchemaMismatch, match=f"newer than the {NEWEST} this package knows: .*pip install -U tenure"):
        migrate.require(world.conn, world.schema)


def test_a_schema_that_was_only_expanded_after_us_is_good(world: World) -> None:
    _future(world, "expand")
    migrate.require(world.conn, world.schema)
    assert migrate.apply(world.conn, world.schema) == []
    assert len(migrate.applied(world.conn, world.schema)) == NEWEST + 1
    _works(world)


def test_a_contraction_followed_by_an_expansion_is_still_too_new(world: World) -> None:
    _future(world, "contract")
    world.sql("INSERT INTO migrations (version, name, checksum, kind) VALUES (%s, 'x', 'x', 'expand')", NEWEST + 2)
    with pytest.raises(SchemaMismatch):
        migrate.require(world.conn, world.schema)


def test_the_printed_script_does_what_apply_does(empty: Empty) -> None:
    text = migrate.script(empty.schema)
    assert "%(" not in text
    assert ":'" not in text
    with psycopg.connect(empty.url, autocommit=True) as plain:
        plain.execute(text.encode())  # all of it in one go, as psql -f would send it
    assert migrate.apply(empty.conn, empty.schema) == []
    _works(empty)


def test_the_printed_script_is_all_or_nothing(empty: Empty) -> None:
    broken = migrate.script(empty.schema).replace("\nCOMMIT;", "\nSELECT 1 / 0;\nCOMMIT;")
    with psycopg.connect(empty.url, autocommit=True) as plain, pytest.raises(psycopg.errors.DivisionByZero):
        plain.execute(broken.encode())
    assert not _exists(empty)


def test_the_printed_script_stops_where_it_was_told(empty: Empty) -> None:
    with psycopg.connect(empty.url, autocommit=True) as plain:
        plain.execute(migrate.script(empty.schema, to=1).encode())
    assert len(migrate.applied(empty.conn, empty.schema)) == 1
    assert len(migrate.apply(empty.conn, empty.schema)) == NEWEST - 1


def test_every_migration_says_what_it_is() -> None:
    assert [migration.version for migration in migrate.known()] == list(range(1, NEWEST + 1))
    assert {migration.kind for migration in migrate.known()} <= {"expand", "contract"}
    assert sql.in_schema("tenure.live", "user") == '"user".live'


def test_a_connection_of_our_own_cares_for_itself(server_url: str) -> None:
    with postgres.connect(server_url, application_name="me") as conn:
        assert conn.autocommit
        shown = [conn.execute(f"SHOW {name}").fetchone() for name in ("application_name", "plan_cache_mode", "jit")]
        assert shown == [("me",), ("force_generic_plan",), ("off",)]


def test_a_schema_made_by_somebody_else_is_enough(world: World) -> None:
    """The owner of a schema needs no right to create others."""
    role, schema = f"owner_{world.schema}", f"made_{world.schema}"
    world.sql(f"CREATE ROLE {role}")
    world.sql(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
    conn = world.connect()
    conn.execute(f"SET ROLE {role}".encode())
    assert migrate.apply(conn, schema)
    assert migrate.applied(conn, schema)


def test_rows_held_since_before_claims_were_listed_are_swept(empty: Empty) -> None:
    (before,) = [migration.version - 1 for migration in migrate.known() if migration.name == "claims"]
    migrate.apply(empty.conn, empty.schema, before)
    claimed = "'processing', 'A', clock_timestamp(), clock_timestamp() + interval '1 s', 7"
    empty.sql(
        "INSERT INTO live (kind, payload, status, claimed_by, claimed_at, lease_expires_at, claim_id)"
        f" SELECT 'k', '{{}}', {claimed} FROM generate_series(1, 3)"
    )
    migrate.apply(empty.conn, empty.schema)
    assert len(until(lambda: empty.run(verbs.sweep()), "the leases ran out")) == 3


def test_inside_a_transaction_of_the_caller_it_is_a_part_of_that_and_leaves_its_search_path(empty: Empty) -> None:
    """As Django and Alembic run it: their own statements follow in the same transaction."""
    with empty.conn.transaction(force_rollback=True):
        empty.sql("SET LOCAL search_path = pg_temp, public")
        migrate.apply(empty.conn, empty.schema, to=2)
        assert empty.sql("SELECT current_setting('search_path')") == [("pg_temp, public",)]
        assert _exists(empty)
    assert not _exists(empty)
