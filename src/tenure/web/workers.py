"""Workers: who is alive, since when, and how many slots are used; drain one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .. import operate, postgres
from ..model.ring import rings_of
from ..verbs import questions
from ..verbs.questions import Holding, Member
from .http_errors import Refused
from .route import Ask, Error, Route, Why


class WorkerShape(msgspec.Struct, frozen=True):
    """One process of the fleet, with what it reports at each heartbeat, and what it holds now.

    The rows of an ordered key take turns in one slot, and rows ahead have none yet. `slots_stuck` run handlers that did
    not stop when they should have; all others of `slots_used` have a row.
    """

    id: str
    status: str
    seen_seconds: float
    up_seconds: float
    present: bool | None
    slots: int | None
    slots_used: int
    slots_stuck: int
    host: str | None
    pid: int | None
    version: str | None
    wakeup: str | None
    queues: list[str]
    kinds: list[str]
    held: int
    buckets: int


class WorkersShape(msgspec.Struct, frozen=True):
    """Every known worker; workers whose heartbeat stopped come last."""

    workers: list[WorkerShape]


class Drained(msgspec.Struct, frozen=True):
    """Which worker was asked to drain."""

    worker: str
    changed: bool


async def workers(ask: Ask[Any, None]) -> WorkersShape:
    """Every known worker; workers whose heartbeat stopped come last."""
    schema = ask.site.store.schema
    async with ask.site.store.reading() as conn:
        found = await postgres.run(conn, questions.workers(), schema)
        alive = await postgres.run(conn, questions.live_workers(), schema)
        held = await postgres.run(conn, questions.held_by_worker(), schema)
    owned = {id: len(ring.buckets_of(id)) for ring in rings_of(alive).values() for id in ring.workers}
    nothing = Holding(0, 0)
    return WorkersShape([_shape(each, owned.get(each.id, 0), held.get(each.id, nothing)) for each in found])


def _shape(each: Member, buckets: int, held: Holding) -> WorkerShape:
    said = each.metadata
    slots, stuck = _number(said, "slots"), _number(said, "slots_stuck") or 0
    return WorkerShape(
        id=each.id,
        status=each.status,
        seen_seconds=each.seen_seconds,
        up_seconds=each.up_seconds,
        present=each.present,
        slots=slots,
        slots_used=min(held.slots + stuck, slots or held.slots + stuck),  # the others are rows ahead
        slots_stuck=stuck,
        host=_text(said, "host"),
        pid=_number(said, "pid"),
        version=_text(said, "version"),
        wakeup=_text(said, "wakeup"),
        queues=_texts(said, "queues"),
        kinds=_texts(said, "kinds"),
        held=held.rows,
        buckets=buckets,
    )


def _number(said: Mapping[str, Any], name: str) -> int | None:
    value = said.get(name)
    return value if isinstance(value, int) else None


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return None if value is None else str(value)


def _texts(said: Mapping[str, Any], name: str) -> list[str]:
    return [str(each) for each in said.get(name) or ()]


async def drain(ask: Ask[Any, Why]) -> Drained:
    name = ask.path["name"]
    if not await ask.change(operate.drain_worker(name), name):
        raise Refused(404, f"no worker {name!r} is alive: GET api/workers lists them")
    return Drained(name, True)


ROUTES = (
    Route("GET", "/api/workers", "read", workers, {200: WorkersShape}),
    Route("POST", "/api/workers/{name:text}/drain", "drain_worker", drain, {200: Drained, 404: Error}, body=Why),
)
