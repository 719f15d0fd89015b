"""Questions as Statements: what people and workers ask; none of them changes a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from ..model.payload import check_text
from ..model.registry import facts_of
from ..model.rows import Attempt, BlockedKey, Claimed, Depth, Lane, Offer, Row, Stuck, Worker
from .lifecycle import claimed_by
from .statement import Rows, Statement, array
from .why import NO_ROW as NO_ROW
from .why import no_row as no_row
from .why import spoken as spoken
from .why import why as why
from .why import why_in_sql as why_in_sql

T = TypeVar("T")
NOTHING: Mapping[Lane, float] = MappingProxyType({})


def _each(kind: Callable[..., T]) -> Callable[[Rows], list[T]]:
    return lambda rows: [kind(*row) for row in rows]


def row(id: UUID) -> Statement[Row | None]:
    """One row in any state, or None."""
    return Statement("row", {"id": id}, lambda rows: Row(*rows[0]) if rows else None)


def tape(id: UUID) -> Statement[list[Attempt]]:
    """The lease tape of a row, oldest attempt first; the last one may still be running."""
    return Statement("tape", {"id": id}, _each(Attempt))


def depth() -> Statement[list[Depth]]:
    """Rows by queue and status, without completed rows."""
    return Statement("depth", {}, _each(Depth))


def oldest_runnable() -> Statement[dict[str, float]]:
    """Lag in seconds by queue: how long the oldest runnable row has been due."""
    return Statement("oldest_runnable", {}, lambda rows: dict(rows))


def stuck(n: int = 50) -> Statement[list[Stuck]]:
    """Rows whose lease ran out and that no sweep has ended yet."""
    return Statement("stuck", {"n": n}, _each(Stuck))


def blocked_keys(n: int = 50) -> Statement[list[BlockedKey]]:
    """Ordered keys that cannot go on, those with the most rows waiting first."""
    # By hand an ordered row may have no key.
    return Statement(
        "blocked_keys", {"n": n}, lambda rows: [BlockedKey(row[0], row[1] or "", *row[2:]) for row in rows]
    )


def live_workers(*, ttl_seconds: float = 30.0) -> Statement[list[Worker]]:
    """The workers of the rings, in id order."""
    return Statement(
        "live_workers",
        {"ttl_seconds": ttl_seconds},
        lambda rows: [Worker._make((*row[:4], facts_of(row[4]))) for row in rows],
    )


def lanes() -> Statement[list[Lane]]:
    """The queues and priorities that have unordered rows, the most urgent first."""
    return Statement("lanes", {}, _each(Lane))


def board(
    queues: Sequence[str],
    known: Mapping[Lane, float] = NOTHING,
    *,
    known_ordered: Sequence[str] = (),
    from_arrival: int = 0,
    from_due: float = float("-inf"),
    begun: bool = True,
) -> Statement[list[Offer]]:
    """What there is to claim in these queues as far as they are not paused, the most urgent first.

    A known lane is asked from its floor (epoch seconds) on: no row that is due before it waits there. Of ordered keys,
    arrivals and keys that are due are asked for from their floors on. `begun` asks for `next_begun`, too.
    """
    params = {
        "queues": list(queues),
        "known_queues": [lane.queue for lane in known],
        "known_priorities": array([lane.priority for lane in known]),
        "floors": array(list(known.values())),
        "known_ordered": list(known_ordered),
        "from_arrival": from_arrival,
        "from_due": from_due,
        "begun": begun,
    }
    return Statement("board", params, _each(Offer))


def first_claim(from_until: float = float("-inf")) -> Statement[float]:
    """Where the next sweep may begin (epoch seconds): at the first line of the list of claims, or at the present."""
    return Statement("first_claim", {"from_until": from_until}, lambda rows: min(x for x in rows[0] if x is not None))


def channel() -> Statement[str]:
    """The channel on which the workers of this schema are woken."""
    return Statement("channel", {}, lambda rows: str(rows[0][0]))


def ping() -> Statement[bool]:
    """Any answer: it shows that the session works."""
    return Statement("ping", {}, bool)


def live_pages() -> Statement[int]:
    """How many pages the hot table has."""
    return Statement("live_pages", {}, lambda rows: int(rows[0][0]))


def dead_share() -> Statement[tuple[int, int]]:
    """Dead and live row versions in the hot table, by the statistics."""
    return Statement("dead_share", {}, lambda rows: (int(rows[0][0]), int(rows[0][1])))


def claimed(worker: str, claim_id: int) -> Statement[list[Claimed]]:
    """The rows of a claim whose reply was lost."""
    return Statement("claimed", {"worker": worker, "claim_id": claim_id}, claimed_by(worker))


class Applied(NamedTuple):
    """One applied migration, as the database recorded it."""

    version: int
    name: str
    checksum: str
    kind: str


def migrations() -> Statement[list[Applied]]:
    """What has been applied to the schema."""
    return Statement("migrations", {}, _each(Applied))


class Member(NamedTuple):
    """One worker of the registry, for people; `present` is None if it shows no presence: leases alone decide."""

    id: str
    status: str
    seen_seconds: float
    up_seconds: float
    present: bool | None
    metadata: Mapping[str, Any]


def workers(n: int = 1000) -> Statement[list[Member]]:
    """Every worker of the registry, dead workers included."""
    return Statement("workers", {"n": n}, lambda rows: [Member._make((*row[:5], facts_of(row[5]))) for row in rows])


def place() -> Statement[str]:
    """Which inbox this is, whatever address leads there: no other one that runs now has the same answer."""
    return Statement("place", {}, lambda rows: str(rows[0][0]))


def waiting_of(workers: Sequence[Member]) -> dict[str, str]:
    """The schedules whose home is an inbox that does not answer their workers, and which it is."""
    found: dict[str, str] = {}
    for worker in workers:
        said = worker.metadata.get("schedules_waiting")
        if worker.status == "alive" and isinstance(said, Mapping):
            found |= {str(name): str(home) for name, home in said.items()}
    return dict(sorted(found.items()))


def at_work(workers: Sequence[str]) -> Statement[dict[str, int]]:
    """What the sessions by which these workers claim and settle are doing on the server now, and how many do it."""
    return Statement("at_work", {"workers": list(workers)}, lambda rows: dict(rows))


def bucket(key: str) -> Statement[int]:
    """The bucket of a partition key."""
    return Statement("bucket", {"partition_key": check_text(key, "key")}, lambda rows: int(rows[0][0]))


def clock() -> Statement[datetime]:
    """The database's time."""
    return Statement("clock", {}, lambda rows: rows[0][0])


def ring_depth(queues: Sequence[str], *, cap: int = 100) -> Statement[dict[int, int]]:
    """How many pending rows of these queues are in each arc of 16 buckets, counted up to a cap."""
    return Statement("ring_depth", {"queues": list(queues), "cap": cap}, lambda rows: dict(rows))


class QueueDepth(NamedTuple):
    """How many rows of a queue have a status; `more`: at least this many."""

    queue: str
    status: str
    rows: int
    more: bool


def queue_depths(*, cap: int = 10_000) -> Statement[list[QueueDepth]]:
    """Rows by queue and status, without completed rows, each counted up to a cap (a lower one with many queues)."""
    return Statement("queue_depths", {"cap": cap}, _each(QueueDepth))


def queue_lags() -> Statement[dict[str, float]]:
    """Lag in seconds by queue, in bounded time: only the first 256 ordered keys of each queue are read."""
    return Statement("queue_lags", {}, lambda rows: dict(rows))


class Holding(NamedTuple):
    """How many rows a worker holds, and how many of its slots they take: the rows of a run share one."""

    rows: int
    slots: int


def held_by_worker() -> Statement[dict[str, Holding]]:
    """What each worker holds, as far as a quick scan finds it."""
    return Statement("held_by_worker", {}, lambda rows: {worker: Holding(n, slots) for worker, n, slots in rows})
