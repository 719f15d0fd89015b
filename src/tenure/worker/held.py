"""The attempts of this worker: whose lease to keep and whose slot is taken, for all threads; and the watchdog."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Protocol

from ..events import Bus, LeaseLost
from .attempt import Attempt
from .shared import Shared

STALL_SECONDS = 0.5  # woken so much too late, this process has stood still


class HeldAttempts:
    """Two sets: attempts whose lease is to be kept, and attempts that take up a slot. Usually the same ones."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lock = threading.Lock()
        self._leased: set[Attempt] = set()
        self._busy: set[Attempt] = set()

    def take(self, attempts: Iterable[Attempt]) -> None:
        """These rows were claimed: each holds a lease and a slot."""
        with self._lock:
            self._leased.update(attempts)
            self._busy.update(attempts)

    def drop(self, attempts: Iterable[Attempt]) -> None:
        """These rows are settled, or their lease is lost: nothing to renew any more."""
        with self._lock:
            self._leased.difference_update(attempts)

    def free(self, attempts: Iterable[Attempt]) -> None:
        """These are over: their slots are free."""
        with self._lock:
            self._busy.difference_update(attempts)
            self._leased.difference_update(attempts)

    def leased(self) -> list[Attempt]:
        """Attempts whose lease is to be kept."""
        with self._lock:
            return list(self._leased)

    def busy(self) -> list[Attempt]:
        """Attempts that take up a slot."""
        with self._lock:
            return list(self._busy)

    @property
    def slots_used(self) -> int:
        """How many slots are taken."""
        return len(self._busy)

    def lose(self, attempt: Attempt, reason: str, worker_id: str) -> None:
        """Tell a handler that it cannot rely on its lease any more. Only the first reason counts."""
        with self._lock:
            if attempt not in self._leased:
                return
            self._leased.discard(attempt)
        job = attempt.job
        job.lost = reason
        self._bus.emit(LeaseLost(worker_id, job.id, job.token, reason))
        attempt.ask_to_stop()


class Presence(Protocol):
    """What the watchdog and the claimer ask the lease keeper."""

    @property
    def trusted_until(self) -> float:
        """Until when nobody can have ended our leases for want of presence."""

    @property
    def trusted(self) -> bool:
        """Can our leases be relied on now?"""

    @property
    def ears(self) -> str:
        """Under which id and session this worker can be woken; empty while it cannot."""


class Watchdog(threading.Thread):
    """Stops handlers at the end of their lease by this machine's own clock, whether or not the database answers."""

    def __init__(self, shared: Shared, held: HeldAttempts, presence: Presence) -> None:
        super().__init__(name="tenure-watchdog", daemon=True)
        self._shared, self._held, self._presence = shared, held, presence
        self._ended = threading.Event()

    def run(self) -> None:
        """The thread itself. No lease would end here without it, so a worker must not go on without it."""
        try:
            self._watch()
        except BaseException as error:
            self._shared.failed(error)

    def _watch(self) -> None:
        """Look whenever the nearest deadline is reached; a fifth of a second is the longest sleep."""
        due, stalled = time.monotonic(), False
        while not self._ended.is_set():
            at = time.monotonic()
            # A process that stood still could not ask for its presence either: let it ask first, once.
            stalled = at - due > STALL_SECONDS and not stalled
            nearest = self.look(at, presence=not stalled)
            due = at + (STALL_SECONDS if stalled else max(0.0, min(0.2, nearest - at)))
            self._ended.wait(due - time.monotonic())

    def look(self, at: float, *, presence: bool = True) -> float:
        """Lose what is over; when to look again."""
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
        """Look no more."""
        self._ended.set()
