"""Every question as a Statement: what people and workers ask, nothing of which changes a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from .model import Attempt, BlockedKey, Claimed, DeadGroup, Depth, Lane, Offer, Row, Stuck, Worker
from .payload import check_text
from .statement import Rows, Statement
from .verbs import claimed_by

T = TypeVar("T")


def _each(kind: Callable[..., T]) -> Callable[[Rows], list[T]]:
    return lambda rows: [kind(*row) for row in rows]


def row(id: UUID) -> Statement[Row | None]:
    """One row in whatever state, or None."""
    return Statement("row", {"id": id}, lambda rows: Row(*rows[0]) if rows else None)


def rows(
    *,
    status: str | None = None,
    kind: str | None = None,
    queue: str | None = None,
    key: str | None = None,
    before: UUID | None = None,
    n: int = 100,
) -> Statement[list[Row]]:
    """The newest rows that match, at most n; `before` is the last id of the page before."""
    return Statement(
        "rows",
        {"status": status, "kind": kind, "queue": queue, "partition_key": key, "before": before, "n": n},
        _each(Row),
    )


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


def dead_letters(n: int = 50) -> Statement[list[DeadGroup]]:
    """What ended badly, by kind."""
    return Statement("dead_letters", {"n": n}, _each(DeadGroup))


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
    workers: int

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
        if left > 0:
            return f"It is held by {holder}{asked} for another {left:.0f} s, {attempt}; a living worker renews that."
        then = "ends it as a dead letter" if self.attempts >= self.max_attempts else "returns it to pending"
        return f"Its lease under {holder}{asked} ran out {-left:.0f} s ago, {attempt}; the next sweep {then}."

    def _waiting(self) -> str:
        so_far = f" after {self.attempts} of {self.max_attempts} attempts ({self._error()})" if self.attempts else ""
        if self.head is not None:
            return f"It waits behind row {self.head} ({self.head_status}) of the ordered key {self.partition_key!r}."
        if self.seconds_to_wait > 0:
            return f"It becomes runnable in {self.seconds_to_wait:.0f} s{so_far}."
        if self.workers == 0:
            return f"It has been runnable for {-self.seconds_to_wait:.0f} s{so_far}, but no worker is alive."
        waited = f"It has been runnable for {-self.seconds_to_wait:.0f} s{so_far}"
        return f"{waited} and waits for a free slot of {self.workers} workers."

    def _error(self) -> str:
        return ((self.last_error or "").strip() or "no error recorded").splitlines()[-1][:200]


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
