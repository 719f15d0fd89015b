"""The nouns: a Row for people, a Lease for its holder, and the answers of the verbs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec

from ..errors import StaleLease
from .times import from_epoch

BUCKETS = 1024


class Lane(NamedTuple):
    """A queue at one priority. A claim reads lanes in order, the most urgent first."""

    queue: str = "default"
    priority: int = 0


Identity = tuple[UUID, int]


class Lease(NamedTuple):
    """Proof of holding a row: changing a row that somebody holds takes a Lease, never an id."""

    id: UUID
    worker: str
    generation: int
    fence: int
    ends_seconds: float  # since 1970, on the database's clock

    @property
    def identity(self) -> Identity:
        """Row and fence: no other lease has the same, not even an older one of this row."""
        return self.id, self.fence

    @property
    def expires_at(self) -> datetime:
        """When the lease ends if it is not renewed."""
        return datetime.fromtimestamp(self.ends_seconds, UTC)

    @property
    def epoch(self) -> int:
        """Which server gave this lease: the number grows with each failover."""
        return self.fence >> 40


class Claimed(NamedTuple):
    """A row as a claim returns it; the payload is text until the attempt decodes it."""

    id: UUID
    kind: str
    queue: str
    partition_key: str
    partition_bucket: int
    payload: str
    attempts: int
    max_attempts: int
    available_seconds: float  # since 1970, on the database's clock
    generation: int
    fence: int
    ends_seconds: float
    headers: str | None  # what the producer sent along, as JSON text
    seq: int  # its number in the order of arrival, of all rows
    worker: str

    @property
    def lease(self) -> Lease:
        """The lease alone; the verbs that settle take the claimed row as well."""
        return Lease(self.id, self.worker, self.generation, self.fence, self.ends_seconds)

    @property
    def identity(self) -> Identity:
        """Row and fence: no other claim of this row has the same."""
        return self.id, self.fence

    @property
    def available_at(self) -> datetime:
        """When the row was due."""
        return from_epoch(self.available_seconds)

    def waited_seconds(self, lease_seconds: float) -> float:
        """From when the row was due until its claim, under a lease of this length; 0 if it was due before all times."""
        waited = self.ends_seconds - lease_seconds - self.available_seconds
        return waited if math.isfinite(waited) else 0.0

    def decode(self) -> Any:
        """The payload as Python values; raises for this row alone if it cannot be decoded."""
        return msgspec.json.decode(self.payload)


Held = Lease | Claimed
NO_HANDLER = "no handler for kind"  # how the reason begins why a worker gave a row back
MAX_ATTEMPTS = 10  # with the default backoff 17 minutes: docs/decisions/0011-retry-budget.md


class NewRow(msgspec.Struct, frozen=True):
    """What a producer sends: one row, not yet in the inbox. `msgspec.structs.replace` makes another like it."""

    kind: str
    payload: Any = msgspec.field(default_factory=dict)
    key: str | None = None
    queue: str = "default"
    priority: int = 0
    at: datetime | None = None
    delay_seconds: float = 0.0
    idempotency_key: str | None = None
    max_attempts: int = MAX_ATTEMPTS
    ordered: bool = False
    hold: bool = False
    headers: Mapping[str, str] | None = None
    again: Literal["never", "after_end", "after_start"] = "never"  # may its idempotency key be used again?
    again_seconds: float = 0.0  # at least so long after it was sent


class Enqueued(NamedTuple):
    """The answer to one enqueued row; a duplicate has the id of the first row."""

    id: UUID
    outcome: Literal["enqueued", "duplicate", "conflict"]


Standing = Literal["applied", "already_mine", "stale", "unknown"]


class Settled(NamedTuple):
    """What the database answered to a write under a lease.

    applied: done now · already_mine: done before under this same lease (the reply was lost) ·
    stale: refused, `reason` and `current` say why · unknown: not decided, or there is no such row.
    """

    lease: Held
    verb: str
    standing: Standing
    status: str | None = None
    next_at: datetime | None = None
    reason: str = ""
    current: int | None = None

    @property
    def ok(self) -> bool:
        """True when the write took effect, now or before."""
        return self.standing in ("applied", "already_mine")

    def or_raise(self) -> Settled:
        """Itself if the write took effect; raises StaleLease if it was refused."""
        if self.ok:
            return self
        raise StaleLease(self.lease, self.verb, self.reason or self.standing, self.current)


class Renewed(NamedTuple):
    """Which leases were kept, with their new end, which were lost, and which rows somebody asked to cancel.

    Passed over: the row is locked right now, or its holder has just settled it; the lease is unchanged.
    """

    kept: tuple[Lease, ...]
    lost: tuple[Lease, ...] = ()
    cancel_asked: frozenset[UUID] = frozenset()
    passed_over: tuple[Lease, ...] = ()


class Swept(NamedTuple):
    """A row whose attempt ended because its lease ran out."""

    id: UUID
    fence_token: int
    status: str
    next_at: datetime


class Row(NamedTuple):
    """A row in any state, read-only."""

    id: UUID
    partition_key: str
    partition_bucket: int
    payload: str
    status: str
    attempts: int
    max_attempts: int
    claimed_by: str | None
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    lease_generation: int
    available_at: datetime
    completed_at: datetime | None
    last_error: str | None
    idempotency_key: str | None
    created_at: datetime
    kind: str
    queue: str
    priority: int
    ordered: bool
    fence_token: int
    cancel_asked: bool
    finished_at: datetime | None
    finished_by: str | None
    headers: str | None


class Attempt(NamedTuple):
    """One attempt on the lease tape: who held the row, under which token, from when to when, and how it ended."""

    lease_generation: int
    fence_token: int
    worker: str
    claimed_at: datetime
    ended_at: datetime | None
    outcome: str
    error: str | None


class Offer(NamedTuple):
    """One lane on the board: whether it is ordered, whether it is limited, when its next row is due."""

    queue: str
    priority: int
    ordered: bool
    limited: bool
    due_seconds: float | None  # from now; None: not known
    at_seconds: float | None = None  # the database's time when it was read; None: nobody has read it
    first_due: float | None = None  # since 1970: when the first key that could go on is or was due
    first_arrival: int | None = None  # the first one that no claim has looked at
    last_arrival: int | None = None  # the highest number given so far
    oldest_open: int = 0  # every transaction before this one is over
    next_begun: int | None = None  # no transaction from this one on had begun; None: not asked for


class Depth(NamedTuple):
    """How many rows of a queue have a status; scheduled rows are pending and not due yet."""

    queue: str
    status: str
    rows: int


class Stuck(NamedTuple):
    """A row whose lease ran out and that no sweep has ended yet."""

    id: UUID
    partition_key: str
    claimed_by: str
    lease_expires_at: datetime
    attempts: int
    last_error: str | None


class BlockedKey(NamedTuple):
    """An ordered key that cannot go on: its first row is processing, scheduled, or waits for an operator."""

    queue: str
    partition_key: str
    head: UUID
    status: str
    reason: str
    waiting: int


class Worker(NamedTuple):
    """One worker process of the fleet."""

    id: str
    status: str
    last_seen_at: datetime
    started_at: datetime
    metadata: Mapping[str, Any]
