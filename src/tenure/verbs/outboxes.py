"""What is asked of outboxes, and how their events are published again, each as a Statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from .statement import Statement, array


class OutboxDepth(NamedTuple):
    """The events of one outbox: what waits, how long the first one has, and what needs an operator."""

    outbox: str
    pending: int
    processing: int
    postponed: int  # of those pending: their broker is away, or they are retried
    oldest_seconds: float | None
    blocked: int  # keys that wait for an operator
    dead: int


def outboxes() -> Statement[list[OutboxDepth]]:
    """Every outbox that a worker has declared or that has rows."""
    return Statement("outboxes", {}, lambda rows: [OutboxDepth(*row) for row in rows])


def replay(ids: Sequence[UUID], n: int) -> Statement[list[UUID]]:
    """Publish completed events again, as new rows with the same event id; the ids of the new rows."""
    return Statement("replay", {"ids": array(sorted(ids)), "n": n}, lambda rows: [row[0] for row in rows])
