"""What is asked of outboxes, and how their events are published again, each as a Statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from .questions import Member
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
    queues: list[str]  # where workers have declared that they take its events


class Away(NamedTuple):
    """A worker that cannot reach the broker of an outbox."""

    worker: str
    since: str
    error: str


def away_of(workers: list[Member]) -> dict[str, list[Away]]:
    """Which workers say that a broker is away, since when and why, by outbox; first who has asked it last."""
    told = [
        (name.removeprefix("outbox:"), worker.id, fact)
        for worker in workers
        for name, fact in worker.metadata.items()
        if name.startswith("outbox:") and isinstance(fact, Mapping) and worker.status != "dead"
    ]
    told.sort(key=lambda each: str(each[2].get("asked_at")), reverse=True)
    found: dict[str, list[Away]] = {}
    for outbox, worker_id, fact in told:
        found.setdefault(outbox, []).append(Away(worker_id, str(fact.get("away_since")), str(fact.get("error"))))
    return found


def outboxes() -> Statement[list[OutboxDepth]]:
    """Every outbox that a worker has declared or that has rows."""
    return Statement("outboxes", {}, lambda rows: [OutboxDepth(*row) for row in rows])


def unsent(queue: str, kind: str) -> Statement[bool]:
    """Whether an event of this outbox waits in this queue, or is being sent."""
    return Statement("unsent", {"queue": queue, "kind": kind}, lambda rows: bool(rows[0][0]))


def publisher() -> Statement[str]:
    """Which inbox this is, so that a broker can tell it from others."""
    return Statement("publisher", {}, lambda rows: str(rows[0][0]))


def served_by(workers: list[Member], every: list[OutboxDepth]) -> set[str]:
    """Those of these outboxes that a worker serves which is alive or drains: it knows the kind and takes its queue."""
    told = [worker.metadata for worker in workers if worker.status != "dead"]
    return {
        each.outbox
        for each in every
        for said in told
        if f"outbox:{each.outbox}" in said.get("kinds", ()) and not set(each.queues).isdisjoint(said.get("queues", ()))
    }


def originals(ids: Sequence[UUID]) -> Statement[list[UUID]]:
    """Those of these events that a replay can publish again: no copy while its original is kept, nothing encrypted."""
    return Statement("originals", {"ids": array(sorted(ids))}, lambda rows: [row[0] for row in rows])


def replay(ids: Sequence[UUID], n: int) -> Statement[list[UUID]]:
    """Publish completed events again, as new rows with the same event id; the ids of the new rows."""
    return Statement("replay", {"ids": array(sorted(ids)), "n": n}, lambda rows: [row[0] for row in rows])
