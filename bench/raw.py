"""The yardsticks: the two best guarded designs of the design notes, history kept, without Tenure.

Seed columns, no foreign key, HOT claims, terminal rows moved to a plain archive, complete and claim in one statement.
`time` claims in order of availability through one index; `bucket` claims per bucket, as a fleet with a ring must.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from psycopg import Connection, Cursor

from tenure.statement import array

_TABLES = """
DROP SCHEMA IF EXISTS raw CASCADE;
CREATE SCHEMA raw;
CREATE TABLE raw.inbox (
  id uuid PRIMARY KEY DEFAULT uuidv7(), partition_key text NOT NULL, partition_bucket int NOT NULL,
  payload jsonb NOT NULL,
  status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0, max_attempts int NOT NULL DEFAULT 5,
  claimed_by text, claimed_at timestamptz, lease_expires_at timestamptz, lease_generation bigint NOT NULL DEFAULT 0,
  available_at timestamptz NOT NULL DEFAULT now(), completed_at timestamptz, last_error text, idempotency_key text,
  created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX ON raw.inbox (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE TABLE raw.archive (LIKE raw.inbox);
"""
_INDEX = {
    "time": "CREATE INDEX ON raw.inbox (available_at)",
    "bucket": "CREATE INDEX ON raw.inbox (partition_bucket, available_at)",
}
_FILL = """
INSERT INTO raw.inbox (partition_key, partition_bucket, payload)
SELECT 'order:' || k, hashtextextended('order:' || k, 0) & 1023,
       jsonb_build_object('order_id', k, 'email', 'someone@example.com', 'note', repeat('x', 60))
FROM (SELECT (random() * 1e6)::int AS k FROM generate_series(1, %s)) AS keys
"""
_PICK = {
    "time": """SELECT i.ctid FROM raw.inbox i WHERE i.status = 'pending' AND i.available_at <= now()
               ORDER BY i.available_at LIMIT %(n)s FOR UPDATE SKIP LOCKED""",
    "bucket": """SELECT x.t FROM unnest(%(b)s::int[], %(f)s::float8[]) u(b, f) CROSS JOIN LATERAL (
                   SELECT i.ctid t FROM raw.inbox i
                   WHERE i.partition_bucket = u.b AND i.status = 'pending'
                     AND i.available_at <= now() AND i.available_at >= to_timestamp(u.f)
                   ORDER BY i.available_at LIMIT %(k)s FOR UPDATE SKIP LOCKED) x LIMIT %(n)s""",
}
_TURN = """
WITH del AS (
  DELETE FROM raw.inbox i
  WHERE i.id = ANY(%(ids)s::uuid[]) AND i.claimed_by = %(w)s AND (i.lease_expires_at > now()) IS TRUE
    AND i.status::text = 'processing'
    AND ((i.id, i.lease_generation) IN (
      SELECT d.id, d.gen FROM unnest(%(ids)s::uuid[], %(gens)s::bigint[]) d(id, gen))) IS TRUE
  RETURNING i.*),
ins AS (
  INSERT INTO raw.archive
  SELECT id, partition_key, partition_bucket, payload, 'completed', attempts, max_attempts, NULL, claimed_at, NULL,
         lease_generation, available_at, now(), last_error, idempotency_key, created_at
  FROM del RETURNING 1)
UPDATE raw.inbox i
SET status = 'processing', claimed_by = %(w)s, claimed_at = now(), lease_expires_at = now() + interval '90 seconds',
    lease_generation = i.lease_generation + 1, attempts = i.attempts + 1
WHERE i.ctid = ANY(ARRAY(PICK))
RETURNING i.id, i.partition_key, i.payload::text, i.attempts, i.lease_generation, i.available_at, i.partition_bucket
"""


def prepare(conn: Connection[Any], design: str, rows: int) -> None:
    """A fresh backlog in that design."""
    conn.execute(_TABLES.encode())
    conn.execute(_INDEX[design].encode())
    for _ in range(rows // 1000):
        conn.execute(_FILL.encode(), [1000])
    conn.execute("VACUUM ANALYZE raw.inbox")


def loop(conn: Connection[Any], design: str, batch: int, total: int) -> float:
    """Jobs a second through claim and guarded complete, no handler."""
    query = _TURN.replace("PICK", _PICK[design]).encode()
    per_bucket, width, at, done = 4, 128, 0, 0
    ids: list[Any] = []
    gens: list[int] = []
    began = time.perf_counter()
    while done < total:
        params = {"ids": array(ids), "gens": array(gens), "w": "raw", "n": batch, "k": per_bucket}
        if design == "bucket":
            params |= {"b": array([(at + n) % 1024 for n in range(width)]), "f": array([0] * width)}
            at += batch // per_bucket
        cursor = Cursor(conn)
        rows = cursor.execute(query, params, binary=True).fetchall()
        done += len(ids)
        ids, gens = [row[0] for row in rows], [row[4] for row in rows]
    return done / (time.perf_counter() - began)


Loop = Callable[[], float]
