"""The facts from which the sentence about a row is made: the row, what stands before it, and who could take it."""

from __future__ import annotations

import math
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from ..errors import telling_line
from ..model.ring import Ring


class Peer(NamedTuple):
    """One worker that is not dead, as this row sees it."""

    id: str
    status: str
    queues: list[str] | None
    slots: int | None
    slots_used: int | None  # as of its last heartbeat
    slots_taken: int  # by the rows that it holds now
    seen_seconds: float
    serves: bool
    has_kind: bool
    here: bool
    on_ring: bool

    @property
    def works(self) -> bool:
        """Whether it claims rows at all."""
        return self.here and self.status == "alive"


class Facts(NamedTuple):
    """One answer of the question, column by column."""

    status: str
    kind: str
    queue: str
    partition_key: str
    bucket: int
    attempts: int
    max_attempts: int
    worker: str | None
    seconds_left: float | None
    seconds_to_wait: float
    age_seconds: float
    last_error: str | None
    cancel_asked: bool
    blocks: bool
    worker_status: str | None
    gone: bool
    seen_seconds: float | None
    head: UUID | None
    head_status: str | None
    head_worker: str | None
    head_attempts: int | None
    head_seconds_to_wait: float | None
    head_later: bool
    paused: bool
    running: int
    max_running: int | None
    running_of_key: int
    max_per_key: int | None
    tokens: float | None
    rate_per_second: float | None
    urgent: int
    before: int
    arrived: bool
    locked_by: int | None
    locked_name: str | None
    locked_in: str | None
    locked_seconds: float | None
    locked_queue: bool
    sweep_every_seconds: float | None
    swept_seconds: float | None
    fleet: str
    batch: int | None = None
    batch_open: int | None = None
    batch_size: int | None = None
    step: str | None = None
    step_tried: bool | None = None
    step_tries: int | None = None
    step_seconds: float | None = None
    step_until: datetime | None = None
    flow: str | None = None
    failed: str | None = None
    failed_of: str | None = None

    @property
    def peers(self) -> list[Peer]:
        """The workers that are not dead."""
        return [Peer(**{name: each.get(name) for name in Peer._fields}) for each in msgspec.json.decode(self.fleet)]

    @property
    def owners(self) -> list[Peer]:
        """Who owns the row's bucket: one worker of each ring that serves its queue."""
        rings: dict[tuple[str, ...], dict[str, Peer]] = {}
        for peer in self.peers:
            if peer.on_ring and peer.serves:
                rings.setdefault(tuple(sorted(peer.queues or ())), {})[peer.id] = peer
        return [members[Ring(members).owner_of(self.bucket)] for _, members in sorted(rings.items())]

    @property
    def due_seconds(self) -> float:
        """For how long it has been due; a time before all times counts from when the row was made."""
        return -self.seconds_to_wait if self.seconds_to_wait > -math.inf else self.age_seconds

    @property
    def error(self) -> str:
        """The line of the last error that says what went wrong."""
        return telling_line(self.last_error)[:200] or "no error recorded"


def spoken(seconds: float) -> str:
    """A duration for people."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def counted(n: int, noun: str) -> str:
    """A number with its noun: 1 worker, 2 workers."""
    return f"{n} {noun}{'s' * (n != 1)}"
