"""What the inbox promises, in plain Python: no clock, no database. The state machine compares the real one with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from tenure.model.rows import Lease, NewRow

# How each way of ending an attempt is called on the tape, and what it makes of the row while nothing else speaks.
OUTCOMES = {
    "complete": "completed",
    "retry": "retried",
    "release": "released",
    "fail": "failed",
    "dead_letter": "dead_lettered",
    "sweep": "expired",
}
LEGAL = {
    ("pending", "processing"),
    ("pending", "cancelled"),
    ("processing", "pending"),
    ("processing", "completed"),
    ("processing", "failed"),
    ("processing", "dead_letter"),
    ("processing", "cancelled"),
    ("failed", "pending"),
    ("dead_letter", "pending"),
}


@dataclass
class ModelRow:
    """One row as the promise has it; `due` and `over` stand for the clock."""

    id: UUID
    seq: int
    new: NewRow
    bucket: int = -1
    available_at: float = 0.0
    due: bool = True
    status: str = "pending"
    attempts: int = 0
    generation: int = 0
    fence: int = 0
    before_claim: int = 0
    claimed_by: str | None = None
    claim_id: int | None = None
    over: bool = False
    cancel_asked: bool = False
    last_error: str | None = None
    finished_by: str | None = None

    @property
    def live(self) -> bool:
        """True while the row is neither finished nor buried."""
        return self.status in ("pending", "processing")

    @property
    def lane(self) -> tuple[str, int]:
        """Queue and priority."""
        return self.new.queue, self.new.priority

    @property
    def key(self) -> tuple[str, str]:
        """The ordered stream it belongs to."""
        return self.new.queue, str(self.new.key)

    def held_under(self, lease: Lease) -> bool:
        """True if the lease is the current one of a row in flight."""
        return self.status == "processing" and self.stands_at(lease)

    def stands_at(self, lease: Lease) -> bool:
        """True if no later lease was handed out."""
        return (self.generation, self.fence) == (lease.generation, lease.fence)

    def picture(self) -> dict[str, Any]:
        """What a reader of the inbox sees, the times left out."""
        processing = self.status == "processing"
        return {
            "id": str(self.id),
            "key": self.new.key or str(self.id),
            "payload": self.new.payload,
            "status": self.status,
            "attempts": self.attempts,
            "max_attempts": self.new.max_attempts,
            "claimed_by": self.claimed_by if processing else None,
            "over": self.over if processing else None,
            "generation": self.generation,
            "due": self.due if self.status == "pending" else None,
            "done": self.status == "completed",
            "error": self.last_error,
            "idem": self.new.idempotency_key,
            "kind": self.new.kind,
            "queue": self.new.queue,
            "priority": self.new.priority,
            "ordered": self.new.ordered,
            "fence": self.fence,
            "cancel": self.cancel_asked if self.live else False,
            "finished_by": None if self.live else self.finished_by,
        }


class Answer(NamedTuple):
    """What a settling verb must answer."""

    standing: str
    status: str | None
    reason: str = ""


@dataclass
class WorkerFact:
    """A registered worker; age is fresh, silent (past the ttl) or old (past a day)."""

    status: str = "alive"
    age: str = "fresh"


@dataclass
class Model:
    """Every table of the schema, as facts."""

    rows: dict[UUID, ModelRow] = field(default_factory=dict)
    tape: dict[tuple[UUID, int], tuple[int, str, str, str | None]] = field(default_factory=dict)
    keys: dict[tuple[str, str], UUID] = field(default_factory=dict)
    idempotency: dict[str, tuple[UUID, tuple[str, Any]]] = field(default_factory=dict)
    effects: dict[tuple[UUID, str], int] = field(default_factory=dict)
    fences: dict[str, int] = field(default_factory=dict)
    workers: dict[str, WorkerFact] = field(default_factory=dict)
    epoch: int = 1
    moved: bool = False  # the server is another one; the next claim must notice
    _seq: int = 0

    # -- producers

    def enqueue(self, news: Sequence[NewRow], ids: Sequence[UUID]) -> list[tuple[UUID, str]]:
        """Put rows in under the ids the database chose; the answers it must have given."""
        return [self._enqueue_one(new, id) for new, id in zip(news, ids, strict=True)]

    def _enqueue_one(self, new: NewRow, id: UUID) -> tuple[UUID, str]:
        content = (new.kind, new.payload)
        if new.idempotency_key is not None:
            first, known = self.idempotency.setdefault(new.idempotency_key, (id, content))
            if first != id:
                return first, "duplicate" if known == content else "conflict"
        self._seq += 1
        self.rows[id] = ModelRow(id, self._seq, new, due=new.delay_seconds == 0)
        return id, "enqueued"

    # -- workers

    def may_claim(self, worker: str) -> bool:
        """A worker nobody registered may claim; a registered one only while alive."""
        return worker not in self.workers or self.workers[worker].status == "alive"

    def runnable(self, worker: str, lanes: Sequence[tuple[str, int]], buckets: Iterable[int]) -> list[ModelRow]:
        """The unordered rows a claim may take, in the order of lanes, buckets and time."""
        if not self.may_claim(worker):
            return []
        places = list(buckets)
        free = [row for row in self.rows.values() if row.status == "pending" and row.due and not row.new.ordered]
        mine = [row for row in free if row.lane in lanes and row.bucket in places]
        return sorted(mine, key=lambda row: (lanes.index(row.lane), places.index(row.bucket), row.available_at))

    def heads(self, worker: str, queues: Sequence[str], buckets: Iterable[int]) -> list[ModelRow]:
        """The ordered rows a claim may take: of each free key the row that has begun, else the first, if it is due."""
        if not self.may_claim(worker):
            return []
        first: dict[tuple[str, str], ModelRow] = {}
        for row in sorted(self.rows.values(), key=lambda row: (row.attempts == 0, row.seq)):
            if row.new.ordered and row.live:
                first.setdefault(row.key, row)
        places = set(buckets)
        free = [row for row in first.values() if row.status == "pending" and row.due and row.key not in self.keys]
        return [row for row in free if row.new.queue in queues and row.bucket in places]

    def claim(self, row: ModelRow, worker: str, fence: int, claim_id: int) -> None:
        """Take a row under its next generation."""
        row.status, row.claimed_by, row.claim_id, row.over = "processing", worker, claim_id, False
        row.generation, row.attempts = row.generation + 1, row.attempts + 1
        row.before_claim, row.fence = row.fence, fence
        if row.new.ordered:
            assert row.key not in self.keys, "two rows of one ordered key in flight"
            self.keys[row.key] = row.id

    def settle(
        self,
        verb: str,
        lease: Lease,
        error: str | None = None,
        *,
        late: bool = False,
        delay: float | None = None,
    ) -> Answer:
        """End an attempt under its lease, or say why not."""
        row = self.rows.get(lease.id)
        if row is None:
            return Answer("unknown", None, "no_such_row")
        if not row.held_under(lease) or (verb == "complete" and row.over and not late):
            return self._refusal(verb, lease, row)
        if verb == "complete":
            self._finish(row, "completed")
        else:
            self._end(row, verb, error, delay)
        return Answer("applied", row.status)

    def _refusal(self, verb: str, lease: Lease, row: ModelRow) -> Answer:
        ended = self.tape.get((row.id, lease.fence))
        if ended is not None and ended[2] == OUTCOMES[verb]:
            return Answer("already_mine", row.status)
        if not row.stands_at(lease):
            return Answer("stale", row.status, "token_mismatch")
        how = ended[2] if ended else row.status
        if how == OUTCOMES[verb]:
            return Answer("already_mine", row.status)
        if how == "expired" or (row.status == "processing" and row.over):
            return Answer("stale", row.status, "lease_expired")
        return Answer("stale", row.status, f"already_{how}")

    def _end(self, row: ModelRow, verb: str, error: str | None, delay: float | None = None) -> None:
        assert row.claimed_by is not None
        self.tape[row.id, row.fence] = (row.generation, row.claimed_by, OUTCOMES[verb], error)
        row.last_error = error if error is not None else row.last_error
        if verb == "release":
            row.attempts -= 1
        status = self._next_status(row, verb)
        if status != "pending":
            self._finish(row, status)
            return
        row.status, row.claimed_by, row.claim_id = "pending", None, None
        row.due = delay == 0 or (delay is None and verb == "release")
        self.keys.pop(row.key, None) if row.new.ordered else None

    @staticmethod
    def _next_status(row: ModelRow, verb: str) -> str:
        if verb in ("fail", "dead_letter"):
            return {"fail": "failed", "dead_letter": "dead_letter"}[verb]
        if row.cancel_asked:
            return "cancelled"
        return "dead_letter" if verb != "release" and row.attempts >= row.new.max_attempts else "pending"

    def _finish(self, row: ModelRow, status: str) -> None:
        row.status, row.finished_by, row.claimed_by, row.claim_id = status, row.claimed_by, None, None
        if row.new.ordered and not (row.new.hold and status in ("failed", "dead_letter")):
            self.keys.pop(row.key, None)

    # -- housekeeping and operators

    def sweep(self, n: int) -> dict[UUID, str]:
        """End what ran out, the lowest ids first."""
        expired = [row for row in self.rows.values() if row.status == "processing" and row.over]
        taken = sorted(expired, key=lambda row: row.id.int)[:n]
        for row in taken:
            self._end(row, "sweep", "lease expired")
        return {row.id: row.status for row in taken}

    def cancel(self, ids: Iterable[UUID], reason: str) -> dict[UUID, str]:
        """End pending rows, mark those in flight."""
        found = [self.rows[id] for id in ids if id in self.rows and self.rows[id].live]
        answers = {row.id: "asked" if row.status == "processing" else "cancelled" for row in found}
        for row in found:
            if row.status == "processing":
                row.cancel_asked, row.last_error = True, reason
            else:
                row.status, row.last_error, row.finished_by = "cancelled", reason, None
        return answers

    def redrive(self, ids: Iterable[UUID]) -> set[UUID]:
        """Bring back what ended badly: fresh attempts, the old tokens."""
        found = [row for row in self.rows.values() if row.id in set(ids) and row.status in ("failed", "dead_letter")]
        for row in found:
            row.status, row.attempts, row.due, row.cancel_asked = "pending", 0, True, False
            if row.new.ordered and self.keys.get(row.key) == row.id:
                del self.keys[row.key]
        return {row.id for row in found}

    def forget(self) -> set[UUID]:
        """Housekeeping when all is past retention: what it may not touch is what still stands in live or dead."""
        gone = {row.id for row in self.rows.values() if row.status == "cancelled"}
        for id in gone:
            del self.rows[id]
        kept = {row.id for row in self.rows.values() if row.status != "completed"}
        self.idempotency = {key: first for key, first in self.idempotency.items() if first[0] in kept}
        self.tape = {spot: end for spot, end in self.tape.items() if spot[0] in kept}
        self.effects = {spot: fence for spot, fence in self.effects.items() if spot[0] in kept}
        return gone

    def sweep_workers(self) -> dict[str, str]:
        """Silent ones are declared dead; those found dead a day later are forgotten."""
        answers: dict[str, str] = {}
        for id, worker in list(self.workers.items()):
            if worker.status == "dead":
                if worker.age == "old":
                    answers[id] = "forgotten"
                    del self.workers[id]
            elif worker.age != "fresh":
                answers[id] = worker.status = "dead"
        return answers

    def lose_claim(self, row: ModelRow) -> None:
        """A failover without this claim: the row stands as it did before."""
        row.status, row.claimed_by, row.claim_id, row.over = "pending", None, None, False
        row.generation, row.attempts, row.fence = row.generation - 1, row.attempts - 1, row.before_claim
        row.due, row.cancel_asked = True, False
        if row.new.ordered:
            self.keys.pop(row.key, None)

    # -- the whole state, as the database tells it

    def picture(self) -> dict[str, list[Any]]:
        """Every table in a form that compares."""
        return {
            "inbox": sorted((row.picture() for row in self.rows.values()), key=lambda fact: str(fact["id"])),
            "attempts": sorted([str(id), fence, *end] for (id, fence), end in self.tape.items()),
            "keys": sorted([queue, key, str(id)] for (queue, key), id in self.keys.items()),
            "idempotency": sorted([key, str(id)] for key, (id, _) in self.idempotency.items()),
            "effects": sorted([str(id), effect, fence] for (id, effect), fence in self.effects.items()),
            "fences": sorted([resource, fence] for resource, fence in self.fences.items()),
            "workers": sorted([id, worker.status] for id, worker in self.workers.items()),
        }
