"""History: what the fleet did lately, in periods of ten seconds; which writes were refused; who joined, left or died.

Nothing waits for history to be written: a worker that is killed loses the counts of its last seconds. Where a number
must be exact, ask the rows themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from ..errors import BadSettings
from ..model.registry import facts_of
from ..model.ring import Ring, moved, rings_of
from ..model.rows import BUCKETS, Worker
from .statement import Rows, Statement

PERIOD_SECONDS = 10  # how long one period of the tally is
SECONDS_MAX = 90 * 86_400
POINTS_MAX = 10_000
BOUNDS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)


class Point(NamedTuple):
    """One step of a chart: attempts that ended, by outcome, how long rows had waited, how long handlers ran."""

    at: datetime
    completed: int
    retried: int
    released: int
    failed: int
    dead_lettered: int
    cancelled: int
    wait_p50: float | None  # seconds; None where nothing was claimed
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None


class LeaseCounts(NamedTuple):
    """Counts of what happened to leases lately."""

    acquired: int
    renewed: int
    expired: int
    reclaimed: int  # acquired after the last attempt ended because its lease ran out or its worker was gone
    lost: int
    stale_writes_blocked: int


class Refusal(NamedTuple):
    """One write that was refused because its lease was not current."""

    row_id: UUID
    at: datetime
    worker: str
    verb: str
    kind: str
    stale_token: int
    current_token: int | None
    reason: str


class Membership(NamedTuple):
    """A worker joined a ring, left it, or died."""

    at: datetime
    worker: str
    what: str
    queues: tuple[str, ...]


class RingChange(NamedTuple):
    """The same, with its effect on the ring of those queues: how many buckets moved, how many workers it had then."""

    at: datetime
    worker: str
    what: str
    queues: tuple[str, ...]
    moved: int
    needless: int  # of the moved: between two workers that both stayed
    of: int
    workers: int


# -- what workers write


def tally(periods: Sequence[Mapping[str, Any]], *, age_seconds: float) -> Statement[float]:
    """Add these periods to the tally; the middle of the newest was age_seconds ago.

    Returns the database's time, in seconds since 1970. Waits at most a tenth of a second for a lock.
    """
    return Statement(
        "tally", {"periods": json.dumps(periods), "age_seconds": age_seconds}, lambda rows: float(rows[0][0])
    )


def refuse(refusals: Sequence[Mapping[str, Any]]) -> Statement[int]:
    """Keep these refused writes, each with its age in seconds; waits at most a tenth of a second for a lock."""
    return Statement("refuse", {"refusals": json.dumps(refusals)}, lambda rows: int(rows[0][0]))


# -- what people ask


def series(
    *, seconds: int = 3600, step_seconds: int = PERIOD_SECONDS, queue: str | None = None
) -> Statement[list[Point]]:
    """A point for each step of the time that ended 15 seconds ago, the oldest first, none left out.

    Newer counts are not complete yet: a chart that showed them would always end in a drop.
    """
    _check_seconds(seconds)
    if step_seconds % PERIOD_SECONDS or not PERIOD_SECONDS <= step_seconds <= seconds:
        raise BadSettings(f"step_seconds={step_seconds} must be a multiple of {PERIOD_SECONDS}, and at most {seconds}")
    if seconds // step_seconds > POINTS_MAX:
        raise BadSettings(f"step_seconds={step_seconds} gives more than {POINTS_MAX} points: use a longer one")
    params = {"seconds": seconds - seconds % step_seconds, "step_seconds": step_seconds, "queue": queue}
    return Statement("series", params, lambda rows: [_point(*row) for row in rows])


def step_for(seconds: int) -> int:
    """The shortest step that makes at most 360 points."""
    return max(1, -(-seconds // (360 * PERIOD_SECONDS))) * PERIOD_SECONDS


def lease_counts(seconds: int = 3600) -> Statement[LeaseCounts]:
    """What happened to leases in the last seconds."""
    _check_seconds(seconds)
    return Statement("lease_counts", {"seconds": seconds}, lambda rows: LeaseCounts(*rows[0]))


def refusals(row_id: UUID, n: int = 100) -> Statement[list[Refusal]]:
    """The last refused writes of one row, the oldest first: the marks on its lease tape."""
    return Statement("refusals", {"id": row_id, "n": n}, _refusals)


def recent_refusals(n: int = 50) -> Statement[list[Refusal]]:
    """The last refused writes of any row, the newest first."""
    return Statement("recent_refusals", {"n": n}, _refusals)


def membership(n: int = 20) -> Statement[list[Membership]]:
    """The last changes of any ring, the newest first."""
    return Statement(
        "membership",
        {"n": n},
        lambda rows: [Membership(at, who, what, _queues(queues)) for at, who, what, queues in rows],
    )


def ring_changes(alive: Iterable[Worker], changes: Iterable[Membership]) -> list[RingChange]:
    """The effect of each change on its ring, computed backwards from the workers alive now; the newest first."""
    rings = rings_of(alive)
    found = []
    for change in changes:
        after = rings.get(change.queues, Ring(()))
        others = [worker for worker in after.workers if worker != change.worker]
        before = Ring(others if change.what == "joined" else [*others, change.worker])
        found.append(RingChange(*change, *_moves(before, after, change.worker), BUCKETS, len(after.workers)))
        rings[change.queues] = before
    return found


@lru_cache(maxsize=1000)  # the past does not change, and a ring of many workers takes time to compute
def _moves(before: Ring, after: Ring, worker: str) -> tuple[int, int]:
    """How many buckets moved, and how many of those between two other workers."""
    if not before.workers or not after.workers:
        return moved(before, after), 0
    owners = ((before.owner_of(bucket), after.owner_of(bucket)) for bucket in range(BUCKETS))
    return moved(before, after), sum(old != new and worker not in (old, new) for old, new in owners)


# -- how answers are read


def percentile(counts: Sequence[int], share: float) -> float | None:
    """The value below which this share of the counts lies, interpolated between two bounds; None without counts."""
    wanted, so_far = share * sum(counts), 0
    for n, (low, high) in zip(counts, _stretches(), strict=True):
        if n and so_far + n >= wanted:
            return low + (high - low) * (wanted - so_far) / n
        so_far += n
    return None


def _stretches() -> Iterator[tuple[float, float]]:
    """Each range between two bounds; values above the last bound count as the last bound."""
    yield from zip((0.0, *BOUNDS_SECONDS), (*BOUNDS_SECONDS, BOUNDS_SECONDS[-1]), strict=True)


def _point(at: datetime, *rest: Any) -> Point:
    *ended, waits, runs = rest
    counted = [[n or 0 for n in counts] for counts in (waits, runs)]  # None if nothing was counted
    found = [percentile(counts, share) for counts in counted for share in (0.5, 0.95)]
    return Point(at, *ended, *found)


def _refusals(rows: Rows) -> list[Refusal]:
    return [Refusal(*row) for row in rows]


def _queues(text: str | None) -> tuple[str, ...]:
    """The queues of a ring, named as rings_of does."""
    return tuple(sorted(facts_of(f'{{"queues": {text}}}').get("queues", ()))) if text else ()


def _check_seconds(seconds: int) -> None:
    if not PERIOD_SECONDS <= seconds <= SECONDS_MAX:
        raise BadSettings(f"seconds={seconds} must be between {PERIOD_SECONDS} and {SECONDS_MAX}")
