"""A schema of its own and the verbs in short: what a test needs to speak in sentences."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql as identifiers

from tenure import postgres, verbs
from tenure.model.rows import Claimed, Enqueued, Lease, NewRow, Row, Settled
from tenure.postgres import migrate
from tenure.verbs import questions, settle
from tenure.verbs.statement import Statement

T = TypeVar("T")
_numbers = itertools.count(1)


class World:
    """One migrated schema on a real server, with as many connections as the test asks for."""

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self._open: list[psycopg.Connection[Any]] = []
        self.conn = self.connect()

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A further connection, closed when the test ends."""
        conn = postgres.connect(self.url, application_name=f"test {self.schema}")
        conn.execute(identifiers.SQL("SET search_path = {}, public").format(identifiers.Identifier(self.schema)))
        self._open.append(conn)
        return conn

    def close(self) -> None:
        """End every connection the test opened."""
        for conn in self._open:
            conn.close()

    def run(self, statement: Statement[T], conn: psycopg.Connection[Any] | None = None) -> T:
        """Run a verb or question on the world's own connection, or on another."""
        return postgres.run(conn or self.conn, statement, self.schema)

    def sql(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        """Plain SQL in the world's schema (the search path points there); rows if it has any."""
        cursor = self.conn.execute(query.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def unguarded(self) -> Iterator[None]:
        """While no check is at the door: rows from before there was one, or of an owner who has dropped it."""
        self.sql("ALTER TABLE live DISABLE TRIGGER live_sane")
        yield
        self.sql("ALTER TABLE live ENABLE TRIGGER live_sane")

    # -- the verbs in short

    def enqueue(self, kind: str = "send_receipt", payload: Any = None, **options: Any) -> UUID:
        """A new row; its id."""
        return self.enqueued(kind, payload, **options).id

    def enqueued(self, kind: str = "send_receipt", payload: Any = None, **options: Any) -> Enqueued:
        """A new row; the whole answer."""
        return self.run(verbs.enqueue(NewRow(kind, {} if payload is None else payload, **options)))

    def claim(self, worker: str = "A", n: int = 1, **options: Any) -> list[Claimed]:
        """Claim up to n rows, out of every bucket unless the test says otherwise (buckets=None: without looking)."""
        return self.run(verbs.claim(worker, n, **{"buckets": verbs.ALL_BUCKETS, **options}))

    def claim_one(self, worker: str = "A", **options: Any) -> Claimed:
        """Claim exactly one row."""
        (job,) = self.claim(worker, 1, **options)
        return job

    def keys_taken(self) -> list[tuple[str, str]]:
        """The ordered keys that cannot go on: a row of each is processing, or waits for an operator."""
        return self.sql(
            "SELECT DISTINCT queue, partition_key FROM live WHERE ordered AND status = 'processing'"
            " UNION SELECT queue, partition_key FROM dead WHERE blocks ORDER BY 1, 2"
        )

    def claim_ordered(self, worker: str = "A", n: int = 10, **options: Any) -> list[Claimed]:
        """Claim the heads of up to n ordered keys."""
        return self.run(verbs.claim_ordered(worker, n, **options))

    def complete(self, lease: Lease, **options: Any) -> Settled:
        """Complete one row."""
        return self.run(settle.complete([lease], **options))[0]

    def retry(self, lease: Lease, error: str = "boom", delay: float | None = None) -> Settled:
        """Retry one row."""
        return self.run(settle.retry([lease], [error], delays=[delay]))[0]

    def release(self, lease: Lease) -> Settled:
        """Release one row."""
        return self.run(settle.release([lease]))[0]

    def fail(self, lease: Lease, error: str = "boom") -> Settled:
        """Fail one row for good."""
        return self.run(settle.fail([lease], [error]))[0]

    def dead_letter(self, lease: Lease, error: str = "boom") -> Settled:
        """End one row as poison."""
        return self.run(settle.dead_letter([lease], [error]))[0]

    def sweep(self, **options: Any) -> list[Any]:
        """End what ran out."""
        return self.run(verbs.sweep(**options))

    # -- the clock is ours: leases and delays are moved in the database, never waited for

    def expire(self, *leases: Lease) -> None:
        """Let these leases have ended a minute ago, and the list of claims know it."""
        self.sql("UPDATE claims SET until = LEAST(until, clock_timestamp())")
        self.sql(
            "UPDATE live SET lease_expires_at = clock_timestamp() - interval '1 minute' WHERE id = ANY (%s)",
            [lease.id for lease in leases],
        )

    def due(self) -> None:
        """Let every pending row be runnable now."""
        self.sql("UPDATE live SET available_at = clock_timestamp() - interval '1 second' WHERE status = 'pending'")

    # -- the state of things

    def row(self, id: UUID) -> Row:
        """One row, in whatever table it stands."""
        found = self.run(questions.row(id))
        assert found is not None, f"row {id} is lost"
        return found

    def status(self, id: UUID) -> str:
        """The status of one row."""
        return self.row(id).status

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.sql(f"SELECT count(*) FROM {table}")[0][0])


@contextlib.contextmanager
def new_world(url: str) -> Iterator[World]:
    """A world in a schema nobody has used."""
    schema = f"t_{os.getpid()}_{next(_numbers)}"
    with postgres.connect(url) as conn:
        migrate.apply(conn, schema)
    world = World(url, schema)
    world.sql("SELECT next_fence()")
    try:
        yield world
    finally:
        world.close()
