"""Enqueue over HTTP: one row, its payload kept as it was written, digit by digit."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType
from psycopg import Connection

from .. import verbs
from ..errors import IdempotencyConflict
from ..model.declaration import fill
from ..model.limits import ATTEMPTS_MAX, DELAY_SECONDS_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, PRIORITY_MAX
from ..model.rows import Enqueued, NewRow
from ..postgres import run
from ..verbs import operators, questions
from ..verbs.kinds import declared
from .http_errors import Refused
from .route import Ask, Asked, Reply, Route, require_queue, together, when

# Their limits are in the description alone: the check that every door has refuses, in its words.
RowName = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": NAME_BYTES_MAX, "format": "tenure-name"})
]
RowKey = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": KEY_BYTES_MAX, "format": "tenure-name"})
]
Priority = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": -PRIORITY_MAX, "maximum": PRIORITY_MAX})]
Attempts = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": ATTEMPTS_MAX})]
Seconds = Annotated[float, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": DELAY_SECONDS_MAX})]
HeaderName = Annotated[str, msgspec.Meta(max_length=256)]
HeaderText = Annotated[str, msgspec.Meta(max_length=4096)]


class NewRowAsked(Asked, frozen=True):
    """A row as a producer sends it; what is left out or null is what the handler of the kind declared."""

    rules = (
        {"not": together({"at": {"type": "string"}, "delay_seconds": {"exclusiveMinimum": 0}})},
        # Of a kind that nobody has declared; else a handler may have declared the rest.
        when({"ordered": {"const": True}}, {"key": {"type": "string"}}),
        when({"hold": {"const": True}}, {"ordered": {"const": True}}),
    )

    kind: RowName
    payload: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    key: RowKey | None = None
    queue: RowName | None = None
    priority: Priority | None = None
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    delay_seconds: Seconds = 0.0
    idempotency_key: RowKey | None = None
    max_attempts: Attempts | None = None
    ordered: bool | None = None
    hold: bool | None = None
    headers: Annotated[dict[HeaderName, HeaderText], msgspec.Meta(max_length=64)] | None = None


class EnqueuedShape(msgspec.Struct, frozen=True):
    """The id of the new row, or of the row that already has the idempotency key; null if you may not see that row.

    Where payloads or that row are hidden, such a key is `known`, whatever was sent with it: nobody learns a payload by
    guessing.
    """

    id: UUID | None
    outcome: Literal["enqueued", "duplicate", "known"]
    hint: str | UnsetType = UNSET


class Conflict(msgspec.Struct, frozen=True):
    """Which row already has the idempotency key."""

    error: str
    id: UUID


async def enqueue(ask: Ask[Any, NewRowAsked]) -> Reply:
    """Put a row into the inbox: 201, 200 for a duplicate, 409 when the idempotency key has other content."""
    row, hint, answer, seen = await ask.site.store.blocking(lambda conn: _sent(conn, ask))
    if answer.outcome == "enqueued":
        return Reply(201, EnqueuedShape(answer.id, "enqueued", hint or UNSET))
    if ask.site.hide_payloads or not seen:
        return Reply(200, EnqueuedShape(answer.id if seen else None, "known"))
    if answer.outcome == "conflict":
        conflict = IdempotencyConflict(str(row.idempotency_key), answer.id)
        raise Refused(409, str(conflict), id=str(answer.id))
    return Reply(200, EnqueuedShape(answer.id, "duplicate"))


def _sent(conn: Connection[Any], ask: Ask[Any, NewRowAsked]) -> tuple[NewRow, str, Enqueued, bool]:
    """Send it as its handler declared, with its line of the audit: one row, or none for a key that is known.

    And whether the asker may see the row: keys are the same for all queues.
    """
    schema, actor = ask.site.store.schema, ask.actor
    given = msgspec.structs.asdict(ask.body)
    kind, payload = given.pop("kind"), given.pop("payload")
    options, hint = fill(given, bytes(payload), run(conn, declared(kind), schema), kind)
    row = NewRow(kind, payload, **options)
    require_queue(ask.access, row.queue)
    with conn.transaction():
        action = run(conn, operators.begin_audit(actor.name, actor.via, "enqueue", kind), schema)
        (answer,) = run(conn, verbs.enqueue_many([row]), schema)
        run(conn, operators.mark(action, int(answer.outcome == "enqueued"), done=True), schema)
    return row, hint, answer, answer.outcome == "enqueued" or _sees(conn, ask, answer.id)


def _sees(conn: Connection[Any], ask: Ask[Any, NewRowAsked], id: UUID) -> bool:
    """May the asker see this row? Who may see all queues may, also if it is gone."""
    if ask.access.queues is None:
        return True
    row = run(conn, questions.row(id), ask.site.store.schema)
    return row is not None and ask.access.sees(row.queue)


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
