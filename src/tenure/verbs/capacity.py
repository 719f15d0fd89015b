"""How much work there is, in bounded time: for `tenure top`, and for an autoscaler."""

from __future__ import annotations

from typing import NamedTuple

from .statement import Statement


class BusyQueue(NamedTuple):
    """A queue as `tenure top` shows it: rows due (up to a cap), attempts ended in the last minute."""

    queue: str
    due: int
    settled: int
    paused: bool


def backlog() -> Statement[int]:
    """How many rows are runnable or processing, for an autoscaler."""
    return Statement("backlog", {}, lambda rows: int(rows[0][0]))


def busy_queues(n: int = 50, *, cap: int = 10_001) -> Statement[list[BusyQueue]]:
    """Queues with their work, the busiest first."""
    return Statement("busy_queues", {"n": n, "cap": cap}, lambda rows: [BusyQueue(*row) for row in rows])
