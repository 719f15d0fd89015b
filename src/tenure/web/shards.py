"""The inboxes of a Citus cluster: which ranges of keys are at home in each, and what waits."""

from __future__ import annotations

from typing import Any

import msgspec
from psycopg.errors import InvalidSchemaName, UndefinedFunction, UndefinedTable

from ..model.handoff import MOVED
from ..verbs.citus_ranges import shard
from .http_errors import Refused
from .route import Ask, Error, Route


class InboxShape(msgspec.Struct, frozen=True):
    """One inbox; `reason` says what its first ordered row waits for whose range is not yet at home."""

    epoch: int
    home: int
    waiting: int
    depth: int
    dead: int
    oldest_seconds: float | None
    workers: int
    reason: str | None


class ShardsShape(msgspec.Struct, frozen=True):
    """Every inbox of the cluster."""

    shards: list[InboxShape]


async def shards(ask: Ask[Any, None]) -> ShardsShape:
    """The inboxes of a Citus cluster, the ranges at home there, and the rows that wait for a range."""
    try:
        found = await ask.site.store.ask(shard())
    except (InvalidSchemaName, UndefinedFunction, UndefinedTable):
        raise Refused(404, "this inbox is no node of a Citus cluster: `tenure migrate --citus` makes it one") from None
    told = (
        found.reason if found.reason and found.reason.startswith(MOVED) else None
    )  # other errors may tell of payloads
    return ShardsShape([InboxShape(*found._replace(reason=told))])


ROUTES = (Route("GET", "/api/shards", "read", shards, {200: ShardsShape, 404: Error}),)
