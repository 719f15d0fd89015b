"""Metrics of the whole fleet, as text for Prometheus: read from the database by `tenure serve`."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from ..model.rows import Depth
from ..postgres import migrate
from ..postgres.runner import run
from ..verbs.endpoints import EndpointStates, endpoint_states
from ..verbs.flows import FlowCounts, flow_counts
from ..verbs.journal import journal_facts
from ..verbs.projections import ShardLag, projections
from ..verbs.questions import depth, oldest_runnable, workers
from .metrics import Family, written

if TYPE_CHECKING:
    from psycopg import Connection

KEPT_SECONDS = 10.0  # an answer is used again for at least this long
KEPT_SHARE = 50  # and, if counting is slow, for this many times as long as it took
QUEUES_MAX = 200  # a producer can invent names, and each would stay in Prometheus for ever
OTHER = "other"
ROWS = ("pending", "scheduled", "processing", "failed", "dead_letter", "cancelled")
WORKERS = ("alive", "draining", "dead")
WORKERS_MAX = 10_000


class Fleet(NamedTuple):
    """The numbers of the fleet."""

    depth: list[Depth]
    lag_seconds: dict[str, float]
    workers: Mapping[str, int]
    schema: int
    shards: Sequence[ShardLag] = ()
    mark_seconds: float = 0.0
    endpoints: EndpointStates = EndpointStates(0, 0, 0, 0, 0)
    flows: FlowCounts = FlowCounts([], 0.0, 0, 0.0)


class FleetMetrics:
    """Counts when somebody asks, and not again too soon."""

    def __init__(self, schema: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._schema, self._clock = schema, clock
        self._lock = threading.Lock()
        self._queues: set[str] = set()
        self._text, self._until = "", float("-inf")

    @property
    def kept(self) -> str:
        """The last answer while it may be used again, else empty; needs no connection."""
        return self._text if self._clock() < self._until else ""

    def text(self, conn: Connection[Any]) -> str:
        """Everything in the text format of Prometheus."""
        with self._lock:
            began = self._clock()
            if began >= self._until:
                self._text = fleet_text(self._asked(conn), self._queues)
                took = self._clock() - began
                self._until = began + took + max(KEPT_SECONDS, KEPT_SHARE * took)
            return self._text

    def _asked(self, conn: Connection[Any]) -> Fleet:
        members = run(conn, workers(WORKERS_MAX), self._schema)
        facts = run(conn, journal_facts(), self._schema)
        shards = run(conn, projections(), self._schema)
        return Fleet(
            depth=run(conn, depth(), self._schema),
            lag_seconds=run(conn, oldest_runnable(), self._schema),
            workers=Counter(member.status for member in members),
            schema=migrate.newest(),
            shards=shards,
            mark_seconds=facts.held_seconds or 0.0,
            endpoints=run(conn, endpoint_states(), self._schema),
            flows=run(conn, flow_counts(), self._schema),
        )


def fleet_text(fleet: Fleet, known: set[str]) -> str:
    """As text for Prometheus."""
    return "".join(line for family in fleet_families(fleet, known) for line in written(family, family.lines()))


def fleet_families(fleet: Fleet, known: set[str]) -> tuple[Family, ...]:
    """Every metric. A queue once seen is always listed, with 0 if it is empty; new queues are added to `known`."""
    return (
        _rows(fleet, known),
        _lag(fleet, known),
        _workers(fleet),
        *_journal(fleet),
        _endpoints(fleet),
        *_flows(fleet),
        _build(fleet),
    )


def _rows(fleet: Fleet, known: set[str]) -> Family:
    says = "Rows by queue and status, without completed rows: exact, counted every 10 s at most."
    family = Family("rows", "gauge", says, "queue", "status")
    found = [(_named(each.queue, known), each.status, each.rows) for each in fleet.depth]
    for queue in sorted(known):
        for status in ROWS:
            family.set((queue, status), 0)
    for queue, status, n in found:
        family.add((queue, status), n)
    return family


def _lag(fleet: Fleet, known: set[str]) -> Family:
    says = "How long the oldest runnable row has waited for a worker; 0 if there is none."
    family = Family("oldest_runnable_seconds", "gauge", says, "queue")
    found = [(_named(queue, known), seconds) for queue, seconds in fleet.lag_seconds.items()]
    for queue in sorted(known):
        family.set((queue,), max((seconds for name, seconds in found if name == queue), default=0))
    return family


def _workers(fleet: Fleet) -> Family:
    says = "Workers of the registry by status; a dead worker is forgotten after a day."
    family = Family("workers", "gauge", says, "status")
    for status in WORKERS:
        family.set((status,), fleet.workers.get(status, 0))
    return family


def _journal(fleet: Fleet) -> tuple[Family, ...]:
    events = Family(
        "projection_lag_events",
        "gauge",
        "Positions of the journal that the shard furthest behind has to read.",
        "projection",
    )
    seconds = Family(
        "projection_lag_seconds", "gauge", "The age of the first event that a projection has not read.", "projection"
    )
    stopped = Family(
        "projection_stopped_shards", "gauge", "Shards that wait at an event they cannot apply.", "projection"
    )
    for name in sorted({each.projection for each in fleet.shards})[:QUEUES_MAX]:
        mine = [each for each in fleet.shards if each.projection == name]
        events.set((name,), max((each.behind for each in mine if each.shard >= 0), default=0))
        seconds.set((name,), max((each.lag_seconds for each in mine if each.shard >= 0), default=0.0))
        stopped.set((name,), sum(each.state == "stopped" for each in mine))
    mark = Family(
        "journal_mark_seconds", "gauge", "How long the oldest open transaction that appended holds readers back."
    )
    mark.set((), fleet.mark_seconds)
    return events, seconds, stopped, mark


def _endpoints(fleet: Fleet) -> Family:
    says = "Endpoints of webhooks by state; of those that are active, tripped ones have an open circuit."
    family = Family("endpoints", "gauge", says, "state")
    for state in ("active", "tripped", "paused", "disabled"):
        family.set((state,), getattr(fleet.endpoints, state))
    return family


def _flows(fleet: Fleet) -> tuple[Family, ...]:
    says = "Live workflows: running, waiting, pending; differs: its code was changed; no_version: no worker has it."
    flows = Family("flows", "gauge", says, "workflow", "version", "state")
    for each in fleet.flows.counts[:QUEUES_MAX]:
        flows.set((each.workflow, str(each.version), each.state), each.flows)
    signal = Family(
        "oldest_signal_seconds", "gauge", "The age of the oldest signal that its workflow has not asked for."
    )
    signal.set((), fleet.flows.oldest_signal_seconds)
    batches = Family("batches_open", "gauge", "Batches of which rows have not ended.")
    batches.set((), fleet.flows.open_batches)
    batch = Family("oldest_batch_seconds", "gauge", "The age of the oldest batch that is open.")
    batch.set((), fleet.flows.oldest_batch_seconds)
    return flows, signal, batches, batch


def _build(fleet: Fleet) -> Family:
    says = "The version that runs, and the migration of its schema."
    family = Family("build_info", "gauge", says, "version", "schema")
    family.set((__version__, str(fleet.schema)), 1)
    return family


def _named(queue: str, known: set[str]) -> str:
    """The queue, or one common name if there are too many."""
    if queue not in known and len(known) >= QUEUES_MAX:
        queue = OTHER
    known.add(queue)
    return queue
