"""Schemas for tests: migrated once, emptied after each test, which takes a tenth of the time."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from typing import Any, NamedTuple

import psycopg
from psycopg import sql as identifiers

from .. import postgres
from ..postgres import migrate

LOCK_SECONDS = 5  # what a test left open must not keep the next one waiting

OBJECTS = """
SELECT 'relation', c.relname FROM pg_class AS c
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
UNION ALL SELECT 'function', p.oid::regprocedure::text FROM pg_proc AS p WHERE p.pronamespace = %(schema)s::regnamespace
UNION ALL SELECT 'trigger', t.tgname FROM pg_trigger AS t JOIN pg_class AS c ON t.tgrelid = c.oid
WHERE c.relnamespace = %(schema)s::regnamespace AND NOT t.tgisinternal
"""
TABLES = """
SELECT c.relname, pg_relation_size(c.oid) > 0 FROM pg_class AS c
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind = 'r'
"""
SEQUENCES = """
SELECT format('%%I.%%I', schemaname, sequencename), COALESCE(last_value, start_value), last_value IS NOT NULL
FROM pg_sequences WHERE schemaname = %(schema)s
"""
SET_SEQUENCE = "SELECT setval(%(name)s::regclass, %(value)s, %(called)s)"
FILL = "INSERT INTO {} SELECT * FROM jsonb_populate_recordset(NULL::{}, %(rows)s)"
Names = set[tuple[str, str]]


def theirs_of(name: str) -> str:
    """Where the tables of the application are, beside ours: its `results` and ours do not meet."""
    return f"{name}_app"


class Schema(NamedTuple):
    """A migrated schema, and what was in it when it was new."""

    name: str
    day: date  # it has a partition for this day and the next ones
    objects: Names
    rows: dict[str, Any]
    sequences: list[tuple[str, int, bool]]


class Schemas:
    """Lends schemas to tests; all of them are dropped at the end."""

    def __init__(self, url: str) -> None:
        self._conn = postgres.connect(url, application_name="tenure testing")
        self._conn.execute("SELECT set_config('client_min_messages', 'warning', false)")
        self._conn.execute("SELECT set_config('lock_timeout', %s, false)", [f"{LOCK_SECONDS}s"])
        self._kept: list[Schema] = []
        self._made: list[str] = []

    def __enter__(self) -> Schemas:
        return self

    def __exit__(self, *raised: object) -> None:
        for name in self._made:
            with suppress(psycopg.Error):
                both = [identifiers.Identifier(each) for each in (name, theirs_of(name))]
                self._do("DROP SCHEMA IF EXISTS {} CASCADE", both)
        self._conn.close()

    @contextmanager
    def lend(self) -> Iterator[str]:
        """A schema without a row, for one test."""
        schema = self._take()
        theirs = [identifiers.Identifier(theirs_of(schema.name))]
        self._do("CREATE SCHEMA {}", theirs)
        try:
            yield schema.name
        finally:
            with suppress(psycopg.Error):  # somebody still uses it: the next test gets another
                self._do("DROP SCHEMA {} CASCADE", theirs)
                if self._emptied(schema):
                    self._kept.append(schema)

    def _take(self) -> Schema:
        today = self._today()
        while self._kept:
            if (kept := self._kept.pop()).day == today:
                return kept
        name = f"tenure_test_{os.getpid()}_{secrets.token_hex(3)}"
        self._made.append(name)
        migrate.apply(self._conn, name)
        filled = [table for table, has_rows in self._ask(TABLES, schema=name) if has_rows]
        rows = {table: self._rows(name, table) for table in filled}
        return Schema(name, today, self._objects(name), rows, self._ask(SEQUENCES, schema=name))

    def _emptied(self, schema: Schema) -> bool:
        """Empty our tables; False if somebody has changed what they are."""
        if self._objects(schema.name) != schema.objects:
            return False
        ours = {table for table, has_rows in self._ask(TABLES, schema=schema.name) if has_rows}
        with self._conn.transaction():
            self._conn.execute("SELECT set_config('session_replication_role', 'replica', true)")  # no trigger fires
            self._do("TRUNCATE {}", [identifiers.Identifier(schema.name, name) for name in ours | schema.rows.keys()])
            for table, rows in schema.rows.items():
                into = identifiers.Identifier(schema.name, table)
                self._conn.execute(identifiers.SQL(FILL).format(into, into), {"rows": json.dumps(rows)})
            for name, value, called in schema.sequences:
                self._ask(SET_SEQUENCE, name=name, value=value, called=called)
        return True

    def _objects(self, name: str) -> Names:
        return set(self._ask(OBJECTS, schema=name))

    def _rows(self, name: str, table: str) -> Any:
        asked = identifiers.SQL("SELECT COALESCE(jsonb_agg(t), '[]') FROM {} AS t")
        ((rows,),) = self._conn.execute(asked.format(identifiers.Identifier(name, table))).fetchall()
        return rows

    def _today(self) -> date:
        ((today,),) = self._ask("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")
        found: date = today
        return found

    def _ask(self, query: str, **params: Any) -> list[Any]:
        return self._conn.execute(query.encode(), params).fetchall()

    def _do(self, what: str, names: list[identifiers.Identifier]) -> None:
        if names:
            self._conn.execute(identifiers.SQL(what).format(identifiers.SQL(", ").join(names)))
