"""Batches: how far each has come, and the rows of one that are open or ended badly."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from .. import postgres
from ..errors import telling_line
from ..verbs import batches as verbs
from ..verbs.batches import Group
from .answers import EXCERPT_MAX, utc
from .http_errors import Refused
from .route import Ask, Asked, Error, Route

Number = Annotated[int, msgspec.Meta(ge=1, le=(1 << 57) - 1)]


class BatchesAsked(Asked, frozen=True):
    """How many, and where the list begins."""

    n: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    before: Number = (1 << 57) - 1


class BatchShape(msgspec.Struct, frozen=True):
    """One batch; `open` rows have not ended, `ended` ones have, well or not."""

    id: int
    name: str | None
    size: int
    open: int
    ended: int
    failed: int
    cancelled: int
    failing: bool
    opened_at: datetime
    ended_at: datetime | None
    then_row: UUID | None
    then_batch: int | None


class BatchesShape(msgspec.Struct, frozen=True):
    """The latest batches, newest first."""

    batches: list[BatchShape]


class MemberShape(msgspec.Struct, frozen=True):
    """A row of a batch that is open or ended badly."""

    id: UUID
    status: str
    kind: str
    error: str | None


class BatchPage(msgspec.Struct, frozen=True):
    """One batch, and up to 50 of its rows that are open or ended badly."""

    batch: BatchShape
    rows: list[MemberShape]


async def batches(ask: Ask[BatchesAsked, None]) -> BatchesShape:
    """The latest batches, and how far each has come."""
    found = await ask.site.store.ask(verbs.groups(ask.query.n, before=ask.query.before))
    return BatchesShape([_shape(each) for each in found])


async def batch(ask: Ask[Any, None]) -> BatchPage:
    """One batch, and its rows that are open or ended badly."""
    id, schema = ask.path["batch"], ask.site.store.schema
    async with ask.site.store.reading() as conn:
        found = await postgres.run(conn, verbs.group(id), schema)
        if found is None:
            raise Refused(404, f"there is no batch {id}, or no more: GET api/batches lists them")
        rows = await postgres.run(conn, verbs.members(id), schema)
    shown = [
        MemberShape(each.id, each.status, each.kind, each.last_error and telling_line(each.last_error)[:EXCERPT_MAX])
        for each in rows
    ]
    return BatchPage(_shape(found), shown)


def _shape(group: Group) -> BatchShape:
    return BatchShape(
        id=group.id,
        name=group.name,
        size=group.size,
        open=group.open,
        ended=group.done,
        failed=group.failed,
        cancelled=group.cancelled,
        failing=group.failing,
        opened_at=utc(group.opened_at),
        ended_at=utc(group.ended_at),
        then_row=group.then_row,
        then_batch=group.then_group,
    )


ROUTES = (
    Route("GET", "/api/batches", "read", batches, {200: BatchesShape}, BatchesAsked),
    Route("GET", "/api/batches/{batch}", "read", batch, {200: BatchPage, 404: Error}, types={"batch": Number}),
)
