"""The yardsticks: the two best guarded designs of the design notes, history kept, without Tenure.

Few columns, no foreign key, HOT claims, terminal rows moved to a plain archive, complete and claim in one statement.
`time` claims in order of availability through one index; `bucket` claims per bucket, as a fleet with a ring must (the
reference loop). Parameters go as psycopg takes them; with `literals`, the way our own verbs send them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import Connection, Cursor

from tenure.verbs.statement import array

_TABLES = """
DROP SCHEMA IF EXISTS RAW CASCADE;
CREATE SCHEMA RAW;
CREATE TABLE RAW.inbox (
  id uuid PRIMARY KEY DEFAULT uuidv7(), partition_key text NOT NULL, partition_bucket int NOT NULL,
  payload jsonb NOT NULL,
  status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0, max_attempts int NOT NULL DEFAULT 5,
  claimed_by text, claimed_at timestamptz, lease_expires_at timestamptz, lease_generation bigint NOT NULL DEFAULT 0,
  available_at timestamptz NOT NULL DEFAULT now(), completed_at timestamptz, last_error text, idempotency_key text,
  created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX ON RAW.inbox (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE TABLE RAW.archive (LIKE RAW.inbox);
"""
_INDEX = {
    "time": "CREATE INDEX ON RAW.inbox (available_at)",
    "bucket": "CREATE INDEX ON RAW.inbox (partition_bucket, available_at)",
}
_FILL = """
INSERT INTO RAW.inbox (partition_key, partition_bucket, payload)
SELECT 'order:' || k, hashtextextended('order:' || k, 0) & 1023,
       jsonb_build_object('order_id', k, 'email', 'someone@example.com', 'note', repeat('x', 60))
FROM (SELECT (random() * 1e6)::int AS k FROM generate_series(1, %s)) AS keys
"""
_PICK = {
    "time": """SELECT i.ctid FROM RAW.inbox i WHERE i.status = 'pending' AND i.available_at <= now()
               ORDER BY i.available_at LIMIT %(n)s FOR UPDATE SKIP LOCKED""",
    "bucket": """SELECT x.t FROM unnest(%(b)s::int[], %(f)s::float8[]) u(b, f) CROSS JOIN LATERAL (
                   SELECT i.ctid t FROM RAW.inbox i
                   WHERE i.partition_bucket = u.b AND i.status = 'pending'
                     AND i.available_at <= now() AND i.available_at >= to_timestamp(u.f)
                   ORDER BY i.available_at LIMIT %(k)s FOR UPDATE SKIP LOCKED) x LIMIT %(n)s""",
}
_TURN = """
WITH del AS (
  DELETE FROM RAW.inbox i
  WHERE i.id = ANY(%(ids)s::uuid[]) AND i.claimed_by = %(w)s AND (i.lease_expires_at > now()) IS TRUE
    AND i.status::text = 'processing'
    AND ((i.id, i.lease_generation) IN (
      SELECT d.id, d.gen FROM unnest(%(ids)s::uuid[], %(gens)s::bigint[]) d(id, gen))) IS TRUE
  RETURNING i.*),
ins AS (
  INSERT INTO RAW.archive
  SELECT id, partition_key, partition_bucket, payload, 'completed', attempts, max_attempts, NULL, claimed_at, NULL,
         lease_generation, available_at, now(), last_error, idempotency_key, created_at
  FROM del RETURNING 1)
UPDATE RAW.inbox i
SET status = 'processing', claimed_by = %(w)s, claimed_at = now(), lease_expires_at = now() + interval '90 seconds',
    lease_generation = i.lease_generation + 1, attempts = i.attempts + 1
WHERE i.ctid = ANY(ARRAY(PICK))
RETURNING i.id, i.partition_key, i.payload::text, i.attempts, i.lease_generation, i.available_at, i.partition_bucket
"""


class Loop:
    """Claim and guarded complete in one statement, batch after batch, no handler.

    With a backlog the loop makes tables of its own and fills them; without, it shares those of a loop made before.
    """

    per_bucket, width = 4, 128

    def __init__(
        self,
        conn: Connection[Any],
        design: str,
        *,
        batch: int,
        backlog: int = 0,
        literals: bool = False,
        first: int = 0,
    ) -> None:
        self._conn, self._design, self._batch = conn, design, batch
        self._schema = f"raw_{design}" + ("_literals" if literals else "")
        self._array: Callable[[list[Any]], object] = array if literals else list
        self._query = self._sql(_TURN.replace("PICK", _PICK[design]))
        self._ids: list[Any] = []
        self._generations: list[int] = []
        self._at = first  # the bucket where its walk begins
        if backlog:
            self._fill(backlog)

    def _sql(self, text: str) -> bytes:
        return text.replace("RAW", self._schema).encode()

    def _fill(self, backlog: int) -> None:
        self._conn.execute(self._sql(_TABLES + _INDEX[self._design]))
        for _ in range(backlog // 1000):
            self._conn.execute(self._sql(_FILL), [1000])
        self._conn.execute(self._sql("VACUUM ANALYZE RAW.inbox"))

    def turn(self) -> None:
        """One batch."""
        params: dict[str, object] = {
            "ids": self._array(self._ids),
            "gens": self._array(self._generations),
            "w": "raw",
            "n": self._batch,
            "k": self.per_bucket,
        }
        if self._design == "bucket":
            params["b"] = self._array([(self._at + n) % 1024 for n in range(self.width)])
            params["f"] = self._array([0.0] * self.width)
            self._at += self._batch // self.per_bucket
        rows = Cursor(self._conn).execute(self._query, params, binary=True).fetchall()
        assert len(rows) == self._batch, f"only {len(rows)} rows claimed: the loop ran dry"
        self._ids, self._generations = [row[0] for row in rows], [row[4] for row in rows]
