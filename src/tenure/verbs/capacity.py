"""How much there is to do, in bounded time: for `tenure top`, and for an autoscaler."""

from __future__ import annotations

from typing import NamedTuple

from .statement import Statement


class BusyQueue(NamedTuple):
    """A queue as `tenure top` shows it: rows due (up to a cap), attempts ended in the last minute."""

    queue: str
    due: int
    settled: int
    paused: bool


def backlog_per_worker() -> Statement[int]:
    """The rows there are to run now, for an autoscaler."""
    return Statement("backlog_per_worker", {}, lambda rows: int(rows[0][0]))


def busy_queues(n: int = 50, *, cap: int = 10_001) -> Statement[list[BusyQueue]]:
    """The queues with most to do first."""
    return Statement("busy_queues", {"n": n, "cap": cap}, lambda rows: [BusyQueue(*row) for row in rows])
