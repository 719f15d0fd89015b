"""What a test has sent: found by kind, queue, key and the fields of the payload."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import psycopg

from .. import postgres, sql
from ..model.rows import Row
from ..verbs import questions

FIND = """
SELECT id, kind, queue, partition_key, payload::text FROM tenure.inbox
WHERE %(kind)s::text IS NULL OR kind = %(kind)s ORDER BY created_at DESC, id DESC LIMIT 1000
"""
SHOWN_MAX = 10
Line = tuple[Any, str, str, str, str]


def found(
    conn: psycopg.Connection[Any], schema: str, kind: str, fields: Mapping[str, Any], queue: str | None, key: str | None
) -> Row:
    """The newest row that fits; AssertionError with what is there instead."""
    for id, _, its_queue, its_key, payload in _rows(conn, schema, kind):
        fits = queue in (None, its_queue) and key in (None, its_key)
        if fits and _has(payload, fields):
            row = postgres.run(conn, questions.row(id), schema)
            assert row is not None
            return row
    asked = {"queue": queue, "key": key, **fields}
    wanted = " ".join([kind, *(f"{name}={value!r}" for name, value in asked.items() if value is not None)])
    raise AssertionError(f"no row {wanted} was enqueued; there is {_shown(_rows(conn, schema))}")


def not_found(conn: psycopg.Connection[Any], schema: str, kind: str, fields: Mapping[str, Any]) -> None:
    """AssertionError with the row, if there is one that fits."""
    there = [line for line in _rows(conn, schema, kind) if _has(line[4], fields)]
    assert not there, f"nothing of the kind should be enqueued; there is {_shown(there)}"


def _rows(conn: psycopg.Connection[Any], schema: str, kind: str | None = None) -> list[Line]:
    return conn.execute(sql.in_schema(FIND, schema).encode(), {"kind": kind}).fetchall()


def _has(payload: str, fields: Mapping[str, Any]) -> bool:
    """True if the payload has these fields, as they are in JSON."""
    there, wanted = json.loads(payload), json.loads(msgspec.json.encode(dict(fields)))
    return isinstance(there, dict) and all(name in there and there[name] == value for name, value in wanted.items())


def _shown(lines: list[Line]) -> str:
    said = [f"{kind} {payload} in queue {queue}" for _, kind, queue, _, payload in lines[:SHOWN_MAX]]
    more = f" and {len(lines) - SHOWN_MAX} more" if len(lines) > SHOWN_MAX else ""
    return f"{'; '.join(said)}{more}" if said else "none at all: was the transaction committed?"
