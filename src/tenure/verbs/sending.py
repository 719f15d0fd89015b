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
    if row.again not in ("never", "after_end", "after_start"):
        raise InvalidPayload(f"again={row.again!r} must be 'never', 'after_end' or 'after_start'")
    if row.again_seconds and row.again != "after_start":
        raise InvalidPayload(f"again_seconds={row.again_seconds!r} goes with again='after_start'")
    if row.idempotency_key is None:
        if row.again != "never":
            raise InvalidPayload(f"again={row.again!r} is about an idempotency_key: give one")
        return params
    named = {"idempotency_key": row.idempotency_key, "again": row.again}
    return {**params, **named, **({"for_seconds": float(row.again_seconds)} if row.again == "after_start" else {})}


def enqueue_written(params: Mapping[str, Any], payload: str, key: str | None) -> Statement[Enqueued]:
    """The same of parts: what row_params made, a payload that encode has written, and a key that was checked."""
    together = {**params, "payload": payload, "partition_key": key}
    used = params.get("idempotency_key")
    if used is None:
        return Statement("enqueue", together, _one)
    return Statement(_KEYED[together.pop("again")], together, lambda rows: _keyed(rows, used))


_KEYED = {"never": "enqueue_keyed", "after_end": "enqueue_again", "after_start": "enqueue_unique"}


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
            unique = " (a unique handler)" if row.again == "after_start" else ""
            raise InvalidPayload(f"again={row.again!r}{unique} is for rows that are sent one by one: use enqueue")
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
