"""The attempts of this worker: which leases to keep and which slots are taken, for all threads; and the watchdog."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Protocol

from ..events import Bus, LeaseLost
from .ahead import Ahead
from .attempt import Attempt, State, given_back
from .shared import Shared

STALL_SECONDS = 0.5  # woken later than this, the process was stopped


class HeldAttempts:
    """Which leases are kept, and which attempt has which slot.

    Not every row that is leased has a slot: rows of a run wait for their turn, rows ahead for a slot, and rows that
    have ended may have passed their slot on before they are settled.
    """

    def __init__(self, bus: Bus, slots: float = float("inf")) -> None:
        self._bus, self._slots = bus, slots
        self._lock = threading.Lock()
        self._leased: set[Attempt] = set()
        self._busy: set[Attempt] = set()
        self._returned: set[Attempt] = set()  # of the busy: their slots can be passed on
        self._passed: set[Attempt] = set()  # ended and not settled, and their slot is another's
        self.ahead = Ahead()
        self.take_back: Callable[[], list[Attempt]] = list  # rows ahead that wait elsewhere

    def take(self, attempts: Iterable[Attempt]) -> None:
        """These rows were claimed: each holds a lease, and a slot if one is free and it need not wait for its turn."""
        with self._lock:
            self._leased.update(attempts)
            for attempt in attempts:
                if attempt.state is State.WAITING:
                    continue
                if self._slot_is_free:
                    self._give_slot(attempt)
                else:
                    attempt.wait_ahead()

    def queue(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Those without a slot wait ahead; returns those that have one by now."""
        ahead = [attempt for attempt in attempts if attempt.state is State.AHEAD]
        at_once = [attempt for attempt in attempts if attempt.state is State.RUNNING]
        if not ahead:
            return at_once
        with self._lock:
            self.ahead.add(ahead)
            return at_once + self._begun()

    def pass_on(self, before: Attempt, following: Attempt) -> None:
        """The next row of a run has its turn, in the same slot."""
        with self._lock:
            self._busy.discard(before)
            self._busy.add(following)

    def next_after(self, attempt: Attempt) -> list[Attempt]:
        """Its handler has returned: rows that waited ahead and have a slot now, which may be its own."""
        with self._lock:
            if attempt in self._busy:
                self._returned.add(attempt)
            return self._begun()

    def drop(self, attempts: Iterable[Attempt]) -> None:
        """These rows are settled, or their lease is lost: renew them no more."""
        with self._lock:
            self._leased.difference_update(attempts)

    def free(self, attempts: Iterable[Attempt]) -> None:
        """These attempts are over: their slots are free."""
        with self._lock:
            for held in (self._busy, self._leased, self._returned, self._passed):
                held.difference_update(attempts)

    def give_up_ahead(self) -> list[Attempt]:
        """The rows ahead, which wait no more: they go back."""
        elsewhere = self.take_back()
        with self._lock:
            self.ahead.lent_back(elsewhere)
            return self.ahead.empty() + elsewhere

    def give_back_ahead(self) -> list[Attempt]:
        """The rows ahead, and those behind them in their runs, given back: to be settled."""
        return [each for first in self.give_up_ahead() for each in given_back(first)]

    def lend_ahead(self, n: int, kinds: Container[str]) -> list[Attempt]:
        """Rows ahead of these kinds that wait in a child process from now on, at most so many."""
        with self._lock:
            return self.ahead.lend(n, kinds)

    def return_ahead(self, attempts: Sequence[Attempt]) -> None:
        """Their child has died: they wait here again."""
        with self._lock:
            self.ahead.lent_back(attempts, wait=True)

    def pass_ahead(self, before: Attempt, following: Attempt) -> None:
        """A child goes on with a row that waited in it, in the same slot."""
        with self._lock:
            self.ahead.lent_back([following], begun=True)
            following.take_turn()
            if before in self._busy:
                self._busy.discard(before)
                self._passed.add(before)
            self._busy.add(following)

    def _begun(self) -> list[Attempt]:
        """Rows ahead that have a slot now."""
        begun = []
        while len(self.ahead) and self._slot_is_free and (attempt := self.ahead.next()) is not None:
            self._give_slot(attempt)
            begun.append(attempt)
        return begun

    @property
    def _slot_is_free(self) -> bool:
        """True if there is a slot for one more; it may be that of a handler that has returned."""
        return len(self._busy) < self._slots or bool(self._returned)

    def _give_slot(self, attempt: Attempt) -> None:
        if len(self._busy) >= self._slots:
            passed = self._returned.pop()
            self._busy.discard(passed)
            self._passed.add(passed)
        self._busy.add(attempt)

    def vacate(self, attempts: Iterable[Attempt]) -> None:
        """The handlers of these have returned and their rows are being settled: others may use their slots."""
        with self._lock:
            for held in (self._busy, self._returned, self._passed):
                held.difference_update(attempts)

    def end(self, attempts: Iterable[Attempt]) -> None:
        """These are settled: renew them no more; the slots of handlers that have returned are free."""
        with self._lock:
            self._leased.difference_update(attempts)
            over = [attempt for attempt in attempts if attempt.state is not State.ABANDONED]
            for held in (self._busy, self._returned, self._passed):
                held.difference_update(over)

    def leased(self) -> list[Attempt]:
        """Attempts whose lease is kept."""
        with self._lock:
            return list(self._leased)

    def all(self) -> list[Attempt]:
        """Attempts that use a slot, or whose lease is kept."""
        with self._lock:
            return list(self._busy | self._leased)

    def counts(self, attempt: Attempt) -> bool:
        """True if this one counts among those in flight; of a run, only one does."""
        return attempt in self._busy or attempt in self._passed

    @property
    def in_flight(self) -> int:
        """How many have a slot, or have passed it on and are not settled: they keep new rows from being claimed."""
        return len(self._busy) + len(self._passed)

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
