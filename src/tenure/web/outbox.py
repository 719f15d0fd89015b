"""Outboxes: what waits for a broker, for how long, and since when it is away."""

from __future__ import annotations

from typing import Any

import msgspec

from ..verbs import questions
from ..verbs.outboxes import away_of
from ..verbs.outboxes import outboxes as every
from .route import Ask, Route


class AwayShape(msgspec.Struct, frozen=True):
    """A worker that cannot reach the broker."""

    worker: str
    since: str
    error: str


class OutboxShape(msgspec.Struct, frozen=True):
    """One outbox; `oldest_seconds` is its lag."""

    outbox: str
    pending: int
    processing: int
    postponed: int
    oldest_seconds: float | None
    blocked: int
    dead: int
    away: list[AwayShape]


class OutboxesShape(msgspec.Struct, frozen=True):
    """Every outbox, by name."""

    outboxes: list[OutboxShape]


async def outboxes(ask: Ask[Any, None]) -> OutboxesShape:
    """Every outbox: what waits, its lag, its blocked keys, and since when its broker is away."""
    found = await ask.site.store.ask(every())
    away = away_of(await ask.site.store.ask(questions.workers()))
    return OutboxesShape([OutboxShape(*each, [AwayShape(*one) for one in away.get(each.outbox, [])]) for each in found])


ROUTES = (Route("GET", "/api/outbox", "read", outboxes, {200: OutboxesShape}),)
