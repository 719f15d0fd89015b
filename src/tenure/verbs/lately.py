"""Lately: the backlog over time, what each queue did, and which kinds are slow or end badly."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from .history import PERIOD_SECONDS, percentile
from .statement import Rows, Statement

DUE_LOOKS_MAX = 20_000  # at rows of all queues together, for the picture of a backlog
NOTED_MAX = 20  # queues of which it is written down, the longest ones
SLOWER = 50  # as with the board: if it takes long, it is done less often
LONGEST_MAX = 7  # queues that have a line of their own in it
LOOKS_MAX = 5_000  # rows of each table that are looked at for their kinds
NAMED_MAX = 50


class Backlog(NamedTuple):
    """How many rows of a queue were due at the times of Backlogs."""

    queue: str  # empty: all queues without a line of their own
    due: tuple[int, ...]
    more: tuple[bool, ...]  # at least so many


class Backlogs(NamedTuple):
    """The backlog over time, by queue, the longest first; times are steps, the oldest first.

    A step in which nobody counted is left out, and one in which nothing was due again.
    """

    at: tuple[datetime, ...]
    queues: tuple[Backlog, ...]


class QueueLately(NamedTuple):
    """Attempts of one queue that ended lately, and how long its rows waited and its handlers ran, in seconds."""

    queue: str
    completed: int
    retried: int
    released: int
    failed: int
    dead_lettered: int
    cancelled: int
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None

    @property
    def failing(self) -> float | None:
        """The share of attempts that raised, of those that ran to an end; None if none did."""
        bad = self.retried + self.failed + self.dead_lettered
        return bad / (bad + self.completed) if bad + self.completed else None


class KindLately(NamedTuple):
    """Rows of one kind that ended lately: how many of them badly, and how long their last attempt ran, in seconds."""

    kind: str
    ended: int
    badly: int
    run_p50: float | None
    run_p95: float | None


class Kinds(NamedTuple):
    """Kinds, the slowest first; `since`: of a busy inbox not the whole period was looked at, only from then on."""

    kinds: list[KindLately]
    since: datetime | None


def note_backlog(looks: int = DUE_LOOKS_MAX, longest: int = NOTED_MAX, slower: float = SLOWER) -> Statement[int]:
    """Write down how many rows of the longest queues are due, and of all others; returns how many queues are named."""
    params = {"looks": looks, "longest": longest, "slower": float(slower)}
    return Statement("note_backlog", params, lambda rows: int(rows[0][0]))


def backlogs(*, seconds: int = 3600, step_seconds: int = PERIOD_SECONDS, n: int = LONGEST_MAX) -> Statement[Backlogs]:
    """The backlog of the last seconds, step by step; the n longest queues have a line each."""
    params = {"seconds": seconds - seconds % step_seconds, "step_seconds": step_seconds, "n": n}
    return Statement("backlogs", params, _backlogs)


def queues_lately(seconds: int = 3600, n: int = NAMED_MAX) -> Statement[list[QueueLately]]:
    """What each queue did in the last seconds, the busiest first."""
    return Statement("queues_lately", {"seconds": seconds, "n": n}, lambda rows: [_queue(*row) for row in rows])


def kinds_lately(seconds: int = 3600, *, looks: int = LOOKS_MAX, n: int = NAMED_MAX) -> Statement[Kinds]:
    """The kinds of the newest rows that ended, the slowest first; at most `looks` rows of each table are read."""
    return Statement("kinds_lately", {"seconds": seconds, "looks": looks, "n": n}, _kinds)


def _backlogs(rows: Rows) -> Backlogs:
    steps = sorted({at for at, *_ in rows})
    found = {(at, queue): (due, more) for at, queue, due, more in rows}
    totals: dict[str, int] = {}
    for _, queue, due, _ in rows:
        totals[queue] = totals.get(queue, 0) + due
    named = sorted((queue for queue in totals if queue), key=lambda queue: (-totals[queue], queue))
    lines = [*named, ""] if totals.get("") else named
    told = {queue: [found.get((at, queue), (0, False)) for at in steps] for queue in lines}
    return Backlogs(
        tuple(steps),
        tuple(Backlog(queue, tuple(due for due, _ in of), tuple(more for _, more in of)) for queue, of in told.items()),
    )


def _queue(queue: str, *rest: Any) -> QueueLately:
    *ended, waits, runs = rest
    took = [percentile(waits, 0.95), percentile(runs, 0.5), percentile(runs, 0.95)]
    return QueueLately(queue, *ended, *took)


def _kinds(rows: Rows) -> Kinds:
    oldest: Sequence[UUID] = [row[-1] for row in rows if row[-1] is not None][:1]
    since = [datetime.fromtimestamp((id.int >> 80) / 1000, UTC) for id in oldest]
    return Kinds([KindLately(*row[:-1]) for row in rows], since[0] if since else None)
