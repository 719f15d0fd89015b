"""The plain yardstick: what a careful person writes with psycopg alone, without guards, history or order.

One table, one index by time (none where only inserts are measured). A client claims 100 rows with SKIP LOCKED, deletes
them, two transactions, parameters as psycopg takes them. A producer inserts a row a transaction, or a thousand from
arrays.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from psycopg import Connection

TABLES = """
DROP SCHEMA IF EXISTS raw_plain CASCADE;
CREATE SCHEMA raw_plain;
CREATE TABLE raw_plain.inbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), partition_key text NOT NULL, payload jsonb NOT NULL,
  status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0,
  claimed_by text, lease_expires_at timestamptz, available_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
"""
INDEX = "CREATE INDEX ON raw_plain.inbox (available_at)"
FILL = """
INSERT INTO raw_plain.inbox (partition_key, payload)
SELECT 'order:' || k, jsonb_build_object('order_id', k, 'email', 'someone@example.com', 'note', repeat('x', 60))
FROM generate_series(1, %s) AS k
"""
CLAIM = """
UPDATE raw_plain.inbox
SET status = 'processing', claimed_by = %s, lease_expires_at = now() + interval '90 seconds', attempts = attempts + 1
WHERE id IN (
  SELECT id FROM raw_plain.inbox WHERE status = 'pending' AND available_at <= now()
  ORDER BY available_at LIMIT %s FOR UPDATE SKIP LOCKED)
RETURNING id, payload
"""
DELETE = "DELETE FROM raw_plain.inbox WHERE id = ANY(%s)"
INSERT = "INSERT INTO raw_plain.inbox (partition_key, payload) VALUES (%s, %s) RETURNING id"
INSERT_MANY = """
INSERT INTO raw_plain.inbox (partition_key, payload)
SELECT key, payload FROM unnest(%s::text[], %s::jsonb[]) AS u (key, payload) RETURNING id
"""


def make(conn: Connection[Any], backlog: int = 0, *, bare: bool = False) -> None:
    """Its table anew, with so many rows; a bare one has a primary key and nothing to claim by."""
    conn.execute(TABLES)
    if not bare:
        conn.execute(INDEX)
    if backlog:
        conn.execute(FILL, [backlog])
        conn.execute("ANALYZE raw_plain.inbox")


class Plain:
    """Claim and delete, batch after batch, no handler."""

    def __init__(self, conn: Connection[Any], *, batch: int) -> None:
        self._conn, self._batch = conn, batch

    def turn(self) -> None:
        """One batch, in two transactions."""
        rows = self._conn.execute(CLAIM, ["raw", self._batch]).fetchall()
        assert len(rows) == self._batch, f"only {len(rows)} rows claimed: the loop ran dry"
        self._conn.execute(DELETE, [[row[0] for row in rows]])


def insert(conn: Connection[Any], k: int, fields: dict[str, Any], *, prepare: bool | None = None) -> UUID:
    """One row."""
    found = conn.execute(INSERT, [f"order:{k}", json.dumps(fields)], prepare=prepare).fetchone()
    assert found is not None
    answer: UUID = found[0]
    return answer


def insert_many(conn: Connection[Any], rows: list[tuple[str, dict[str, Any]]]) -> int:
    """Many rows with one statement."""
    keys, payloads = [key for key, _ in rows], [json.dumps(fields) for _, fields in rows]
    return len(conn.execute(INSERT_MANY, [keys, payloads]).fetchall())
