"""Schemas that served one test and are as good as new: emptying one takes a tenth of the time of migrating one."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, LiteralString

import psycopg
from psycopg import sql as identifiers

from patience import soon
from tenure import postgres
from tenure.postgres import migrate
from world import World

EXIT_SECONDS = 1.0  # a backend whose client has closed is gone before; a new schema takes longer
PATIENCE = postgres.Patience(statement_seconds=90, lock_seconds=1)
_numbers = itertools.count(1)

# Whatever changes a catalogue leaves a younger row there, or one row less. Of pg_class it is the words that count: a
# TRUNCATE leaves a younger row that says the same, VACUUM and ANALYZE write another number of tuples into the old one.
_MARK = """
WITH place AS (SELECT n.oid, n.nspowner, n.nspacl FROM pg_namespace AS n WHERE n.nspname = %s),
relations AS (SELECT c.* FROM pg_class AS c JOIN place ON c.relnamespace = place.oid),
parts AS (
  SELECT d.xmin FROM pg_depend AS d JOIN place ON (d.refclassid, d.refobjid) = ('pg_namespace'::regclass, place.oid)
  UNION ALL SELECT p.xmin FROM pg_proc AS p JOIN place ON p.pronamespace = place.oid
  UNION ALL SELECT k.xmin FROM pg_constraint AS k JOIN place ON k.connamespace = place.oid
  UNION ALL SELECT a.xmin FROM pg_attribute AS a JOIN relations AS r ON a.attrelid = r.oid
  UNION ALL SELECT f.xmin FROM pg_attrdef AS f JOIN relations AS r ON f.adrelid = r.oid
  UNION ALL SELECT i.xmin FROM pg_index AS i JOIN relations AS r ON i.indrelid = r.oid
  UNION ALL SELECT h.xmin FROM pg_inherits AS h JOIN relations AS r ON h.inhrelid = r.oid
  UNION ALL SELECT t.xmin FROM pg_trigger AS t JOIN relations AS r ON t.tgrelid = r.oid
  UNION ALL SELECT w.xmin FROM pg_rewrite AS w JOIN relations AS r ON w.ev_class = r.oid
  UNION ALL SELECT y.xmin FROM pg_policy AS y JOIN relations AS r ON y.polrelid = r.oid
  UNION ALL SELECT s.xmin FROM pg_sequence AS s JOIN relations AS r ON s.seqrelid = r.oid)
SELECT (SELECT concat_ws(' ', oid, nspowner, nspacl) FROM place),
       (SELECT string_agg(concat_ws(' ', oid, relname, relkind, relowner, relpersistence, relreplident, relrowsecurity,
                                    relhastriggers, relhasrules, relacl, reloptions,
                                    CASE WHEN relkind <> 'i' THEN reltuples END), ',' ORDER BY oid)
        FROM relations),
       (SELECT concat_ws(' ', count(*), max(xmin::text::bigint)) FROM parts)
"""
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND application_name NOT LIKE 'citus\\_internal%'  -- on a node of Citus, other nodes always look in
"""
_TABLES = """
SELECT c.relname, pg_relation_size(c.oid) > 0 FROM pg_class AS c
WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'
"""
_SEQUENCES = """
SELECT format('%%I.%%I', schemaname, sequencename), COALESCE(last_value, start_value), last_value IS NOT NULL
FROM pg_sequences WHERE schemaname = %s
"""
_SET_SEQUENCES = """
SELECT setval(name::regclass, value, called)
FROM unnest(%s::text[], %s::bigint[], %s::boolean[]) AS s (name, value, called)
"""


@dataclass(frozen=True)
class Schema:
    """A migrated schema, and all that was to be said of it when it was new."""

    name: str
    day: date  # it has a partition for this day and the next ones
    mark: tuple[Any, ...]
    tables: frozenset[str]
    rows: dict[str, Any]
    sequences: list[tuple[str, int, bool]]


class Spares:
    """The schemas of one server that wait for their next test, and a connection of its own to judge them by."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._kept: list[Schema] = []
        self._own: postgres.QueueConnection | None = None

    @contextlib.contextmanager
    def world(self) -> Iterator[World]:
        """A world in a schema that is new, or as good as new."""
        schema = self._take()
        world = World(self._url, schema.name)
        world.sql("SELECT next_fence()")  # the first claim of a server waits for another that is first
        try:
            yield world
        finally:
            world.close()
            self._give_back(schema)

    def close(self) -> None:
        """End the connection; the schemas go with the server."""
        if self._own:
            self._own.close()

    @property
    def _conn(self) -> postgres.QueueConnection:
        if self._own is None or self._own.closed:
            self._own = postgres.connect(self._url, application_name="test spares", patience=PATIENCE)
            self._own.execute("SET max_parallel_workers_per_gather = 0")
        return self._own

    def _take(self) -> Schema:
        today = datetime.now(UTC).date()
        while self._kept:
            if (schema := self._kept.pop()).day == today:
                return schema
        return self._new(today)

    def _new(self, today: date) -> Schema:
        name = f"spare_{os.getpid()}_{next(_numbers)}"  # never that of a `new_world`
        with postgres.connect(self._url, application_name="test migrate", patience=PATIENCE) as conn:
            migrate.apply(conn, name)  # a session that has migrated others takes longer each time
        tables = dict(self._ask(_TABLES, name))
        rows = self._rows(name, [table for table, filled in tables.items() if filled])
        return Schema(name, today, self._mark(name), frozenset(tables), rows, self._ask(_SEQUENCES, name))

    def _give_back(self, schema: Schema) -> None:
        """Empty and keep it if nobody can still be writing to it and nothing but rows has changed; else forget it."""
        with contextlib.suppress(psycopg.Error):
            if not self._alone():
                return
            tables = dict(self._ask(_TABLES, schema.name))
            self._do("DROP TABLE {}", schema.name, tables.keys() - schema.tables)  # those of the test itself
            if self._mark(schema.name) == schema.mark:
                self._empty(schema, {table for table in schema.tables if tables[table]})
                self._kept.append(schema)

    def _alone(self) -> bool:
        by = time.monotonic() + soon(EXIT_SECONDS)
        while self._ask(_OTHERS) != [(0,)]:
            if time.monotonic() > by:
                return False
            time.sleep(0.002)
        return True

    def _mark(self, name: str) -> tuple[Any, ...]:
        return self._ask(_MARK, name)[0]

    def _rows(self, name: str, tables: list[str]) -> dict[str, Any]:
        """What stands in these tables."""
        asked = "SELECT {}, jsonb_agg(t ORDER BY t) FROM {} AS t"
        each = [identifiers.SQL(asked).format(table, identifiers.Identifier(name, table)) for table in tables]
        return dict(self._ask(identifiers.SQL(" UNION ALL ").join(each)))

    def _empty(self, schema: Schema, filled: Set[str]) -> None:
        """Files as new for all tables that were written to, the first rows back where they have changed."""
        found = self._rows(schema.name, list(schema.rows))
        changed = {table for table, rows in schema.rows.items() if found[table] != rows}
        with self._conn.transaction():
            self._ask("SET LOCAL session_replication_role = replica")  # no trigger fires
            self._do("TRUNCATE {}", schema.name, changed | (filled - schema.rows.keys()))
            for table in changed:
                into = identifiers.Identifier(schema.name, table)
                insert = identifiers.SQL("INSERT INTO {} SELECT * FROM jsonb_populate_recordset(NULL::{}, %s)")
                self._ask(insert.format(into, into), json.dumps(schema.rows[table]))
            self._ask(_SET_SEQUENCES, *map(list, zip(*schema.sequences, strict=True)))

    def _do(self, what: LiteralString, name: str, tables: Set[str]) -> None:
        """One statement for all these tables, if there are any."""
        if tables:
            names = identifiers.SQL(", ").join(identifiers.Identifier(name, table) for table in sorted(tables))
            self._ask(identifiers.SQL(what).format(names))

    def _ask(self, query: str | identifiers.Composed, *params: Any) -> list[tuple[Any, ...]]:
        cursor = self._conn.execute(query.encode() if isinstance(query, str) else query, params or None)
        return cursor.fetchall() if cursor.description else []
