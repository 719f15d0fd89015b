"""Rows: the rows of a filter page by page, their counts, and one row with everything about it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from .. import postgres
from ..model.filter import TEXT_MAX, Filter
from ..model.rows import Attempt, Row
from ..verbs import history, questions, results, search
from .answers import HEAD_MAX, Count, RowShape, count, hint_of, row_shape, utc
from .http_errors import Refused
from .route import Ask, Asked, Error, FilterText, Route
from .site import Site
from .store import in_thread

NEIGHBOURS_MAX = 10


class PageAsked(Asked, frozen=True):
    """Which rows, and where the page begins."""

    filter: FilterText = ""
    before: UUID | UnsetType = UNSET
    n: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class CountAsked(Asked, frozen=True):
    """Which rows, and whether to count all of them."""

    filter: FilterText = ""
    exact: bool = False


class FilterAsked(Asked, frozen=True):
    """Which rows."""

    filter: FilterText = ""


class PageShape(msgspec.Struct, frozen=True):
    """Rows, newest first. If `done` is false, the search stopped early: go on with before=next."""

    filter: str
    rows: list[RowShape]
    next: UUID | None
    searched: int
    done: bool
    hint: str | UnsetType = UNSET


class Counts(msgspec.Struct, frozen=True):
    """How many rows match."""

    filter: str
    n: int
    more: bool
    hint: str | UnsetType = UNSET


class AttemptShape(msgspec.Struct, frozen=True):
    """One attempt on the lease tape."""

    generation: str
    fence: str
    worker: str
    claimed_at: datetime
    ended_at: datetime | None
    outcome: str
    error: str | None


class RefusalShape(msgspec.Struct, frozen=True):
    """A stale write that was refused."""

    at: datetime
    row: UUID
    kind: str
    worker: str
    verb: str
    stale_token: str
    current_token: str | None
    reason: str
    key: str | None = None


class EffectShape(msgspec.Struct, frozen=True):
    """An effect that the handler has done once."""

    effect: str
    fence: str
    done_at: datetime


class FirstSent(msgspec.Struct, frozen=True):
    """The idempotency key, and when it was first used."""

    key: str
    first_at: datetime


class ProgressShape(msgspec.Struct, frozen=True):
    """How far a job said that it is: a share from 0 to 1, and a sentence."""

    at: datetime
    share: float | None
    note: str | None


class LeftShape(msgspec.Struct, frozen=True):
    """What a row leaves for those who wait for it; the result is hidden where payloads are."""

    progress: ProgressShape | None
    result: str | None
    result_hidden: bool
    batch: int | None
    uncounted: bool


class RowPage(msgspec.Struct, frozen=True):
    """One row with its tape, its refused writes, its effects, what it waits for, and what it left."""

    row: RowShape
    why: str
    sql: str
    attempts: list[AttemptShape]
    refusals: list[RefusalShape]
    effects: list[EffectShape]
    idempotency: FirstSent | None
    key_neighbours: list[RowShape]
    left: LeftShape


class Revealed(msgspec.Struct, frozen=True):
    """What is hidden elsewhere; values of secret names stay hidden."""

    id: UUID
    payload: str | None
    headers: str | None


async def page(ask: Ask[PageAsked, None]) -> PageShape:
    """Rows that match a filter, newest first."""
    wanted, site = ask.filter(ask.query.filter), ask.site
    before = None if ask.query.before is UNSET else ask.query.before
    async with site.store.reading() as conn:
        now = await postgres.run(conn, questions.clock(), site.store.schema)
        found = await postgres.run(
            conn, search.page(wanted, before=before, n=ask.query.n, head=HEAD_MAX), site.store.schema
        )
    shown = await in_thread(lambda: [row_shape(row, now, site, excerpt=True) for row in found.rows])
    return PageShape(str(wanted), shown, found.next, found.searched, found.done, hint_of(wanted))


async def counted(ask: Ask[CountAsked, None]) -> Counts:
    """How many rows match a filter, up to 10,000 or exactly."""
    wanted = ask.filter(ask.query.filter)
    statement = search.count(wanted, cap=None) if ask.query.exact else search.count(wanted)
    found = await ask.site.store.ask(statement)
    return Counts(str(wanted), found.n, found.more, hint_of(wanted))


async def statuses(ask: Ask[FilterAsked, None]) -> dict[str, Count]:
    """How many rows match a filter in each state; the states in the filter do not count."""
    found = await ask.site.store.ask(search.statuses(ask.filter(ask.query.filter)))
    return {status: count(n) for status, n in found.items()}


async def one(ask: Ask[Any, None]) -> RowPage:
    """One row with its lease tape, and what it waits for."""
    id, site = ask.path["id"], ask.site
    async with site.store.reading() as conn:
        now = await postgres.run(conn, questions.clock(), site.store.schema)
        row = await postgres.run(conn, questions.row(id), site.store.schema)
        if row is None or not ask.access.sees(row.queue):
            raise Refused(404, f"there is no row {id}: {questions.NO_ROW}")
        why = await postgres.run(conn, questions.why(id), site.store.schema)
        tape = await postgres.run(conn, questions.tape(id), site.store.schema)
        refused = await postgres.run(conn, history.refusals(id), site.store.schema)
        effects = await postgres.run(conn, search.effects(id), site.store.schema)
        first = await postgres.run(conn, search.first_sent(id), site.store.schema)
        kept = await postgres.run(conn, results.left(id), site.store.schema)
        asked = search.page(_neighbours(row), n=NEIGHBOURS_MAX + 1, head=HEAD_MAX)
        near = await postgres.run(conn, asked, site.store.schema)
    others = [each for each in near.rows if each.id != id][:NEIGHBOURS_MAX]
    short = await in_thread(lambda: [row_shape(each, now, site, excerpt=True) for each in others])
    return RowPage(
        row=await in_thread(lambda: row_shape(row, now, site)),
        why=why,
        sql=questions.why_in_sql(id, site.store.schema),
        attempts=[_attempt(each) for each in tape],
        refusals=[refusal_shape(each) for each in refused],
        effects=[EffectShape(each.effect, str(each.fence_token), utc(each.done_at)) for each in effects],
        idempotency=FirstSent(first[0], utc(first[1])) if first else None,
        key_neighbours=short,
        left=await in_thread(lambda: _left(kept, site)),
    )


async def reveal(ask: Ask[Any, None]) -> Revealed:
    """The payload and headers of one row where they are hidden; each is a line of the audit."""
    id, site = ask.path["id"], ask.site
    row = await site.store.ask(questions.row(id))
    if row is None or not ask.access.sees(row.queue):
        raise Refused(404, f"there is no row {id}: {questions.NO_ROW}")
    await site.witness.note(ask.access.actor, "reveal", str(id), rows=1)
    texts = await in_thread(lambda: [each and site.redaction(each) for each in (row.payload, row.headers)])
    return Revealed(id, *texts)


def _neighbours(row: Row) -> Filter:
    """The rows of its ordered key; for a row without order, or with names as only a hand can write them, itself."""
    if not row.ordered or not all(1 <= len(name) < TEXT_MAX for name in (row.queue, row.partition_key)):
        return Filter(ids=(row.id,))
    return Filter(
        queue=_exactly(row.queue), key=_exactly(row.partition_key), ordered=True, statuses=("pending", "processing")
    )


def _exactly(name: str) -> str:
    return f"{name[:-1]}\\*" if name.endswith("*") else name


def _left(kept: results.Left, site: Site) -> LeftShape:
    """A note is told by the handler as an error is, and shown; a result is content, as the payload is."""
    progress = ProgressShape(utc(kept.at), kept.share, kept.note) if kept.at else None
    hidden = kept.value is not None and site.hide_payloads
    return LeftShape(progress, site.payload(kept.value), hidden, kept.batch, kept.uncounted)


def _attempt(each: Attempt) -> AttemptShape:
    return AttemptShape(
        str(each.lease_generation),
        str(each.fence_token),
        each.worker,
        utc(each.claimed_at),
        utc(each.ended_at),
        each.outcome,
        each.error,
    )


def refusal_shape(each: history.Refusal, key: str | None = None) -> RefusalShape:
    """A refused write with its tokens as text, and the key of its row if it is known."""
    current = None if each.current_token is None else str(each.current_token)
    return RefusalShape(
        utc(each.at), each.row_id, each.kind, each.worker, each.verb, str(each.stale_token), current, each.reason, key
    )


ROUTES = (
    Route("GET", "/api/rows/count", "read", counted, {200: Counts}, CountAsked, by_queue=True),
    Route("GET", "/api/rows/statuses", "read", statuses, {200: dict[str, Count]}, FilterAsked, by_queue=True),
    Route("GET", "/api/rows", "read", page, {200: PageShape}, PageAsked, by_queue=True),
    Route("GET", "/api/rows/{id}", "read", one, {200: RowPage, 404: Error}, by_queue=True),
    Route("POST", "/api/rows/{id}/reveal", "reveal", reveal, {200: Revealed, 404: Error}, by_queue=True),
)
