"""Outboxes: what waits for a broker, for how long, and since when it is away."""

from __future__ import annotations

from typing import Any

import msgspec

from ..verbs import questions
from ..verbs.outboxes import away_of, served_by
from ..verbs.outboxes import outboxes as every
from .route import Ask, Route


class AwayShape(msgspec.Struct, frozen=True):
    """A worker that cannot reach the broker."""

    worker: str
    since: str
    error: str


class OutboxShape(msgspec.Struct, frozen=True):
    """One outbox; `oldest_seconds` is its lag; `served`: a worker that runs has it."""

    outbox: str
    pending: int
    processing: int
    postponed: int
    oldest_seconds: float | None
    blocked: int
    dead: int
    queues: list[str]
    away: list[AwayShape]
    served: bool


class OutboxesShape(msgspec.Struct, frozen=True):
    """Every outbox, by name."""

    outboxes: list[OutboxShape]


async def outboxes(ask: Ask[Any, None]) -> OutboxesShape:
    """Every outbox: what waits, its lag, its blocked keys, and since when its broker is away."""
    found = await ask.site.store.ask(every())
    workers = await ask.site.store.ask(questions.workers())
    away, served = away_of(workers), served_by(workers, found)
    return OutboxesShape(
        [
            OutboxShape(*each, [AwayShape(*one) for one in away.get(each.outbox, [])], each.outbox in served)
            for each in found
        ]
    )


ROUTES = (Route("GET", "/api/outbox", "read", outboxes, {200: OutboxesShape}),)
