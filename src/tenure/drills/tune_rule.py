"""The bottleneck of a run: a rule over its measurements, and the next setting to change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Bottleneck = Literal[
    "handlers",
    "claim round trips",
    "poll interval",
    "server CPU",
    "WAL",
    "locks",
    "producer",
    "no backlog",
    "worker CPU",
]
ROWS_A_SLOT_MIN = 5  # with fewer rows, a run ends before anything is full
LEFT_SHARE = 0.1  # of the rows may be unfinished when the time is over
POLL_SHARE = 0.25  # a row waits about half a poll interval
SLOTS_ENOUGH = 50  # with more, a larger claim saves little
GREW = 3.0  # times an idle round trip
GREW_SECONDS_MIN = 0.001  # less is noise
WAITED = 0.3  # of the time, for locks or the WAL


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: what was set, and what was measured on the database's clock and in the worker processes."""

    workers: int
    slots: int
    handler_seconds: float
    poll_seconds: float
    listen: bool
    arrivals_per_second: float  # 0: all at once
    arrived: int
    rows: int  # completed
    seconds: float  # from the first claim to the last completion
    first_claim_seconds: float  # from the first row's arrival to that first claim
    lag_p50_seconds: float
    lag_p95_seconds: float
    slots_used: float  # share of all slots' time, from claim to completion
    claims: int
    claim_seconds: float  # all workers' time between a claim and its answer
    cpu_share: float  # of one core, by the busiest worker process; or of all cores, by all of them
    database_share: float  # of the time, the workers' sessions were at work on the server
    lock_share: float  # and waited there for locks
    wal_share: float  # or for the WAL
    idle_trip_seconds: float  # of a ping, before the run
    trip_seconds: float  # of a ping, during the run

    @property
    def rows_per_second(self) -> float:
        """While there was work."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def ceiling_per_second(self) -> float:
        """The rate if only handlers took time."""
        return self.workers * self.slots / self.handler_seconds if self.handler_seconds else float("inf")

    @property
    def handler_share(self) -> float:
        """The share of the ceiling that was reached."""
        return self.rows_per_second / self.ceiling_per_second

    @property
    def trip_share(self) -> float:
        """The share of their time that the workers waited for claims to be answered."""
        return min(1.0, self.claim_seconds / (self.workers * self.seconds)) if self.seconds > 0 else 0.0

    @property
    def rows_per_claim(self) -> float:
        """On average, with empty claims counted."""
        return self.rows / self.claims if self.claims else 0.0

    @property
    def kept_up(self) -> bool:
        """Rows came one by one, and only the latest of them are left."""
        soon = self.handler_seconds + (0.0 if self.listen else self.poll_seconds)
        left = self.arrived - self.rows
        return self.arrivals_per_second > 0 and left <= LEFT_SHARE * self.arrived + self.arrivals_per_second * soon

    @property
    def drained(self) -> bool:
        """Nothing was left."""
        return self.rows >= self.arrived


def bottleneck(m: Measured) -> Bottleneck:
    """First what was missing, then what had the largest share."""
    if _waits_for_polls(m):
        return "poll interval"
    if m.kept_up:
        return "producer"
    if m.drained and m.rows < ROWS_A_SLOT_MIN * m.workers * m.slots:
        return "no backlog"
    grew = m.trip_seconds >= max(GREW_SECONDS_MIN, GREW * m.idle_trip_seconds)
    shares: dict[Bottleneck, float] = {
        "handlers": m.handler_share,
        "worker CPU": m.cpu_share,
        _of_server(m) if grew else "claim round trips": m.trip_share,
    }
    return max(shares, key=lambda name: shares[name])


def _of_server(m: Measured) -> Bottleneck:
    """What the server was waiting for."""
    if m.lock_share >= WAITED:
        return "locks"
    return "WAL" if m.wal_share >= WAITED else "server CPU"


def _waits_for_polls(m: Measured) -> bool:
    """NOTIFY is off, and rows wait for a poll rather than for a slot."""
    if m.listen:
        return False
    if not m.rows:
        return True
    if m.arrivals_per_second:
        return m.kept_up and m.lag_p50_seconds >= POLL_SHARE * m.poll_seconds
    return m.drained and m.first_claim_seconds > m.seconds


def explanation(m: Measured) -> str:
    """Why this is the bottleneck, in the numbers of the run, and what to change next."""
    match bottleneck(m):
        case "handlers":
            return (
                f"Handlers: {m.rows_per_second:.0f} rows/s are {m.handler_share:.0%} of what {m.workers} x {m.slots}"
                f" slots can do at {m.handler_seconds:g} s a handler; raise slots if handlers wait, workers if they"
                " compute."
            )
        case "worker CPU":
            return (
                f"Worker CPU: the worker processes used {m.cpu_share:.0%} of what the processor gives them; add workers"
                " on other cores or machines, more slots change nothing."
            )
        case "server CPU" | "WAL" | "locks" as name:
            return _of_the_server(name, m)
        case "claim round trips":
            more = "slots up, so that a trip brings more" if m.slots < SLOTS_ENOUGH else "workers up: claims are large"
            return (
                f"Claim round trips: workers waited for claims {m.trip_share:.0%} of the time, and a claim brought"
                f" {m.rows_per_claim:.1f} rows to slots={m.slots}; turn {more}."
            )
        case "poll interval":
            return _of_polls(m)
        case "producer":
            return (
                f"Producer: {m.rows} of {m.arrived} rows that came were done, 95 % were claimed within"
                f" {m.lag_p95_seconds:.2f} s, and slots were used {m.slots_used:.0%}; nothing is full before more rows"
                " come."
            )
        case "no backlog":
            return (
                f"No backlog: {m.rows} rows for {m.workers} x {m.slots} slots were done in {m.seconds:.2f} s, before"
                " anything could fill up; turn the backlog up."
            )


def _of_the_server(name: str, m: Measured) -> str:
    slow = (
        f"a round trip took {1000 * m.trip_seconds:.1f} ms under this load, {1000 * m.idle_trip_seconds:.1f} ms without"
        f" it, and workers waited for claims {m.trip_share:.0%} of the time"
    )
    larger = "fewer and larger claims (slots up, workers down)"
    if name == "locks":
        return f"Locks: {slow}; sessions waited for locks {m.lock_share:.0%} of it: `tenure doctor` names transactions."
    if name == "WAL":
        return f"WAL: {slow}; sessions waited for the WAL {m.wal_share:.0%} of it: give it a faster disk, or {larger}."
    return f"Server CPU: {slow}; give it {larger}, or a larger server."


def _of_polls(m: Measured) -> str:
    remedy = f"turn listen on, or poll_seconds={m.poll_seconds:g} down."
    if not m.rows:
        return f"Poll interval: no worker polled before the time was over; {remedy}"
    if not m.arrivals_per_second:
        return (
            f"Poll interval: the rows waited {m.first_claim_seconds:.2f} s for the first poll, and were done"
            f" {m.seconds:.2f} s after it; {remedy}"
        )
    return (
        f"Poll interval: half of the rows waited {m.lag_p50_seconds:.2f} s or more for a poll that comes every"
        f" {m.poll_seconds:g} s, while slots were used {m.slots_used:.0%}; {remedy}"
    )
