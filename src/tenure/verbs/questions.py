"""Every question as a Statement: what people and workers ask, nothing of which changes a row."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from ..errors import telling_line
from ..model.payload import check_text
from ..model.rows import Attempt, BlockedKey, Claimed, Depth, Lane, Offer, Row, Stuck, Worker
from ..sql import in_schema, text
from .lifecycle import claimed_by
from .statement import Rows, Statement

T = TypeVar("T")


def _each(kind: Callable[..., T]) -> Callable[[Rows], list[T]]:
    return lambda rows: [kind(*row) for row in rows]


def row(id: UUID) -> Statement[Row | None]:
    """One row in whatever state, or None."""
    return Statement("row", {"id": id}, lambda rows: Row(*rows[0]) if rows else None)


def tape(id: UUID) -> Statement[list[Attempt]]:
    """The lease tape of a row, oldest attempt first; the last one may still be running."""
    return Statement("tape", {"id": id}, _each(Attempt))


def depth() -> Statement[list[Depth]]:
    """Rows by queue and state, the completed ones left out."""
    return Statement("depth", {}, _each(Depth))


def oldest_runnable() -> Statement[dict[str, float]]:
    """Lag in seconds by queue: the age of the oldest row that could run now."""
    return Statement("oldest_runnable", {}, lambda rows: dict(rows))


def stuck(n: int = 50) -> Statement[list[Stuck]]:
    """Rows past their lease that no sweep has ended yet."""
    return Statement("stuck", {"n": n}, _each(Stuck))


def blocked_keys(n: int = 50) -> Statement[list[BlockedKey]]:
    """Ordered keys that cannot go on, the longest queue behind them first."""
    return Statement("blocked_keys", {"n": n}, _each(BlockedKey))


def live_workers(*, ttl_seconds: float = 30.0) -> Statement[list[Worker]]:
    """The workers a ring is made of, in id order."""
    return Statement(
        "live_workers",
        {"ttl_seconds": ttl_seconds},
        lambda rows: [Worker._make((*row[:4], msgspec.json.decode(row[4]))) for row in rows],
    )


def lanes() -> Statement[list[Lane]]:
    """The queues and priorities that hold unordered rows, most urgent first."""
    return Statement("lanes", {}, _each(Lane))


def board() -> Statement[list[Offer]]:
    """What there is to claim in queues that are not paused, most urgent first."""
    return Statement("board", {}, _each(Offer))


def channel() -> Statement[str]:
    """The name under which the workers of this schema are woken."""
    return Statement("channel", {}, lambda rows: str(rows[0][0]))


def ping() -> Statement[bool]:
    """An answer, whatever it says."""
    return Statement("ping", {}, bool)


def dead_share() -> Statement[tuple[int, int]]:
    """Dead and live versions of rows in the hot table, as the statistics know it."""
    return Statement("dead_share", {}, lambda rows: (int(rows[0][0]), int(rows[0][1])))


def claimed(worker: str, claim_id: int) -> Statement[list[Claimed]]:
    """What a claim took whose reply was lost."""
    return Statement("claimed", {"worker": worker, "claim_id": claim_id}, claimed_by(worker))


class Applied(NamedTuple):
    """One migration as the database remembers it."""

    version: int
    name: str
    checksum: str
    kind: str


def migrations() -> Statement[list[Applied]]:
    """What has been applied to the schema."""
    return Statement("migrations", {}, _each(Applied))


def why(id: UUID) -> Statement[str]:
    """One sentence: who holds the row, or what it waits for, and what happens next."""
    return Statement("why", {"id": id}, lambda rows: Facts(*rows[0]).sentence() if rows else f"There is no row {id}.")


def why_in_sql(id: UUID, schema: str) -> str:
    """The question behind the sentence, for psql."""
    return re.sub(r":id\b", f"'{id}'", in_schema(text("why"), schema)).rstrip() + ";"


def spoken(seconds: float) -> str:
    """A span of time for people."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class Facts(NamedTuple):
    """What the sentence of `why` is made from."""

    status: str
    kind: str
    queue: str
    partition_key: str
    attempts: int
    max_attempts: int
    worker: str | None
    seconds_left: float | None
    seconds_to_wait: float
    last_error: str | None
    worker_status: str | None
    cancel_asked: bool
    head: UUID | None
    head_status: str | None
    paused: bool
    running: int
    max_running: int | None
    running_of_key: int
    max_per_key: int | None
    tokens: float | None
    rate_per_second: float | None
    workers: int
    serving: int
    able: int
    gone: bool

    def sentence(self) -> str:
        """The answer for people."""
        ended = {
            "completed": f"It was completed by {self.worker} on attempt {self.attempts}.",
            "cancelled": f"It was cancelled ({self.last_error}); it will not run.",
            "failed": f"It failed for good on attempt {self.attempts} ({self._error()}); redrive brings it back.",
            "dead_letter": f"It is a dead letter after {self.attempts} of {self.max_attempts} attempts "
            f"({self._error()}); redrive brings it back.",
        }
        if self.status in ended:
            return ended[self.status]
        return self._held() if self.status == "processing" else self._waiting()

    def _held(self) -> str:
        asked = ", which was asked to cancel it" if self.cancel_asked else ""
        holder = f"worker {self.worker}" + (
            f" ({self.worker_status})" if self.worker_status not in (None, "alive") else ""
        )
        attempt = f"attempt {self.attempts} of {self.max_attempts}"
        left = self.seconds_left or 0.0
        if left > 0 and self.gone:
            return f"It is held by {holder}{asked}, whose session is gone, {attempt}; it comes back within the grace."
        if left > 0:
            return f"It is held by {holder}{asked} for another {spoken(left)}, {attempt}; a living worker renews that."
        then = "ends it as a dead letter" if self.attempts >= self.max_attempts else "returns it to pending"
        return f"Its lease under {holder}{asked} ran out {spoken(-left)} ago, {attempt}; the next sweep {then}."

    def _waiting(self) -> str:
        if self.head is not None:
            row = f"row {self.head} ({self.head_status}) of the ordered key {self.partition_key!r}"
            return f"It waits behind {row}; {self._next_of_head()}."
        so_far = f" after {self.attempts} of {self.max_attempts} attempts ({self._error()})" if self.attempts else ""
        paused = f", but the queue {self.queue!r} is paused" if self.paused else ""
        if self.seconds_to_wait > 0:
            return f"It becomes runnable in {spoken(self.seconds_to_wait)}{so_far}{paused or self._nobody()}."
        return f"It has been runnable for {spoken(-self.seconds_to_wait)}{so_far}{paused or self._obstacle()}."

    def _next_of_head(self) -> str:
        """What lets a key go on."""
        if self.head_status in ("pending", "processing"):
            return f"`tenure why {self.head}` says how that one stands"
        free = shlex.join(["tenure", "queues", "free", self.queue, self.partition_key])
        return f"redrive or delete that one, or `{free}`"

    def _nobody(self) -> str:
        """Why no worker would take it, even if it were due."""
        if self.workers == 0:
            return ", but no worker is alive"
        if self.serving == 0:
            return f", but no worker serves the queue {self.queue!r} ({self.workers} alive)"
        if self.able == 0:
            return f", but no worker of its queue has a handler of kind {self.kind!r} ({self.serving} alive)"
        return ""

    def _obstacle(self) -> str:
        """What keeps a row that could run from running, the nearest cause first."""
        if nobody := self._nobody():
            return nobody
        if self.max_running is not None and self.running >= self.max_running:
            return f", but the queue {self.queue!r} is at its limit: {self.running} of {self.max_running} are running"
        if self.max_per_key is not None and self.running_of_key >= self.max_per_key:
            room = f"{self.running_of_key} of {self.max_per_key} are running"
            return f", but the key {self.partition_key!r} is at its limit: {room}"
        if self.tokens is not None and self.tokens < 1:
            return f", but the queue {self.queue!r} starts no more than {self.rate_per_second:g} rows a second"
        return f" and waits for a free slot of {self.able} worker{'s' * (self.able != 1)}"

    def _error(self) -> str:
        return telling_line(self.last_error)[:200] or "no error recorded"


class Member(NamedTuple):
    """One worker of the registry as people see it; `present` is None where leases alone decide."""

    id: str
    status: str
    seen_seconds: float
    up_seconds: float
    present: bool | None
    metadata: Mapping[str, Any]


def workers(n: int = 1000) -> Statement[list[Member]]:
    """Every worker the registry knows, the dead included."""
    return Statement(
        "workers", {"n": n}, lambda rows: [Member._make((*row[:5], msgspec.json.decode(row[5]))) for row in rows]
    )


def bucket(key: str) -> Statement[int]:
    """The bucket of a partition key."""
    return Statement("bucket", {"partition_key": check_text(key, "key")}, lambda rows: int(rows[0][0]))


def clock() -> Statement[datetime]:
    """The database's time."""
    return Statement("clock", {}, lambda rows: rows[0][0])


def ring_depth(queues: Sequence[str], *, cap: int = 100) -> Statement[dict[int, int]]:
    """How many rows of these queues wait in each arc of 16 buckets, counted up to a cap in each lane."""
    return Statement("ring_depth", {"queues": list(queues), "cap": cap}, lambda rows: dict(rows))


class QueueDepth(NamedTuple):
    """How many rows of a queue are in a state; `more`: at least so many."""

    queue: str
    status: str
    rows: int
    more: bool


def queue_depths(*, cap: int = 10_000) -> Statement[list[QueueDepth]]:
    """Rows by queue and state, the completed ones left out, each counted up to a cap (less far with many queues)."""
    return Statement("queue_depths", {"cap": cap}, _each(QueueDepth))


def queue_lags() -> Statement[dict[str, float]]:
    """Lag in seconds by queue, in bounded time: of ordered keys the first 256 of each queue are asked."""
    return Statement("queue_lags", {}, lambda rows: dict(rows))


def held_by_worker() -> Statement[dict[str, int]]:
    """How many rows each worker holds, as far as a quick look finds them."""
    return Statement("held_by_worker", {}, lambda rows: dict(rows))
