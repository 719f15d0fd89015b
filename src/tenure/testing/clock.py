"""The clock of a test: leases and delays are moved in the database, never waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg

from .. import postgres, sql
from ..verbs import lifecycle
from ..verbs.operators import retry_now

LOOK_NOW = "UPDATE tenure.claims SET until = LEAST(until, clock_timestamp())"  # the list of claims, which a sweep reads
END_LEASES = """
UPDATE tenure.live SET lease_expires_at = clock_timestamp() - interval '1 minute'
WHERE status = 'processing' AND (%(ids)s::uuid[] IS NULL OR id = ANY (%(ids)s::uuid[]))
"""
AWAY = "UPDATE tenure.workers SET last_seen_at = last_seen_at - interval '10 minutes' WHERE id LIKE %(ids)s"
SCHEDULED = """
SELECT id FROM tenure.live WHERE status = 'pending' AND available_at > clock_timestamp() ORDER BY id LIMIT 10000
"""


class Clock:
    """Moves the time of rows in one schema."""

    def __init__(self, conn: psycopg.Connection[Any], schema: str) -> None:
        self._conn, self._schema = conn, schema

    def expire(self, ids: Sequence[UUID] | None = None) -> list[UUID]:
        """Let the leases of these rows, or of all, have ended a minute ago, and sweep: whose attempts are over."""
        self._do(LOOK_NOW)
        self._do(END_LEASES, None if ids is None else list(ids))
        return [swept.id for swept in postgres.run(self._conn, lifecycle.sweep(), self._schema)]

    def send_away(self, pid: int) -> None:
        """Let nobody count on the worker of this process: it was last seen ten minutes ago."""
        self._do(AWAY, f"%-{pid}-%")

    def make_due(self, ids: Sequence[UUID] | None = None) -> int:
        """Make these rows due, or all that wait for their time; how many."""
        if ids is None:
            ids = [id for (id,) in self._do(SCHEDULED).fetchall()]
        return len(postgres.run(self._conn, retry_now(ids), self._schema)) if ids else 0

    def _do(self, text: str, ids: object = None) -> psycopg.Cursor[Any]:
        return self._conn.execute(sql.in_schema(text, self._schema).encode(), {"ids": ids})
