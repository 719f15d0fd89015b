"""The jobs a worker holds, shared by the threads that claim, renew, watch and settle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from ..app.job import Job
from ..events import Bus, LeaseLost
from .db_thread import Crew

STALL_SECONDS = 0.5  # woken so much too late, this process has stood still


class Holds:
    """Two sets: jobs whose lease is to be kept, and jobs whose handler takes up a slot. Usually the same ones."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lock = threading.Lock()
        self._held: set[Job] = set()
        self._busy: set[Job] = set()

    def take(self, jobs: Iterable[Job]) -> None:
        """These were claimed: they hold a lease and a slot each."""
        with self._lock:
            self._held.update(jobs)
            self._busy.update(jobs)

    def drop(self, jobs: Iterable[Job]) -> None:
        """The database has answered for these, or their lease is lost: nothing to renew any more."""
        with self._lock:
            self._held.difference_update(jobs)

    def free(self, jobs: Iterable[Job]) -> None:
        """The handlers of these have ended and the database has answered: their slots are free."""
        with self._lock:
            self._busy.difference_update(jobs)
            self._held.difference_update(jobs)

    def held(self) -> list[Job]:
        """Jobs whose lease is to be kept."""
        with self._lock:
            return list(self._held)

    def busy(self) -> list[Job]:
        """Jobs that take up a slot."""
        with self._lock:
            return list(self._busy)

    @property
    def slots_used(self) -> int:
        """How many slots are taken."""
        return len(self._busy)

    def lose(self, job: Job, reason: str, worker: str) -> None:
        """Tell a handler that its lease is not to be relied on any more. Only the first reason counts."""
        with self._lock:
            if job not in self._held:
                return
            self._held.discard(job)
        job.lost = reason
        self._bus.emit(LeaseLost(worker, job.id, job.token, reason))
        if job.stop is not None:
            job.stop()


class Watchdog(threading.Thread):
    """Stops handlers at the end of their lease by this machine's own clock, whether or not the database answers."""

    def __init__(self, crew: Crew, holds: Holds, trusted_until: Callable[[], float]) -> None:
        super().__init__(name="tenure-watchdog", daemon=True)
        self._crew, self._holds, self._trusted_until = crew, holds, trusted_until
        self._ended = threading.Event()

    def run(self) -> None:
        """The thread itself: without it no lease would end here, so a worker must not go on without it."""
        try:
            self._watch()
        except BaseException as error:
            self._crew.failed(error)

    def _watch(self) -> None:
        """Look whenever the nearest deadline is reached; a fifth of a second is the longest sleep."""
        due, stalled = time.monotonic(), False
        while not self._ended.is_set():
            at = time.monotonic()
            # A process that stood still could not ask for its presence either: it asks first, once.
            stalled = at - due > STALL_SECONDS and not stalled
            nearest = self.look(at, presence=not stalled)
            due = at + (STALL_SECONDS if stalled else max(0.0, min(0.2, nearest - at)))
            self._ended.wait(due - time.monotonic())

    def look(self, at: float, *, presence: bool = True) -> float:
        """Lose what is over; when to look again."""
        held = self._holds.held()
        trusted = self._trusted_until()
        for job in held:
            if job.deadline <= at:
                self._holds.lose(job, "lease_expired", self._crew.worker)
            elif trusted <= at and presence:
                self._holds.lose(job, "presence_lost", self._crew.worker)
        left = [job.deadline for job in held if not job.lost]
        return min(trusted, *left) if left else float("inf")

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
