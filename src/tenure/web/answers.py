"""The shapes that several answers share: a row, a capped count, a time in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import telling_line
from ..model.filter import Filter
from ..model.rows import Row
from ..verbs.search import Count as Counted
from .site import Site

EXCERPT_MAX = 300
HEAD_MAX = 2000  # of a payload, read for an excerpt: redaction may make it shorter


class Count(msgspec.Struct, frozen=True):
    """How many; with `more`, at least so many."""

    n: int
    more: bool


class RowShape(msgspec.Struct, frozen=True):
    """A row in any state. Tokens and fences are text: they have 64 bits, and numbers of JavaScript have 53."""

    id: UUID
    status: str
    kind: str
    queue: str
    key: str | None
    bucket: int
    attempts: int
    max_attempts: int
    priority: int
    ordered: bool
    worker: str | None
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    lease_seconds_left: float | None
    generation: str
    fence: str
    available_at: datetime
    created_at: datetime
    finished_at: datetime | None
    finished_by: str | None
    last_error: str | None
    idempotency_key: str | None
    cancel_asked: bool
    payload: str | None
    payload_hidden: bool
    headers: str | None


def row_shape(row: Row, now: datetime, site: Site, *, excerpt: bool = False) -> RowShape:
    """A row as this site shows it. An excerpt has at most 300 characters of payload and error."""
    most = EXCERPT_MAX if excerpt else None
    left = (row.lease_expires_at - now).total_seconds() if row.lease_expires_at else None
    return RowShape(
        id=row.id,
        status=row.status,
        kind=row.kind,
        queue=row.queue,
        key=row.partition_key,
        bucket=row.partition_bucket,
        attempts=row.attempts,
        max_attempts=row.max_attempts,
        priority=row.priority,
        ordered=row.ordered,
        worker=row.claimed_by,
        claimed_at=utc(row.claimed_at),
        lease_expires_at=utc(row.lease_expires_at),
        lease_seconds_left=left,
        generation=str(row.lease_generation),
        fence=str(row.fence_token),
        available_at=utc(row.available_at),
        created_at=utc(row.created_at),
        finished_at=utc(row.finished_at or row.completed_at),
        finished_by=row.finished_by,
        last_error=row.last_error and (telling_line(row.last_error)[:EXCERPT_MAX] if excerpt else row.last_error),
        idempotency_key=row.idempotency_key,
        cancel_asked=row.cancel_asked,
        payload=_cut(site.payload(row.payload), most),
        payload_hidden=site.hide_payloads,
        headers=site.payload(row.headers),
    )


def hint_of(filter: Filter) -> str | UnsetType:
    """Which words of a filter have a new name; unset if none has."""
    return "; ".join(filter.hints) or UNSET


def count(counted: Counted) -> Count:
    """A capped count."""
    return Count(counted.n, counted.more)


@overload
def utc(at: datetime) -> datetime: ...
@overload
def utc(at: None) -> None: ...
def utc(at: datetime | None) -> datetime | None:
    """The same moment in UTC: JSON then ends it with Z."""
    return at.astimezone(UTC) if at is not None else None


def _cut(text: str | None, most: int | None) -> str | None:
    return text[:most] if text is not None else None
