"""The throw-away schema of a stage: marked as in use while the stage is there, and dropped at its end."""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql as identifiers

from ... import postgres

LOCK_SECONDS_MAX = 10
MINE = "tenure stage"  # locked on the schema's name while the stage is there: nobody takes it for a leftover


def mark_used(conn: postgres.QueueConnection, schema: str) -> None:
    """Hold an advisory lock on the schema's name until this connection ends."""
    conn.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [f"{MINE} {schema}"])


def drop_schema(connect: Callable[[], postgres.QueueConnection], schema: str) -> None:
    """Drop it on a new connection; psycopg.Error if somebody locks it for longer than LOCK_SECONDS_MAX."""
    drop = identifiers.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(identifiers.Identifier(schema))
    with connect() as conn:
        conn.execute("SELECT set_config('lock_timeout', %s, false)", [f"{LOCK_SECONDS_MAX}s"])
        conn.execute("SELECT set_config('client_min_messages', 'warning', false)")
        conn.execute(drop)
