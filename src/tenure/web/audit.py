"""The audit: who changed what, and to how many rows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from .. import operate
from ..operate import AuditLine
from ..operator_verbs import ON_ROWS
from .answers import utc
from .route import Ask, Asked, Route
from .site import Site


class AuditAsked(Asked, frozen=True):
    """How many lines, before which."""

    n: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    before: Annotated[int, msgspec.Meta(ge=1, le=2**62)] | UnsetType = UNSET


class AuditLineShape(msgspec.Struct, frozen=True):
    """One line; done_at is null while the action goes on, and stays null if it was stopped."""

    id: int
    at: datetime
    done_at: datetime | None
    actor: str
    via: str
    verb: str
    target: str
    rows: int
    reason: str


class AuditShape(msgspec.Struct, frozen=True):
    """Lines, the latest first, and `before` of the next page."""

    audit: list[AuditLineShape]
    next: int | None


async def audit(ask: Ask[AuditAsked, None]) -> AuditShape:
    """What operators did, the latest first."""
    before = None if ask.query.before is UNSET else ask.query.before
    found = await ask.site.store.ask(operate.audit(ask.query.n, before))
    more = len(found) == ask.query.n
    return AuditShape([line_shape(each, ask.site) for each in found], found[-1].id if more else None)


def line_shape(each: AuditLine, site: Site) -> AuditLineShape:
    """A line with its times in UTC; values that this site hides are hidden in its filter too."""
    target = site.target(each.target) if each.verb in ON_ROWS or each.verb == "export" else each.target
    return AuditLineShape(
        each.id, utc(each.at), utc(each.done_at), each.actor, each.via, each.verb, target, each.rows, each.reason
    )


ROUTES = (Route("GET", "/api/audit", "read", audit, {200: AuditShape}, AuditAsked),)
