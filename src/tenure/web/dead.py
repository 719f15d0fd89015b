"""Failed rows and dead letters grouped by error, and ordered keys that are blocked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import msgspec

from .. import operate
from ..model.filter_words import in_unit
from ..model.limits import DELAY_SECONDS_MAX
from ..verbs import questions, search
from .answers import utc
from .http_errors import Refused
from .route import Ask, Asked, Error, Key, Name, Route


class HowMany(Asked, frozen=True):
    """How many at most."""

    n: Annotated[int, msgspec.Meta(ge=1, le=500)] = 50


class GroupShape(msgspec.Struct, frozen=True):
    """Rows of one kind that ended in the same way, and the filter that finds them."""

    status: str
    kind: str
    fingerprint: str
    n: int
    more: bool
    first_at: datetime
    last_at: datetime
    last_error: str | None
    sample: UUID
    filter: str


class DeadShape(msgspec.Struct, frozen=True):
    """The groups, the latest first."""

    groups: list[GroupShape]


class KeyShape(msgspec.Struct, frozen=True):
    """A key, the row that blocks it, and how many rows wait behind that row."""

    queue: str
    key: str
    head: UUID
    status: str
    reason: str
    waiting: int


class BlockedShape(msgspec.Struct, frozen=True):
    """The keys; the one with the most rows behind it first."""

    keys: list[KeyShape]


class KeyAsked(Asked, frozen=True):
    """Which ordered key."""

    queue: Name
    key: Key


class Freed(msgspec.Struct, frozen=True):
    """Which key goes on."""

    queue: str
    key: str
    changed: bool


class PostponeAsked(Asked, frozen=True):
    """Which key, and how long from now its pending rows shall wait."""

    queue: Name
    key: Key
    seconds: Annotated[float, msgspec.Meta(gt=0, le=DELAY_SECONDS_MAX)]


class Postponed(msgspec.Struct, frozen=True):
    """How many rows wait longer now."""

    queue: str
    key: str
    rows: int


async def dead(ask: Ask[HowMany, None]) -> DeadShape:
    """Failed rows and dead letters by kind and error, the latest first."""
    return DeadShape([_group(each) for each in await ask.site.store.ask(search.dead_groups(ask.query.n))])


def _group(each: search.DeadGroup) -> GroupShape:
    return GroupShape(
        each.status,
        each.kind,
        each.fingerprint,
        each.rows.n,
        each.rows.more,
        utc(each.first_at),
        utc(each.last_at),
        each.last_error,
        each.sample_id,
        str(each.filter),
    )


async def blocked(ask: Ask[HowMany, None]) -> BlockedShape:
    """Ordered keys that are blocked; the one with the most rows behind it first."""
    return BlockedShape([KeyShape(*each) for each in await ask.site.store.ask(questions.blocked_keys(ask.query.n))])


async def free(ask: Ask[Any, KeyAsked]) -> Freed:
    queue, key = ask.body.queue, ask.body.key
    if not await ask.change(operate.free_key(queue, key), f"{queue} {key}"):
        raise Refused(404, f"key {key!r} of queue {queue!r} does not wait for an operator: GET api/blocked lists those")
    return Freed(queue, key, True)


async def postpone(ask: Ask[Any, PostponeAsked]) -> Postponed:
    queue, key, seconds = ask.body.queue, ask.body.key, ask.body.seconds
    until = await ask.site.store.ask(questions.clock()) + timedelta(seconds=seconds)
    rows = await ask.change(operate.postpone(queue, key, until), f"{queue} {key} {in_unit(seconds)}")
    return Postponed(queue, key, rows)


ROUTES = (
    Route("GET", "/api/dead", "read", dead, {200: DeadShape}, HowMany),
    Route("GET", "/api/blocked", "read", blocked, {200: BlockedShape}, HowMany),
    Route("POST", "/api/blocked/postpone", "postpone_key", postpone, {200: Postponed}, body=PostponeAsked),
    Route("POST", "/api/blocked/free", "free_key", free, {200: Freed, 404: Error}, body=KeyAsked),
)
