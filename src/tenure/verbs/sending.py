"""What a producer sends, as Statements: one row, one row under an idempotency key, or many."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from ..errors import IdempotencyConflict
from ..model.payload import check_row, encode, encode_headers
from ..model.rows import Enqueued, NewRow
from .statement import Rows, Statement, array, text_array


def enqueue(row: NewRow, written: str | None = None) -> Statement[Enqueued]:
    """Add one row, in the caller's transaction; a used key with other content raises IdempotencyConflict.

    `written` is its payload as JSON text, if `encode` has made it already.
    """
    check_row(row)
    params: dict[str, Any] = {
        "kind": row.kind,
        "payload": encode(row.payload) if written is None else written,
        "partition_key": row.key,
        "queue": row.queue,
        "priority": row.priority,
        "at": row.at,
        "delay_seconds": float(row.delay_seconds),
        "max_attempts": row.max_attempts,
        "ordered": row.ordered,
        "hold": row.hold,
        "headers": encode_headers(row.headers),
    }
    if row.idempotency_key is None:
        return Statement("enqueue", params, _one)
    params["idempotency_key"] = row.idempotency_key
    return Statement("enqueue_keyed", params, lambda rows: _keyed(rows, row))


def _one(rows: Rows) -> Enqueued:
    return Enqueued(rows[0][0], "enqueued")


def _keyed(rows: Rows, row: NewRow) -> Enqueued:
    sent = Enqueued(*rows[0])
    if sent.outcome == "conflict":
        raise IdempotencyConflict(str(row.idempotency_key), sent.id)
    return sent


def enqueue_many(rows: Iterable[NewRow]) -> Statement[list[Enqueued]]:
    """Add many rows with one statement; each has its own answer: enqueued, duplicate, or conflict (not written)."""
    rows = list(rows)
    for row in rows:
        check_row(row)
    return Statement(
        "enqueue_many",
        {
            "kinds": text_array([row.kind for row in rows]),
            "payloads": text_array([encode(row.payload) for row in rows]),
            "partition_keys": text_array([row.key for row in rows]),
            "queues": text_array([row.queue for row in rows]),
            "priorities": array([row.priority for row in rows]),
            "ats": array([row.at and row.at.astimezone(UTC).isoformat() for row in rows]),
            "delays": array([float(row.delay_seconds) for row in rows]),
            "idempotency_keys": text_array([row.idempotency_key for row in rows]),
            "max_attempts": array([row.max_attempts for row in rows]),
            "ordered": array([row.ordered for row in rows]),
            "holds": array([row.hold for row in rows]),
            "headers": text_array([encode_headers(row.headers) for row in rows]),
        },
        lambda answers: [Enqueued(*answer) for answer in answers],
    )
