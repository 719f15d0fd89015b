"""The overview: the inbox in a few numbers, charts, refused writes, and who asks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .. import __version__, postgres
from ..model.filter import Filter
from ..operator_verbs import OPERATOR_VERBS, Asks, Role
from ..postgres import migrate
from ..verbs import history, questions, search
from .answers import Count, count, utc
from .route import Ask, Asked, Name, Route
from .rows import RefusalShape, refusal_shape
from .store import Store, address

TICK_FENCE_SECONDS = 3600
REFUSALS_MAX = 20


class OverviewAsked(Asked, frozen=True):
    """How far back, and the queue of the charts."""

    seconds: Annotated[int, msgspec.Meta(ge=60, le=7 * 86_400)] = 3600
    queue: Name | UnsetType = UNSET


class WorkersCount(msgspec.Struct, frozen=True):
    """Processes by state."""

    alive: int
    draining: int
    dead: int


class LeaseCountsShape(msgspec.Struct, frozen=True):
    """What happened to leases in so many seconds."""

    seconds: int
    acquired: int
    renewed: int
    expired: int
    reclaimed: int
    lost: int
    stale_writes_blocked: int


class Numbers(msgspec.Struct, frozen=True):
    """The inbox in a few numbers; every tick of the feed has them."""

    at: datetime
    runnable: Count
    held: Count
    scheduled: Count
    dead: Count
    cancelled: Count
    oldest_runnable_seconds: float | None
    workers: WorkersCount
    fence: LeaseCountsShape


class PointShape(msgspec.Struct, frozen=True):
    """Attempts that ended in one step by outcome, and how long rows waited and handlers ran, in seconds."""

    at: datetime
    completed: int
    retried: int
    released: int
    failed: int
    dead_lettered: int
    cancelled: int
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None


class OverviewShape(Numbers, frozen=True):
    """The numbers, the charts, and the last writes that were refused."""

    series: list[PointShape]
    step_seconds: int
    recent_refusals: list[RefusalShape]


class VerbShape(msgspec.Struct, frozen=True):
    """One entry of the table of operator verbs; `audited` is its name in the audit."""

    name: str
    on: Literal["rows", "queue", "key", "worker", "schedule", "projection", "flow", "endpoint"]
    role: Role
    does: str
    past: str
    button: str
    asks: Asks
    grave: bool
    statuses: list[str]
    audited: str


class Me(msgspec.Struct, frozen=True):
    """Who asks, what they may do, and what this server is."""

    actor: str
    role: Role
    verbs: list[str]
    operator_verbs: list[VerbShape]
    version: str
    schema: str
    schema_version: int
    database: str
    payloads: Literal["shown", "hidden"]
    reveal: bool
    queues: list[str] | None
    redacted: list[str]
    drills: bool
    prefix: str
    login: bool
    logged_in: bool
    inboxes: list[str]
    citus: bool


OPERATORS = [
    msgspec.convert({**verb._asdict(), "audited": verb.audited}, VerbShape) for verb in OPERATOR_VERBS.values()
]


async def me(ask: Ask[Any, None]) -> Me:
    """Who you are here, and what you may do."""
    site = ask.site
    return Me(
        actor=ask.access.actor,
        role=ask.access.role,
        verbs=[verb for verb in ask.access.verbs if verb != "drill" or site.hosts is not None],
        operator_verbs=OPERATORS,
        version=__version__,
        schema=site.store.schema,
        schema_version=migrate.newest(),
        database=address(site.store.url),
        payloads="hidden" if site.hide_payloads else "shown",
        reveal=ask.access.may("reveal"),
        queues=None if ask.access.queues is None else sorted(ask.access.queues),
        redacted=list(site.redaction.names),
        drills=site.hosts is not None,
        prefix=str(ask.request.scope.get("root_path", "")).rstrip("/"),
        login=site.credentials is not None,
        logged_in=site.logged_in(ask.request),
        inboxes=list(site.inboxes),
        citus=site.citus,
    )


async def overview(ask: Ask[OverviewAsked, None]) -> OverviewShape:
    """The inbox in a few numbers, charts of the time past, and the last refused writes."""
    seconds, schema = ask.query.seconds, ask.site.store.schema
    queue = None if ask.query.queue is UNSET else ask.query.queue
    step = history.step_for(seconds)
    async with ask.site.store.reading() as conn:
        now = await postgres.run(conn, questions.clock(), schema)
        inbox = await postgres.run(conn, search.overview(), schema)
        strip = await postgres.run(conn, history.lease_counts(seconds), schema)
        points = await postgres.run(conn, history.series(seconds=seconds, step_seconds=step, queue=queue), schema)
        refused = await postgres.run(conn, history.recent_refusals(REFUSALS_MAX), schema)
        asked = search.page(Filter(ids=tuple({each.row_id for each in refused})), n=REFUSALS_MAX, head=0)
        found = (await postgres.run(conn, asked, schema)).rows if refused else []
    keys = {row.id: row.partition_key for row in found if row.partition_key != str(row.id)}
    return OverviewShape(
        **_numbers(now, inbox, strip, seconds),
        series=[PointShape(utc(each.at), *each[1:]) for each in points],
        step_seconds=step,
        recent_refusals=[refusal_shape(each, keys.get(each.row_id)) for each in refused],
    )


async def tick(store: Store) -> Numbers:
    """The numbers that every open tab gets every two seconds."""
    async with store.reading() as conn:
        now = await postgres.run(conn, questions.clock(), store.schema)
        inbox = await postgres.run(conn, search.overview(), store.schema)
        strip = await postgres.run(conn, history.lease_counts(TICK_FENCE_SECONDS), store.schema)
    return Numbers(**_numbers(now, inbox, strip, TICK_FENCE_SECONDS))


def _numbers(now: datetime, inbox: search.Overview, strip: history.LeaseCounts, seconds: int) -> dict[str, Any]:
    return {
        "at": utc(now),
        "runnable": count(inbox.runnable),
        "held": count(inbox.held),
        "scheduled": count(inbox.scheduled),
        "dead": count(inbox.dead),
        "cancelled": count(inbox.cancelled),
        "oldest_runnable_seconds": inbox.oldest_runnable_seconds,
        "workers": WorkersCount(inbox.workers_alive, inbox.workers_draining, inbox.workers_dead),
        "fence": LeaseCountsShape(seconds, *strip),
    }


ROUTES = (
    Route("GET", "/api/me", "read", me, {200: Me}, by_queue=True),
    Route("GET", "/api/overview", "read", overview, {200: OverviewShape}, OverviewAsked),
)
