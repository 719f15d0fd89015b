"""Queues: the rows of each, its settings; pause, resume, limit."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from .. import postgres
from ..verbs import questions
from ..verbs import queues as verbs
from ..verbs.questions import QueueDepth
from ..verbs.queues import RATE_MAX, RATE_MIN, SLOTS_MAX
from .route import Ask, Asked, Route, require_queue, when


class QueueShape(msgspec.Struct, frozen=True):
    """One queue: rows by state, its limits and how much of them is used; states in `more` have at least so many."""

    queue: str
    pending: int
    scheduled: int
    processing: int
    failed: int
    dead_letter: int
    cancelled: int
    more: list[str]
    oldest_runnable_seconds: float | None
    paused: bool
    max_running: int | None
    max_per_key: int | None
    rate_per_second: float | None
    burst: int | None
    running: int


class QueuesShape(msgspec.Struct, frozen=True):
    """Every queue that has a row or a setting."""

    queues: list[QueueShape]


class Changed(msgspec.Struct, frozen=True):
    """Whether that changed anything."""

    queue: str
    changed: bool


STATES = ("pending", "scheduled", "processing", "failed", "dead_letter", "cancelled")
SETTINGS = ("max_running", "max_per_key", "rate_per_second", "burst")
Slots = Annotated[int, msgspec.Meta(ge=1, le=SLOTS_MAX)]


class LimitsAsked(Asked, frozen=True):
    """All limits of a queue; a limit that is null or missing is removed."""

    rules = (when({"burst": {"type": "integer"}}, {"rate_per_second": {"type": "number"}}),)

    max_running: Slots | None = None
    max_per_key: Slots | None = None
    rate_per_second: Annotated[float, msgspec.Meta(ge=RATE_MIN, le=RATE_MAX)] | None = None
    burst: Annotated[int, msgspec.Meta(ge=1, le=RATE_MAX)] | None = None


async def queues(ask: Ask[Any, None]) -> QueuesShape:
    """Every queue with its rows by state, its limits and its lag."""
    schema = ask.site.store.schema
    async with ask.site.store.reading() as conn:
        depth = await postgres.run(conn, questions.queue_depths(), schema)
        lag = await postgres.run(conn, questions.queue_lags(), schema)
        known = {each.queue: each for each in await postgres.run(conn, verbs.queues(), schema)}
    found: dict[str, list[QueueDepth]] = {name: [] for name in known}
    for each in depth:
        found.setdefault(each.queue, []).append(each)
    return QueuesShape(
        [_shape(name, found[name], lag.get(name), known.get(name)) for name in sorted(found) if ask.access.sees(name)]
    )


def _shape(name: str, depth: list[QueueDepth], lag: float | None, known: verbs.Queue | None) -> QueueShape:
    counts: dict[str, Any] = {**dict.fromkeys(STATES, 0), **{each.status: each.rows for each in depth}}
    given: dict[str, Any] = {each: getattr(known, each, None) for each in SETTINGS}
    return QueueShape(
        queue=name,
        more=[each.status for each in depth if each.more],
        oldest_runnable_seconds=lag,
        paused=known is not None and known.paused,
        running=known.running if known else 0,
        **given,
        **counts,
    )


async def pause(ask: Ask[Any, None]) -> Changed:
    name = ask.path["name"]
    require_queue(ask.access, name)
    return Changed(name, await ask.change(verbs.pause(name), name))


async def resume(ask: Ask[Any, None]) -> Changed:
    name = ask.path["name"]
    require_queue(ask.access, name)
    return Changed(name, await ask.change(verbs.resume(name), name))


async def limit(ask: Ask[Any, LimitsAsked]) -> LimitsAsked:
    """Set all limits of a queue at once."""
    require_queue(ask.access, ask.path["name"])
    statement = verbs.limit(ask.path["name"], **msgspec.structs.asdict(ask.body), clear=True)
    await ask.change(statement, ask.path["name"], _words(ask.body))
    return ask.body


def _words(asked: LimitsAsked) -> str:
    given = [f"{name}={value:g}" for name, value in msgspec.structs.asdict(asked).items() if value is not None]
    return " ".join(given) or "no limits"


ROUTES = (
    Route("GET", "/api/queues", "read", queues, {200: QueuesShape}, by_queue=True),
    Route("POST", "/api/queues/{name:text}/pause", "pause_queue", pause, {200: Changed}, by_queue=True),
    Route("POST", "/api/queues/{name:text}/resume", "resume_queue", resume, {200: Changed}, by_queue=True),
    Route(
        "PUT",
        "/api/queues/{name:text}/limits",
        "limit_queue",
        limit,
        {200: LimitsAsked},
        body=LimitsAsked,
        by_queue=True,
    ),
)
