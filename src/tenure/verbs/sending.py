"""What a producer sends, as Statements: one row, one row under an idempotency key, or many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any

from ..errors import IdempotencyConflict, InvalidPayload
from ..model.payload import check_row, encode, encode_headers
from ..model.rows import Enqueued, NewRow
from .statement import Rows, Statement, array, text_array


def enqueue(row: NewRow) -> Statement[Enqueued]:
    """Add one row, in the caller's transaction; a used key with other content raises IdempotencyConflict."""
    return enqueue_written(row_params(row), encode(row.payload), row.key)


def row_params(row: NewRow) -> dict[str, Any]:
    """What a row has beside its payload and its key, checked, as parameters."""
    check_row(row)
    params: dict[str, Any] = {
        "kind": row.kind,
        "queue": row.queue,
        "priority": row.priority,
        "at": row.at,
        "delay_seconds": float(row.delay_seconds),
        "max_attempts": row.max_attempts,
        "ordered": row.ordered,
        "hold": row.hold,
        "headers": encode_headers(row.headers),
    }
    if row.again not in ("never", "after_end"):
        raise InvalidPayload(f"again={row.again!r} must be 'never' or 'after_end'")
    if row.idempotency_key is None:
        if row.again != "never":
            raise InvalidPayload("again='after_end' is about an idempotency_key: give one")
        return params
    return {**params, "idempotency_key": row.idempotency_key, "again": row.again}


def enqueue_written(params: Mapping[str, Any], payload: str, key: str | None) -> Statement[Enqueued]:
    """The same of parts: what row_params made, a payload that encode has written, and a key that was checked."""
    together = {**params, "payload": payload, "partition_key": key}
    used = params.get("idempotency_key")
    if used is None:
        return Statement("enqueue", together, _one)
    name = "enqueue_again" if together.pop("again") == "after_end" else "enqueue_keyed"
    return Statement(name, together, lambda rows: _keyed(rows, used))


def _one(rows: Rows) -> Enqueued:
    return Enqueued(rows[0][0], "enqueued")


def _keyed(rows: Rows, idempotency_key: str) -> Enqueued:
    sent = Enqueued(*rows[0])
    if sent.outcome == "conflict":
        raise IdempotencyConflict(idempotency_key, sent.id)
    return sent


def enqueue_many(rows: Iterable[NewRow]) -> Statement[list[Enqueued]]:
    """Add many rows with one statement; each has its own answer: enqueued, duplicate, or conflict (not written)."""
    return Statement("enqueue_many", many_params(list(rows)), lambda answers: [Enqueued(*answer) for answer in answers])


def many_params(rows: Sequence[NewRow]) -> dict[str, Any]:
    """Rows as arrays, one for each column, checked."""
    for row in rows:
        check_row(row)
        if row.again != "never":
            raise InvalidPayload(f"again={row.again!r} is for rows that are sent one by one: use enqueue")
    return {
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
    }
