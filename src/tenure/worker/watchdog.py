"""The watchdog: ends leases by this machine's clock, also while the database does not answer."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from .held import HeldAttempts
from .shared import Shared

STALL_SECONDS = 0.5  # woken later than this, the process was stopped


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
