"""Questions about many rows at once, each answered in bounded time, however many rows there are."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ..model.filter import TEXT_MAX, Filter, is_prefix, literal
from ..model.rows import Row
from .statement import Rows, Statement

CAP = 10_001
SEARCH_MAX = 20_000
SEARCH_SECONDS = 0.15
COUNT_SECONDS = 0.05  # in each of three tables
STATE_SECONDS = 0.03  # in each of them, for counts by status

# The table that has the rows of each status.
PLACES = {
    "runnable": "live",
    "scheduled": "live",
    "pending": "live",
    "processing": "live",
    "completed": "archive",
    "failed": "dead",
    "dead_letter": "dead",
    "cancelled": "dead",
}
STATES = ("runnable", "scheduled", "processing", "completed", "failed", "dead_letter", "cancelled")


class Page(NamedTuple):
    """Rows that match, the newest first. `next` is where to go on, None when there are no more rows (`done`).

    Fewer rows than asked for and not done: the search ended before the page was full; ask again with before=next.
    """

    rows: list[Row]
    next: UUID | None
    searched: int
    done: bool


class Ids(NamedTuple):
    """The same with ids alone."""

    ids: list[UUID]
    next: UUID | None
    searched: int
    done: bool


class Count(NamedTuple):
    """How many rows there are; `more`: at least this many, counting stopped."""

    n: int
    more: bool = False


class Overview(NamedTuple):
    """The inbox in a few numbers. `held` counts processing rows, `dead` failed rows and dead letters."""

    runnable: Count
    held: Count
    scheduled: Count
    dead: Count
    cancelled: Count
    oldest_runnable_seconds: float | None
    workers_alive: int
    workers_draining: int
    workers_dead: int


class DeadGroup(NamedTuple):
    """Failed rows or dead letters of one kind with the same error."""

    status: str
    kind: str
    fingerprint: str
    rows: Count
    first_at: datetime
    last_at: datetime
    last_error: str | None
    sample_id: UUID

    @property
    def filter(self) -> Filter:
        """The filter that finds its rows; of a kind that no filter can hold, as by hand it may be, the beginning."""
        kind: str | None = f"{self.kind[:-1]}\\*" if self.kind.endswith("*") else self.kind or None
        if kind is not None and len(kind) > TEXT_MAX:
            kind = f"{kind[: TEXT_MAX - 1]}*"
        return Filter(statuses=(self.status,), kind=kind, fingerprint=self.fingerprint)


class Effect(NamedTuple):
    """An effect that a row's handler has done and will not do again."""

    effect: str
    fence_token: int
    done_at: datetime


def page(
    filter: Filter,
    *,
    before: UUID | None = None,
    n: int = 50,
    search_max: int = SEARCH_MAX,
    search_seconds: float | None = SEARCH_SECONDS,
    head: int | None = None,
) -> Statement[Page]:
    """The newest rows that match, at most n; the search reads at most search_max rows, for at most search_seconds.

    With `head`, only this many characters of each payload.
    """
    params = {**_asked(filter, before, n, search_max, search_seconds), "head": head}
    return Statement("page", params, lambda rows: Page(*_found(rows, Row)))


def ids(
    filter: Filter,
    *,
    before: UUID | None = None,
    n: int = 1000,
    search_max: int = SEARCH_MAX,
    search_seconds: float | None = SEARCH_SECONDS,
) -> Statement[Ids]:
    """The same with ids only; asked again until it is done, it names every row that matches."""
    return Statement(
        "ids", _asked(filter, before, n, search_max, search_seconds), lambda rows: Ids(*_found(rows, UUID))
    )


def count(filter: Filter, *, cap: int | None = CAP) -> Statement[Count]:
    """How many rows match, up to cap - 1 and for a fraction of a second; without a cap exactly, however long."""
    params = {
        "filter": _document(filter),
        "places": _places(filter.statuses),
        "cap": cap,
        "seconds": None if cap is None else COUNT_SECONDS,
    }
    return Statement("count", params, lambda rows: _capped(Count(*rows[0]), cap))


def statuses(filter: Filter) -> Statement[dict[str, Count]]:
    """How many rows match in each status; the filter's own statuses are ignored. pending is runnable and scheduled."""
    params = {"filter": _document(filter), "cap": CAP, "seconds": STATE_SECONDS}
    return Statement("statuses", params, lambda rows: _with_pending({state: Count(n, more) for state, n, more in rows}))


def overview() -> Statement[Overview]:
    """The inbox in a few numbers, each counted up to 10,000."""
    return Statement("overview", {"cap": CAP}, _overview)


def dead_groups(n: int = 50) -> Statement[list[DeadGroup]]:
    """Failed rows and dead letters by status, kind and error, the latest first."""
    return Statement("dead_groups", {"n": n, "cap": CAP}, lambda rows: [_group(*row) for row in rows])


def effects(id: UUID) -> Statement[list[Effect]]:
    """The effects that the handler of a row has done."""
    return Statement("effects", {"id": id}, lambda rows: [Effect(*row) for row in rows])


def first_sent(id: UUID) -> Statement[tuple[str, datetime] | None]:
    """The idempotency key of a row, and since when it is used; None without one."""
    return Statement("first_sent", {"id": id}, lambda rows: (rows[0][0], rows[0][1]) if rows else None)


def _asked(
    filter: Filter, before: UUID | None, n: int, search_max: int, search_seconds: float | None
) -> dict[str, Any]:
    return {
        "filter": _document(filter),
        "before": before,
        "n": n,
        "search_max": search_max,
        "search_seconds": search_seconds,
    }


def _document(filter: Filter) -> str:
    """The filter as one JSON parameter for the search in the database; no value becomes SQL."""
    given = {
        "places": _places(filter.statuses),
        "states": list(filter.statuses) or None,
        "kind": _like(filter.kind),
        "kind_is": _exactly(filter.kind),
        "queue": _like(filter.queue),
        "queue_is": _exactly(filter.queue),
        "key": _like(filter.key),
        "key_is": None if _is_id(filter.key) else _exactly(filter.key),  # a row without a key has its id as key
        "worker": _like(filter.worker),
        "error": None if filter.error is None else f"%{_plain(filter.error)}%",
        "names": [name for name, _ in filter.payload] or None,
        "texts": [text for _, text in filter.payload] or None,
        "attempts_from": filter.attempts and filter.attempts[0],
        "attempts_to": filter.attempts and filter.attempts[1],
        "older_seconds": filter.older_seconds,
        "newer_seconds": filter.newer_seconds,
        "ids": [str(id) for id in filter.ids] or None,
        "idempotency_key": filter.idempotency_key,
        "fingerprint": filter.fingerprint,
        "ordered": filter.ordered,
        "bucket": filter.bucket,
    }
    return json.dumps({name: value for name, value in given.items() if value is not None})


def _places(statuses: Sequence[str]) -> list[str]:
    """The tables that have rows of these statuses; all of them if none is given."""
    return list(dict.fromkeys(PLACES[status] for status in statuses or STATES))


def _like(text: str | None) -> str | None:
    """A LIKE pattern for the text, or for all that begins with it if it ends in a star."""
    if text is None:
        return None
    return _plain(text[:-1]) + "%" if is_prefix(text) else _plain(literal(text))


def _exactly(text: str | None) -> str | None:
    return None if text is None or is_prefix(text) else literal(text)


def _plain(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)


def _is_id(text: str | None) -> bool:
    try:
        return UUID(text or "").version is not None
    except ValueError:
        return False


def _found(rows: Rows, kind: Any) -> tuple[list[Any], UUID | None, int, bool]:
    """What the search found, where to go on, how many rows it read, and whether it came to the end."""
    *found, (searched, next, *_) = rows
    return [kind(*row[2:]) if kind is Row else row[2] for row in found], next, searched, next is None


def _capped(count: Count, cap: int | None) -> Count:
    return count if cap is None or count.n < cap else Count(cap - 1, True)


def _with_pending(counts: dict[str, Count]) -> dict[str, Count]:
    return {"pending": _sum(counts["runnable"], counts["scheduled"]), **counts}


def _sum(one: Count, two: Count) -> Count:
    return _capped(Count(one.n + two.n, one.more or two.more), CAP)


def _overview(rows: Rows) -> Overview:
    states, counts, more, oldest, alive, draining, dead = rows[0]
    found = {state: Count(*each) for state, *each in zip(states, counts, more, strict=True)}
    ended_badly = _sum(found["failed"], found["dead_letter"])
    now = (found["runnable"], found["processing"], found["scheduled"], ended_badly, found["cancelled"])
    return Overview(*now, oldest, alive, draining, dead)


def _group(
    status: str, kind: str, fingerprint: str, n: int, first_at: datetime, last_at: datetime, error: str | None, id: UUID
) -> DeadGroup:
    return DeadGroup(status, kind, fingerprint, _capped(Count(n), CAP), first_at, last_at, error, id)
