"""Projections: how far each shard has read, what stopped it; pause, resume, rebuild, skip."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from .. import postgres
from ..errors import BadSettings
from ..verbs import projections as verbs
from ..verbs.journal import horizon
from ..verbs.projections import ShardLag
from ..verbs.rebuild import ask_rebuild
from ..verbs.statement import Statement
from .answers import utc
from .http_errors import Refused
from .route import Ask, Error, Route, Why


class ShardShape(msgspec.Struct, frozen=True):
    """One shard; `shard` is -1 for tables that are being rebuilt."""

    shard: int
    position: int
    behind: int
    lag_seconds: float
    state: str
    stopped_at: int | None
    error: str | None
    skipped: int
    updated_at: datetime


class ProjectionShape(msgspec.Struct, frozen=True):
    """One projection with its shards."""

    projection: str
    paused: bool
    shards: list[ShardShape]


class ProjectionsShape(msgspec.Struct, frozen=True):
    """Every projection, and how far the journal can be read; `last` is the last number that was given out."""

    horizon: int
    last: int
    projections: list[ProjectionShape]


class Told(msgspec.Struct, frozen=True):
    """Which one."""

    projection: str
    changed: bool
    said: str = ""


async def projections(ask: Ask[Any, None]) -> ProjectionsShape:
    """Every projection: how far behind each shard is, and what stopped it."""
    async with ask.site.store.reading() as conn:
        found = await postgres.run(conn, horizon(), ask.site.store.schema)
        every = await postgres.run(conn, verbs.projections(), ask.site.store.schema)
    named: dict[str, list[ShardLag]] = {}
    for each in every:
        named.setdefault(each.projection, []).append(each)
    shown = [
        ProjectionShape(name, shards[0].paused, [_shape(each) for each in shards]) for name, shards in named.items()
    ]
    return ProjectionsShape(found.position, found.last, shown)


def _shape(each: ShardLag) -> ShardShape:
    return ShardShape(
        shard=each.shard,
        position=each.position,
        behind=each.behind,
        lag_seconds=each.lag_seconds,
        state=each.state,
        stopped_at=each.stopped_at,
        error=each.error,
        skipped=each.skipped,
        updated_at=utc(each.updated_at),
    )


async def pause(ask: Ask[Any, Why]) -> Told:
    return await _act(ask, verbs.pause_projection(ask.path["name"]))


async def resume(ask: Ask[Any, Why]) -> Told:
    return await _act(ask, verbs.resume_projection(ask.path["name"]))


async def rebuild(ask: Ask[Any, Why]) -> Told:
    try:
        return await _act(ask, ask_rebuild(ask.path["name"]))
    except BadSettings as refused:  # there is none, or events of it are past retention
        raise Refused(404 if "there is no" in str(refused) else 409, str(refused)) from refused


async def skip(ask: Ask[Any, Why]) -> Told:
    return await _act(ask, verbs.skip_stopped(ask.path["name"]), "no shard of it has stopped")


async def _act(ask: Ask[Any, Why], statement: Statement[Any], why: str = "there is none of this name") -> Told:
    name = ask.path["name"]
    if not (done := await ask.change(statement, name)):
        raise Refused(404, f"nothing was done to the projection {name!r}: {why}; GET api/projections lists them")
    if isinstance(done, verbs.Resumed):
        return Told(name, bool(done.said()), done.said() or "nothing to do: it goes on already")
    return Told(name, True)


_FOUND = {200: Told, 404: Error}
ROUTES = (
    Route("GET", "/api/projections", "read", projections, {200: ProjectionsShape}),
    Route("POST", "/api/projections/{name:text}/pause", "pause_projection", pause, _FOUND, body=Why),
    Route("POST", "/api/projections/{name:text}/resume", "resume_projection", resume, _FOUND, body=Why),
    Route(
        "POST", "/api/projections/{name:text}/rebuild", "rebuild_projection", rebuild, {**_FOUND, 409: Error}, body=Why
    ),
    Route("POST", "/api/projections/{name:text}/skip", "skip_projection", skip, _FOUND, body=Why),
)
