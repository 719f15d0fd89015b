"""Which rows could start, found by plain SELECTs and nothing of the product, and since when each could and did not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from properties.stepped_fleet import POLL_SECONDS, Stage, SteppedWorker

PROMISED_SECONDS = POLL_SECONDS + 1.0
_FACTS = """
SELECT set_config('test.now', %s, false),
  (SELECT json_agg(json_build_array(id, queue, partition_key, ordered, seq, status, attempts,
                                    extract(epoch FROM available_at)::float8) ORDER BY seq) FROM live),
  (SELECT json_agg(json_build_array(id, queue, partition_key)) FROM dead
   WHERE ordered AND hold AND status IN ('failed', 'dead_letter')),
  (SELECT json_agg(json_build_array(queue, paused, max_running, max_per_key, rate_per_second, burst)) FROM queues)
"""


class Fact(NamedTuple):
    """One live row, as it stands."""

    id: UUID
    queue: str
    key: str | None
    ordered: bool
    seq: int
    status: str
    attempts: int
    due: float


class Waits(AssertionError):
    """A row could start for longer than was promised."""


class Watch:
    """Looks after every step, and speaks up when a row has waited for nothing."""

    def __init__(self, stage: Stage, workers: Sequence[SteppedWorker]) -> None:
        self._stage, self._workers = stage, workers
        self._since: dict[UUID, float] = {}
        self._tokens: dict[str, float] = {}  # at least so many rows could start by the rate
        self._looked = stage.clock.at
        self.freed: set[UUID] = set()  # ended rows whose key an operator has let go on
        self.locked: tuple[Any, ...] = ()  # a row by its id, or a key by its queue and itself
        self.starts = 0

    def look(self) -> None:
        """Every row that could have started for longer than promised is an error."""
        at, since = self._stage.clock.at, self._since
        self._since = {}
        for fact in self._served(self.could_start()):
            due = fact.due - self._stage.clock.ahead
            new = due if self._looked < due <= at else at
            self._since[fact.id] = since.get(fact.id, new)
            if at - self._since[fact.id] > PROMISED_SECONDS + 0.001:
                raise Waits(f"could start {at - self._since[fact.id]:.3f} s ago, and a slot was free: {fact}")
        self._looked = at

    def _served(self, facts: list[Fact]) -> list[Fact]:
        served = {queue for worker in self._workers if worker.free > 0 for queue in worker.terms.queues}
        return [fact for fact in facts if fact.queue in served]

    def could_start(self) -> list[Fact]:
        """Rows that are due, in queues that are not paused, whose key and limits are free."""
        facts, blocking, settings = self._ask()
        rows = [Fact(UUID(id), *rest) for id, *rest in facts]
        limits = {queue: rest for queue, *rest in settings}
        self._count_starts(limits)
        running = Counter(row.queue for row in rows if row.status == "processing")
        in_key = Counter((row.queue, row.key) for row in rows if row.status == "processing")
        found = []
        for row in self._next_rows(rows, blocking):
            paused, in_all, per_key, rate, _ = limits.get(row.queue, (False, None, None, None, None))
            if (
                row.due <= self._stage.clock.database
                and not paused
                and (in_all is None or running[row.queue] < in_all)
                and (per_key is None or row.key is None or in_key[row.queue, row.key] < per_key)
                and (rate is None or self._tokens[row.queue] >= 1.01)
                and self.locked not in ((row.id,), (row.queue, row.key))
            ):
                found.append(row)
        return found

    def _next_rows(self, rows: list[Fact], blocking: list[list[str]]) -> list[Fact]:
        """Every pending row without order; of an ordered key the one whose turn it is: what has begun goes first."""
        keys: dict[tuple[str, str | None], list[Fact]] = defaultdict(list)
        for row in rows:
            if row.ordered:
                keys[row.queue, row.key].append(row)
        for id, queue, key in blocking:
            if UUID(id) not in self.freed:
                keys.pop((queue, key), None)
        free = [each for each in keys.values() if all(row.status == "pending" for row in each)]
        turn = [min(each, key=lambda row: (row.attempts == 0, row.seq)) for each in free]
        return [row for row in rows if not row.ordered and row.status == "pending"] + turn

    def _count_starts(self, limits: dict[str, list[Any]]) -> None:
        """What a rate has earned since the last look, and what was started of it. A new rate has earned nothing."""
        passed = self._stage.clock.at - self._looked
        rated = {queue: (rate, burst) for queue, (*_, rate, burst) in limits.items() if rate is not None}
        self._tokens = {
            queue: min(burst, self._tokens[queue] + rate * passed) if queue in self._tokens else 0.0
            for queue, (rate, burst) in rated.items()
        }
        for worker in self._workers:
            for attempt in worker.started:
                self.starts += 1
                queue = attempt.claimed.queue
                if queue in self._tokens:
                    self._tokens[queue] = max(0.0, self._tokens[queue] - 1)
            worker.started.clear()

    def _ask(self) -> list[list[Any]]:
        """What stands in the tables. The database is told the time by the way."""
        now = repr(self._stage.clock.database)
        _, *parts = self._stage.conn.execute(_FACTS, (now,), prepare=True).fetchall()[0]
        return [part or [] for part in parts]
