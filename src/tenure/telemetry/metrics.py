"""Metrics of one worker, counted from its events, as text for Prometheus."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .. import __version__
from ..events import (
    BrokerAway,
    BrokerBack,
    ChoreDone,
    ClaimAnswered,
    DatabaseUnreachable,
    DeliveryMade,
    EndpointDisabled,
    EndpointRestored,
    EndpointTripped,
    Event,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobReleased,
    JobRetried,
    LeaseAcquired,
    LeaseLost,
    LeasesRenewed,
    LeasesSwept,
    MessagePublished,
    MessageRefused,
    RaisedAfterCompletion,
    RingChanged,
    RowEnqueued,
    StaleWriteBlocked,
    StatementTurnedAway,
    Woken,
)
from ..verbs.history import BOUNDS_SECONDS as BOUNDS_SECONDS
from .family import Family as Family
from .family import Labels, Line
from .flow_metrics import FlowMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PAIRS_MAX = 200  # of (queue, kind): a producer can invent names, and each would stay in Prometheus for ever
OTHER = ("other", "other")
CLAIM_BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Reading(NamedTuple):
    """Numbers that are not counted but read when somebody asks."""

    schema: int
    slots: int
    slots_used: int
    buckets_owned: int
    wakeup: str
    database: Mapping[str, bool]  # which threads are connected to it


class Histogram(Family):
    """Durations, counted by range."""

    def __init__(self, name: str, says: str, *labels: str, bounds: Sequence[float] = BOUNDS_SECONDS) -> None:
        super().__init__(name, "histogram", says, *labels)
        self._bounds = bounds
        self._counts: dict[Labels, list[int]] = {}

    def observe(self, labels: Labels, seconds: float) -> None:
        """Count one duration."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, seconds)] += 1
        self.numbers[labels] = self.numbers.get(labels, 0.0) + seconds

    def lines(self) -> list[Line]:
        """Cumulative counts up to each bound, their sum and number."""
        found: list[Line] = []
        bounds = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            so_far = 0
            for bound, n in zip(bounds, counts, strict=True):
                so_far += n
                found.append(("_bucket", (*labels, bound), so_far))
            found += [("_sum", labels, self.numbers[labels]), ("_count", labels, so_far)]
        return found


class Metrics:
    """A subscriber that counts; `text` is what Prometheus reads."""

    def __init__(self, read: Callable[[], Reading], clock: Callable[[], float] = time.time) -> None:
        self._read, self._clock = read, clock
        self._lock = threading.Lock()
        self._pairs: set[Labels] = set()
        self.enqueued = Family(
            "enqueued_total",
            "counter",
            "Rows that the handlers of this process enqueued; a rollback takes back the row, not the count.",
            "queue",
            "kind",
        )
        self.settled = Family("settled_total", "counter", "Attempts ended.", "queue", "kind", "outcome")
        self.raised = Family(
            "raised_after_completion_total", "counter", "Errors after the row was completed.", "queue", "kind"
        )
        self.run = Histogram(
            "run_seconds", "From the start of a handler to the answer of the database.", "queue", "kind"
        )
        self.wait = Histogram("wait_seconds", "From when a row was due to its claim.", "queue", "kind")
        self.claim = Histogram(
            "claim_seconds",
            "From sending a claim to its answer, with the completions in the same round trip.",
            bounds=CLAIM_BOUNDS_SECONDS,
        )
        self.wakeups = Family(
            "wakeups_total", "counter", "How often this worker was woken to look for rows, by source.", "source"
        )
        self.acquired = Family("leases_acquired_total", "counter", "Rows claimed.")
        self.renewed = Family("leases_renewed_total", "counter", "Renewals of leases.")
        self.expired = Family("leases_expired_total", "counter", "Leases of any worker that this one swept.", "reason")
        self.lost = Family("leases_lost_total", "counter", "Leases of this worker that it could not keep.", "reason")
        self.blocked = Family("stale_writes_blocked_total", "counter", "Writes refused.", "verb", "reason")
        self.ring = Family("ring_changes_total", "counter", "Changes of the list of live workers.")
        self.errors = Family("db_errors_total", "counter", "Lost connections and refused statements.", "who", "class")
        self.chores = Family(
            "housekeeping_last_run_timestamp_seconds",
            "gauge",
            "When this worker last did each chore.",
            "chore",
        )
        self._of_shapes()
        self._hear = self._heard_by()

    def _of_shapes(self) -> None:
        """What outboxes and webhooks count."""
        self.published = Family("published_total", "counter", "Events handed to a broker.", "outbox", "outcome")
        self.away = Family("broker_away", "gauge", "1 while this worker cannot reach a broker.", "outbox")
        self.deliveries = Family(
            "deliveries_total", "counter", "Calls of webhooks by class of answer; none: nobody answered.", "answer"
        )
        self.called = Histogram("delivery_seconds", "From calling an endpoint of webhooks to its answer.")
        self.endpoints = Family(
            "endpoint_changes_total",
            "counter",
            "Circuits of endpoints opened or closed, endpoints disabled.",
            "change",
        )
        self.flows = FlowMetrics()

    def __call__(self, event: Event) -> None:
        """Count one event."""
        hear = self._hear.get(type(event))
        if hear is not None:
            with self._lock:
                hear(event)

    def text(self, only: Container[str] | None = None, but: Container[str] = ()) -> str:
        """Every metric in the text format of Prometheus; or only those of these names, or all but those."""
        known = [each for each in self.families() if (only is None or each.name in only) and each.name not in but]
        with self._lock:
            found = [(family, family.lines()) for family in known]
        return "".join(line for family, lines in found for line in written(family, lines))

    def families(self) -> list[Family]:
        """Every metric: those that are counted, and those that are read now."""
        known = [*vars(self).values(), *vars(self.flows).values()]
        return [*(each for each in known if isinstance(each, Family)), *_looked_up(self._read())]

    # -- what each event counts as

    def _heard_by(self) -> Mapping[type[Event], Callable[[Any], None]]:
        ends = (JobCompleted, JobRetried, JobReleased, JobFailed, JobDeadLettered, JobCancelled)
        return {
            **dict.fromkeys(ends, self._ended),
            RowEnqueued: self._enqueued,
            LeaseAcquired: self._acquired,
            ClaimAnswered: lambda event: self.claim.observe((), event.claim_seconds),
            Woken: lambda event: self.wakeups.add((event.source,)),
            LeasesRenewed: lambda event: self.renewed.add(n=event.rows),
            LeasesSwept: lambda event: self.expired.add((event.reason,), event.rows),
            LeaseLost: lambda event: self.lost.add((event.reason,)),
            StaleWriteBlocked: lambda event: self.blocked.add((event.verb, event.reason)),
            RaisedAfterCompletion: lambda event: self.raised.add(self._pair(event.queue, event.kind)),
            RingChanged: lambda _event: self.ring.add(),
            **dict.fromkeys((DatabaseUnreachable, StatementTurnedAway), self._failed),
            ChoreDone: lambda event: self.chores.set((event.chore,), self._clock()),
            MessagePublished: lambda event: self.published.add((event.outbox, event.outcome)),
            MessageRefused: lambda event: self.published.add((event.outbox, "refused")),
            DeliveryMade: self._delivered,
            EndpointTripped: lambda _event: self.endpoints.add(("tripped",)),
            EndpointRestored: lambda _event: self.endpoints.add(("restored",)),
            EndpointDisabled: lambda _event: self.endpoints.add(("disabled",)),
            BrokerAway: lambda event: self.away.set((event.outbox,), 1),
            **self.flows.heard_by(),
            BrokerBack: lambda event: self.away.set((event.outbox,), 0),
        }

    def _delivered(self, event: DeliveryMade) -> None:
        self.deliveries.add((f"{event.status // 100}xx" if event.status else "none",))
        self.called.observe((), event.run_seconds)

    def _enqueued(self, event: RowEnqueued) -> None:
        if event.outcome == "enqueued":
            self.enqueued.add(self._pair(event.queue, event.kind))

    def _failed(self, event: DatabaseUnreachable | StatementTurnedAway) -> None:
        self.errors.add((event.who, event.error_class))

    def _acquired(self, event: LeaseAcquired) -> None:
        self.acquired.add()
        self.wait.observe(self._pair(event.queue, event.kind), max(0.0, event.wait_seconds))

    def _ended(self, event: JobCompleted | JobRetried) -> None:
        pair = self._pair(event.queue, event.kind)
        self.settled.add((*pair, event.name.removeprefix("job_")))
        self.run.observe(pair, event.run_seconds)

    def _pair(self, queue: str, kind: str) -> Labels:
        pair = (queue, kind)
        if pair in self._pairs:
            return pair
        if len(self._pairs) >= PAIRS_MAX:
            return OTHER
        self._pairs.add(pair)
        return pair


def _looked_up(now: Reading) -> Iterable[Family]:
    """The numbers that were read, as families."""
    build = Family(
        "build_info", "gauge", "The version that runs, and the migration of its schema.", "version", "schema"
    )
    build.set((__version__, str(now.schema)), 1)
    wakeup = Family("wakeup_source", "gauge", "1 for the way this worker learns of new rows now.", "source")
    for source in ("notify", "poll"):
        wakeup.set((source,), int(now.wakeup == source))
    connected = Family("connected", "gauge", "1 while this thread of the worker has its connection.", "who")
    for who, there in now.database.items():
        connected.set((who,), int(there))
    slots = Family("slots", "gauge", "How many jobs this worker runs at once.")
    used = Family("slots_used", "gauge", "How many jobs it runs now.")
    owned = Family("buckets_owned", "gauge", "How many of the 1024 buckets this worker owns.")
    for family, number in ((slots, now.slots), (used, now.slots_used), (owned, now.buckets_owned)):
        family.set((), number)
    return build, wakeup, connected, slots, used, owned


def written(family: Family, lines: Iterable[Line]) -> Iterator[str]:
    """One family as text."""
    yield f"# HELP {family.name} {family.says}\n# TYPE {family.name} {family.kind}\n"
    for part, labels, number in lines:
        names = (*family.labels, "le") if part == "_bucket" else family.labels
        pairs = ",".join(f'{name}="{escaped(value)}"' for name, value in zip(names, labels, strict=True))
        yield f"{family.name}{part}{{{pairs}}} {number!r}\n" if pairs else f"{family.name}{part} {number!r}\n"


def escaped(value: str) -> str:
    """The value of a label, escaped: a queue can have any name."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
