"""Queues: the rows of each, its settings; pause, resume, limit."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from .. import postgres
from ..model.filter_words import in_unit
from ..verbs import questions
from ..verbs import queues as verbs
from ..verbs.questions import QueueDepth
from ..verbs.queues import RATE_MAX, RATE_MIN, RETENTION_SECONDS_MAX, RETENTION_SECONDS_MIN, SLOTS_MAX
from .route import Ask, Asked, Route, Why, require_queue, when


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
    retention_seconds: float | None
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
    """All limits of a queue. A limit that is null or missing is removed; `tenure queues limit` keeps it."""

    rules = (when({"burst": {"type": "integer"}}, {"rate_per_second": {"type": "number"}}),)

    max_running: Slots | None = None
    max_per_key: Slots | None = None
    rate_per_second: Annotated[float, msgspec.Meta(ge=RATE_MIN, le=RATE_MAX)] | None = None
    burst: Annotated[int, msgspec.Meta(ge=1, le=RATE_MAX)] | None = None


class RetentionAsked(Asked, frozen=True):
    """How long the ended rows of a queue are kept; null: as long as the workers' own setting says."""

    retention_seconds: Annotated[float, msgspec.Meta(ge=RETENTION_SECONDS_MIN, le=RETENTION_SECONDS_MAX)] | None


async def queues(ask: Ask[Any, None]) -> QueuesShape:
    """Every queue with its rows by state, its limits and its lag."""
    schema = ask.site.store.schema
    async with ask.site.store.reading() as conn:
        depth = await postgres.run(conn, questions.queue_depths(), schema)
        lag = await postgres.run(conn, questions.queue_lags(), schema)
        known = {each.queue: each for each in await postgres.run(conn, verbs.queues(), schema) if each.is_set}
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
        retention_seconds=known.retention_seconds if known else None,
        **given,
        **counts,
    )


async def pause(ask: Ask[Any, Why]) -> Changed:
    name = ask.path["name"]
    require_queue(ask.access, name)
    return Changed(name, await ask.change(verbs.pause(name), name))


async def resume(ask: Ask[Any, Why]) -> Changed:
    name = ask.path["name"]
    require_queue(ask.access, name)
    return Changed(name, await ask.change(verbs.resume(name), name))


async def limit(ask: Ask[Any, LimitsAsked]) -> LimitsAsked:
    """Set all limits of a queue at once: a limit that is not given is removed."""
    require_queue(ask.access, ask.path["name"])
    statement = verbs.limit(ask.path["name"], **msgspec.structs.asdict(ask.body), clear=True)
    await ask.change(statement, ask.path["name"], _words(ask.body))
    return ask.body


async def retain(ask: Ask[Any, RetentionAsked]) -> RetentionAsked:
    """Set how long the ended rows of a queue are kept."""
    require_queue(ask.access, ask.path["name"])
    seconds = ask.body.retention_seconds
    said = "default" if seconds is None else in_unit(seconds)
    await ask.change(verbs.retain(ask.path["name"], seconds), ask.path["name"], said)
    return ask.body


def _words(asked: LimitsAsked) -> str:
    given = [f"{name}={value:g}" for name, value in msgspec.structs.asdict(asked).items() if value is not None]
    return " ".join(given) or "no limits"


ROUTES = (
    Route("GET", "/api/queues", "read", queues, {200: QueuesShape}, by_queue=True),
    Route("POST", "/api/queues/{name:text}/pause", "pause_queue", pause, {200: Changed}, by_queue=True, body=Why),
    Route("POST", "/api/queues/{name:text}/resume", "resume_queue", resume, {200: Changed}, by_queue=True, body=Why),
    Route(
        "PUT",
        "/api/queues/{name:text}/retention",
        "retain_queue",
        retain,
        {200: RetentionAsked},
        body=RetentionAsked,
        by_queue=True,
    ),
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
