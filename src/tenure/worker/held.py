"""The attempts of this worker: which leases to keep and which slots are taken, for all threads; and the watchdog."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Protocol

from ..events import Bus, LeaseLost
from .attempt import Attempt, State
from .shared import Shared

STALL_SECONDS = 0.5  # woken later than this, the process was stopped


class HeldAttempts:
    """Two sets: attempts whose lease is kept, and attempts that use a slot. They differ by the waiting rows of runs."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lock = threading.Lock()
        self._leased: set[Attempt] = set()
        self._busy: set[Attempt] = set()

    def take(self, attempts: Iterable[Attempt]) -> None:
        """These rows were claimed: each holds a lease, and each that starts at once a slot."""
        with self._lock:
            self._leased.update(attempts)
            self._busy.update(attempt for attempt in attempts if attempt.state is not State.WAITING)

    def pass_on(self, before: Attempt, following: Attempt) -> None:
        """The next row of a run has its turn, in the same slot."""
        with self._lock:
            self._busy.discard(before)
            self._busy.add(following)

    def drop(self, attempts: Iterable[Attempt]) -> None:
        """These rows are settled, or their lease is lost: renew them no more."""
        with self._lock:
            self._leased.difference_update(attempts)

    def free(self, attempts: Iterable[Attempt]) -> None:
        """These attempts are over: their slots are free."""
        with self._lock:
            self._busy.difference_update(attempts)
            self._leased.difference_update(attempts)

    def vacate(self, attempts: Iterable[Attempt]) -> None:
        """The handlers of these have returned and their rows are being settled: others may use their slots."""
        with self._lock:
            self._busy.difference_update(attempts)

    def end(self, attempts: Iterable[Attempt]) -> None:
        """These are settled: renew them no more; the slots of handlers that have returned are free."""
        with self._lock:
            self._leased.difference_update(attempts)
            self._busy.difference_update([attempt for attempt in attempts if attempt.state is not State.ABANDONED])

    def leased(self) -> list[Attempt]:
        """Attempts whose lease is kept."""
        with self._lock:
            return list(self._leased)

    def all(self) -> list[Attempt]:
        """Attempts that use a slot, or whose lease is kept."""
        with self._lock:
            return list(self._busy | self._leased)

    def uses_slot(self, attempt: Attempt) -> bool:
        """True if this one has a slot, and no other one of its run."""
        return attempt in self._busy

    @property
    def slots_used(self) -> int:
        """How many slots are taken."""
        return len(self._busy)

    @property
    def slots_stuck(self) -> int:
        """How many slots run a handler whose row is settled already: it did not stop when it should have."""
        with self._lock:
            return len(self._busy - self._leased)

    def lose(self, attempt: Attempt, reason: str, worker_id: str) -> None:
        """Tell a handler that its lease is lost. Only the first reason counts."""
        with self._lock:
            if attempt not in self._leased:
                return
            self._leased.discard(attempt)
        job = attempt.job
        attempt.lose(reason)
        self._bus.emit(LeaseLost(worker_id, job.id, job.token, reason))
        attempt.ask_to_stop()


class Presence(Protocol):
    """What the watchdog and the claimer read from the lease keeper."""

    @property
    def trusted_until(self) -> float:
        """Until then nobody can have ended our leases because we seemed gone."""

    @property
    def trusted(self) -> bool:
        """True while our leases can be relied on."""

    @property
    def ears(self) -> str:
        """The id and session under which this worker can be woken; empty while it cannot."""


class Watchdog(threading.Thread):
    """Stops handlers at the end of their lease by this machine's clock, even if the database does not answer."""

    def __init__(self, shared: Shared, held: HeldAttempts, presence: Presence) -> None:
        super().__init__(name="tenure-watchdog", daemon=True)
        self._shared, self._held, self._presence = shared, held, presence
        self._ended = threading.Event()

    def run(self) -> None:
        """The thread itself. Only it ends leases by the clock, so the worker stops if it fails."""
        try:
            self._watch()
        except BaseException as error:
            self._shared.failed(error)

    def _watch(self) -> None:
        """Check at the next deadline, and at least five times a second."""
        due, stalled = time.monotonic(), False
        while not self._ended.is_set():
            at = time.monotonic()
            # A process that was stopped could not show its presence either: let it try first, once.
            stalled = at - due > STALL_SECONDS and not stalled
            nearest = self.look(at, presence=not stalled)
            due = at + (STALL_SECONDS if stalled else max(0.0, min(0.2, nearest - at)))
            self._ended.wait(due - time.monotonic())

    def look(self, at: float, *, presence: bool = True) -> float:
        """Tell handlers whose lease is over; returns when to look again."""
        leased = self._held.leased()
        trusted_until = self._presence.trusted_until
        for attempt in leased:
            if attempt.job.deadline <= at:
                self._held.lose(attempt, "lease_expired", self._shared.worker_id)
            elif trusted_until <= at and presence:
                self._held.lose(attempt, "presence_lost", self._shared.worker_id)
        left = [attempt.job.deadline for attempt in leased if not attempt.job.lost]
        return min(trusted_until, *left) if left else float("inf")

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()
