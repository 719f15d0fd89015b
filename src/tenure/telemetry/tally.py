"""The tally: what one worker did, counted in periods of ten seconds until its housekeeper writes them to the database.

Claims, completions and renewals are counted where they happen, a batch at a time: an event for each would cost more
than the job (see Bus.each_job). Everything else is counted from events. Slots follow the database's clock: the answer
to each write tells the time. A worker that is killed loses what was not written yet: the current period, and the few
seconds until its housekeeper's next round.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from ..events import (
    Event,
    JobCancelled,
    JobDeadLettered,
    JobFailed,
    JobReleased,
    JobRetried,
    LeaseLost,
    LeasesSwept,
    StaleWriteBlocked,
)
from ..model.rows import Claimed, Settled
from ..postgres.runner import run
from ..postgres.sqlstates import trouble_of
from ..verbs.history import BOUNDS_SECONDS, PERIOD_SECONDS, refuse, tally

if TYPE_CHECKING:
    from psycopg import Connection

PERIODS_MAX = 360  # an hour without a database; older periods are dropped
AGAIN_MAX = 1000  # rows of a period and queue that are looked up: did their last attempt expire?
REFUSALS_MAX = 1000
TURN_SECONDS_MAX = 1.0  # how long one writer waits for another
REFUSALS_A_SECOND_MAX = 10  # kept with details; all are counted

Counts = dict[str, Any]


class Counted(Protocol):
    """The part of an attempt that is counted."""

    @property
    def claimed(self) -> Claimed:
        """The row."""

    @property
    def started(self) -> float:
        """When its handler was called, on the monotonic clock."""


_COUNTED = ("acquired", "renewed", "expired", "lost", "stale_writes_blocked")
_OUTCOMES = ("completed", "retried", "released", "failed", "dead_lettered", "cancelled")
_ENDED: Mapping[type[Event], str] = {
    JobRetried: "retried",
    JobReleased: "released",
    JobFailed: "failed",
    JobDeadLettered: "dead_lettered",
    JobCancelled: "cancelled",
}


class Tally:
    """Counts from any thread; `write` is called by threads with a connection, one after the other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()  # one thread at a time; counting goes on meanwhile
        self._phase = 0.0  # added to our clock, so that our periods begin with those of the database
        self._periods: dict[int, dict[str, Counts]] = {}
        self._refused: deque[tuple[float, StaleWriteBlocked]] = deque(maxlen=REFUSALS_MAX)
        self._failing = False

    # -- counting

    def took(self, rows: Iterable[Claimed], lease_seconds: float) -> None:
        """These rows were claimed, under leases of this length."""
        with self._lock:
            period = self._period()
            for queue, some in groupby(rows, attrgetter("queue")):
                counts, these = period.get(queue) or _opened(period, queue), [*some]
                counts["acquired"] += len(these)
                waits = counts["waits"]
                for row in these:
                    waits[bisect_left(BOUNDS_SECONDS, row.waited_seconds(lease_seconds))] += 1
                for row in [row for row in these if row.generation > 1][: AGAIN_MAX - len(counts["again"])]:
                    counts["again"].append(row.id.hex)
                    counts["generations"].append(row.generation)

    def settled(self, attempts: Iterable[Counted], answers: Iterable[Settled], at: float) -> None:
        """The database has answered: count the completions; the rest comes as events."""
        done = [
            attempt
            for attempt, answer in zip(attempts, answers, strict=True)
            if (answer.verb == "complete" or answer.status == "completed")
            and (answer.ok or answer.reason == "already_completed")
        ]
        self.completed(done, at)

    def completed(self, attempts: Sequence[Counted], at: float) -> None:
        """These were completed by now."""
        if not attempts:
            return
        with self._lock:
            period = self._period()
            for queue, these in groupby(attempts, attrgetter("claimed.queue")):
                counts = period.get(queue) or _opened(period, queue)
                took = [bisect_left(BOUNDS_SECONDS, at - attempt.started) for attempt in these]
                counts["completed"] += len(took)
                runs = counts["runs"]
                for n in took:
                    runs[n] += 1

    def renewed(self, n: int) -> None:
        """This many leases were extended."""
        self._add("renewed", n)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        if (outcome := _ENDED.get(type(event))) and isinstance(event, JobRetried):
            self._add(outcome, queue=event.queue, run_seconds=event.run_seconds)
        elif isinstance(event, LeasesSwept):
            self._add("expired", event.rows)
        elif isinstance(event, LeaseLost):
            self._add("lost")
        elif isinstance(event, StaleWriteBlocked):
            self._add("stale_writes_blocked")
            self._keep(event)

    def _add(self, what: str, n: int = 1, *, queue: str = "", run_seconds: float | None = None) -> None:
        with self._lock:
            period = self._period()
            counts = period.get(queue) or _opened(period, queue)
            counts[what] += n
            if run_seconds is not None:
                counts["runs"][bisect_left(BOUNDS_SECONDS, run_seconds)] += 1

    def _keep(self, event: StaleWriteBlocked) -> None:
        at = self._clock()
        lately = sum(1 for kept, _ in list(self._refused)[-REFUSALS_A_SECOND_MAX:] if kept > at - 1)
        if lately < REFUSALS_A_SECOND_MAX:
            self._refused.append((at, event))

    def _period(self) -> dict[str, Counts]:
        """The current period: counts by queue."""
        number = self._now()
        period = self._periods.get(number)
        if period is None:
            period = self._periods[number] = {}
            if len(self._periods) > PERIODS_MAX:
                del self._periods[min(self._periods)]
        return period

    def _now(self) -> int:
        return int((self._clock() + self._phase) // PERIOD_SECONDS)

    # -- writing

    def due(self) -> bool:
        """True if a period is over, or a write was refused."""
        now = self._now()
        return bool(self._refused) or any(number < now for number in list(self._periods))

    def write(self, conn: Connection[Any], schema: str | None = None, *, everything: bool = False) -> str:
        """Write what is due, or everything; returns why it failed, only for the first failure in a row.

        What the database does not accept is kept for later. Raises only when the connection is lost.
        """
        if not self._writing.acquire(timeout=TURN_SECONDS_MAX):
            return ""  # another thread writes, and the database is slow
        try:
            return self._write(conn, schema, everything)
        finally:
            self._writing.release()

    def _write(self, conn: Connection[Any], schema: str | None, everything: bool) -> str:
        taken: dict[int, dict[str, Counts]] = {}
        try:
            self._write_refusals(conn, schema)
            taken = self._take(everything)
            if taken:
                self._write_periods(conn, schema, taken)
        except Exception as error:
            self._put_back(taken)
            if trouble_of(error) == "away":
                raise
            first, self._failing = not self._failing, True
            return " ".join(str(error).split())[:300] if first else ""
        self._failing = False
        return ""

    def _write_refusals(self, conn: Connection[Any], schema: str | None) -> None:
        refused = list(self._refused)
        if refused:
            at = self._clock()
            run(conn, refuse([_refusal(event, at - kept) for kept, event in refused]), schema)
            for _ in refused:
                self._refused.popleft()

    def _write_periods(
        self, conn: Connection[Any], schema: str | None, taken: Mapping[int, Mapping[str, Counts]]
    ) -> None:
        newest = max(taken)
        middle = (newest + 0.5) * PERIOD_SECONDS - self._phase
        periods = [{"back": newest - k, **counts} for k, period in taken.items() for counts in period.values()]
        seconds = run(conn, tally(periods, age_seconds=max(0.0, self._clock() - middle)), schema)
        self._phase = (seconds - self._clock()) % PERIOD_SECONDS

    def _take(self, everything: bool) -> dict[int, dict[str, Counts]]:
        now = self._now()
        with self._lock:
            taken = {number: period for number, period in self._periods.items() if everything or number < now}
            self._periods = {number: period for number, period in self._periods.items() if number not in taken}
        return taken

    def _put_back(self, taken: Mapping[int, Mapping[str, Counts]]) -> None:
        """These were not written: add them to what was counted meanwhile."""
        with self._lock:
            for number, period in taken.items():
                ours = self._periods.setdefault(number, {})
                for queue, counts in period.items():
                    _add_up(ours.get(queue) or _opened(ours, queue), counts)


def _opened(period: dict[str, Counts], queue: str) -> Counts:
    """A queue's counts in a period, all zero."""
    nothing = len(BOUNDS_SECONDS) + 1
    counts: Counts = {"queue": queue, **dict.fromkeys((*_COUNTED, *_OUTCOMES), 0), "again": [], "generations": []}
    period[queue] = counts | {"waits": [0] * nothing, "runs": [0] * nothing}
    return period[queue]


def _add_up(to: Counts, more: Counts) -> None:
    """Add these counts of a queue to others of the same period."""
    for what, n in more.items():
        if what in ("waits", "runs"):
            to[what] = [a + b for a, b in zip(to[what], n, strict=True)]
        elif what in ("again", "generations"):
            to[what] = [*n, *to[what]][:AGAIN_MAX]
        elif what != "queue":
            to[what] += n


def _refusal(event: StaleWriteBlocked, age_seconds: float) -> dict[str, Any]:
    return {
        "age_seconds": age_seconds,
        "row_id": str(event.job_id),
        "worker": event.worker,
        "verb": event.verb,
        "stale_token": event.stale_token,
        "current_token": event.current_token,
        "reason": event.reason,
    }
