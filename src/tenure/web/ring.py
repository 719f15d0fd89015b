"""The ring: who owns which bucket, how many rows are pending there, and what each change of the fleet moved."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from .. import postgres
from ..model.ring import Ring, rings_of
from ..model.rows import BUCKETS
from ..verbs import history, questions
from .answers import utc
from .http_errors import Refused
from .route import Ask, Asked, Error, Route

ARCS = 64


class RingAsked(Asked, frozen=True):
    """Which set of queues, as in `sets`: mail,reports."""

    queues: Annotated[str, msgspec.Meta(max_length=4000)] | UnsetType = UNSET


class ChangeShape(msgspec.Struct, frozen=True):
    """A worker joined, left or died, and what that moved; needless moves are between workers that stayed."""

    at: datetime
    what: str
    worker: str
    moved: int
    of: int
    workers: int
    needless: int


class RingShape(msgspec.Struct, frozen=True):
    """One ring: the owner of each bucket as an index into workers, -1 for none; pending rows for each 16 buckets.

    Of unordered rows, those that are due first are counted.
    """

    queues: list[str]
    sets: list[list[str]]
    workers: list[str]
    buckets: list[int]
    depth: list[int]
    history: list[ChangeShape]


async def ring(ask: Ask[RingAsked, None]) -> RingShape:
    """Who owns which of the 1024 buckets, for one set of queues."""
    schema = ask.site.store.schema
    async with ask.site.store.reading() as conn:
        alive = await postgres.run(conn, questions.live_workers(), schema)
        changes = await postgres.run(conn, history.membership(50), schema)
        rings = rings_of(alive)
        queues = _chosen(ask.query.queues, list(rings))
        depth = await postgres.run(conn, questions.ring_depth(list(queues)), schema)
    chosen = rings.get(queues, Ring(()))
    told = [each for each in history.ring_changes(alive, changes) if each.queues == queues]
    index = {worker: n for n, worker in enumerate(chosen.workers)}
    return RingShape(
        queues=list(queues),
        sets=[list(each) for each in rings],
        workers=list(chosen.workers),
        buckets=[index[chosen.owner_of(n)] if index else -1 for n in range(BUCKETS)],
        depth=[depth.get(arc, 0) for arc in range(ARCS)],
        history=[_change(each) for each in told],
    )


def _chosen(asked: str | UnsetType, sets: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The set that was asked for, or the first there is."""
    if asked is UNSET:
        return sets[0] if sets else ()
    wanted = tuple(sorted(filter(None, asked.split(","))))
    if wanted not in sets and wanted:
        known = "; ".join(",".join(each) for each in sets) or "none"
        raise Refused(404, f"no workers share the queues {','.join(wanted)[:200]!r}: there are {known}")
    return wanted


def _change(each: history.RingChange) -> ChangeShape:
    return ChangeShape(utc(each.at), each.what, each.worker, each.moved, each.of, each.workers, each.needless)


ROUTES = (Route("GET", "/api/ring", "read", ring, {200: RingShape, 404: Error}, RingAsked),)
