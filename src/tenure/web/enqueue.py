"""Enqueue over HTTP: one row, its payload kept as it was written, digit by digit."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from .. import verbs
from ..errors import IdempotencyConflict
from ..model.payload import DELAY_SECONDS_MAX
from ..model.rows import NewRow
from .http_errors import Refused
from .route import Ask, Asked, Key, Name, Reply, Route, require_queue, together, when

HeaderName = Annotated[str, msgspec.Meta(max_length=256)]
HeaderText = Annotated[str, msgspec.Meta(max_length=4096)]


class NewRowAsked(Asked, frozen=True):
    """A row as a producer sends it; defaults are those of the Python API."""

    rules = (
        {"not": together({"at": {"type": "string"}, "delay_seconds": {"exclusiveMinimum": 0}})},
        when({"ordered": {"const": True}}, {"key": {"type": "string"}}),
        when({"hold": {"const": True}}, {"ordered": {"const": True}}),
    )

    kind: Name
    payload: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    key: Key | None = None
    queue: Name = "default"
    priority: Annotated[int, msgspec.Meta(ge=-100, le=100)] = 0
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    delay_seconds: Annotated[float, msgspec.Meta(ge=0, le=DELAY_SECONDS_MAX)] = 0.0
    idempotency_key: Key | None = None
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 5
    ordered: bool = False
    hold: bool = False
    headers: Annotated[dict[HeaderName, HeaderText], msgspec.Meta(max_length=64)] | None = None


class EnqueuedShape(msgspec.Struct, frozen=True):
    """The id of the new row, or of the row that already has the idempotency key."""

    id: UUID
    outcome: Literal["enqueued", "duplicate"]


class Conflict(msgspec.Struct, frozen=True):
    """Which row already has the idempotency key."""

    error: str
    id: UUID


async def enqueue(ask: Ask[Any, NewRowAsked]) -> Reply:
    """Put a row into the inbox: 201, 200 for a duplicate, 409 when the idempotency key has other content."""
    require_queue(ask.access, ask.body.queue)
    try:
        answer = await ask.change(verbs.enqueue(NewRow(**msgspec.structs.asdict(ask.body))), ask.body.kind)
    except IdempotencyConflict as conflict:
        raise Refused(409, str(conflict), id=str(conflict.row_id)) from None
    return Reply(201 if answer.outcome == "enqueued" else 200, answer._asdict())


ROUTES = (
    Route(
        "POST",
        "/api/rows",
        "enqueue",
        enqueue,
        {201: EnqueuedShape, 200: EnqueuedShape, 409: Conflict},
        body=NewRowAsked,
        by_queue=True,
    ),
)
