"""The family of a row: who waits for it, and for whom it waits."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from .. import postgres
from ..verbs import questions, results
from .answers import utc
from .http_errors import Refused
from .route import Ask, Error, Route

CHILDREN_MAX = 50


class RelativeShape(msgspec.Struct, frozen=True):
    """A row of the family; of one that retention has deleted only its id is known."""

    id: UUID
    kind: str | None
    queue: str | None
    status: str | None
    available_at: datetime | None


class FamilyShape(msgspec.Struct, frozen=True):
    """The row that waits for this one, and the first rows that this one waits for."""

    parents: list[RelativeShape]
    children: list[RelativeShape]
    more: bool


async def family(ask: Ask[Any, None]) -> FamilyShape:
    """The row that waits for this row, and the rows that it waits for."""
    id, site = ask.path["id"], ask.site
    async with site.store.reading() as conn:
        row = await postgres.run(conn, questions.row(id), site.store.schema)
        if row is None or not ask.access.sees(row.queue):
            raise Refused(404, f"there is no row {id}: {questions.NO_ROW}")
        asked = results.family(id, CHILDREN_MAX + 1, queues=ask.access.queues)
        found = await postgres.run(conn, asked, site.store.schema)
    seen = [each for each in found if ask.access.queues is None or ask.access.sees(each.queue or "")]
    children = [_shape(each) for each in seen if each.relation == "child"]
    parents = [_shape(each) for each in seen if each.relation == "parent"]
    return FamilyShape(parents, children[:CHILDREN_MAX], len(children) > CHILDREN_MAX)


def _shape(each: results.Relative) -> RelativeShape:
    return RelativeShape(each.id, each.kind, each.queue, each.status, utc(each.available_at))


ROUTES = (Route("GET", "/api/rows/{id}/family", "read", family, {200: FamilyShape, 404: Error}, by_queue=True),)
