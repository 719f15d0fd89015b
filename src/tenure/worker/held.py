"""The attempts of this worker: which leases to keep and which slots are taken, for all threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Sequence

from ..events import Bus, LeaseLost
from .ahead import Ahead
from .attempt import Attempt, State, given_back
from .config import SLOTS_MAX
from .slots import Slots

HUNGRY_SECONDS = 3.0  # a claimer that has not said it again for so long waits for its database: others need not wait


class HeldAttempts:
    """Which leases are kept, and which attempt has which slot.

    Not every row that is leased has a slot: rows of a run wait for their turn, rows ahead for a slot, and rows that
    have ended may have passed their slot on before they are settled.
    """

    def __init__(self, bus: Bus, slots: Slots | int = SLOTS_MAX) -> None:
        self._bus = bus
        self._slots = slots if isinstance(slots, Slots) else Slots(slots)
        self._lock = self._slots.lock
        self._leased: set[Attempt] = set()
        self._busy: set[Attempt] = set()
        self._returned: set[Attempt] = set()  # of the busy: their slots can be passed on
        self._passed: set[Attempt] = set()  # ended and not settled, and their slot is another's
        self.ahead = Ahead()
        self.take_back: Callable[[], list[Attempt]] = list  # rows ahead that wait elsewhere
        self.nudge: Callable[[], None] = lambda: None  # somebody else has left a slot
        self._hungry_until = 0.0
        self._slots.add(self)

    def take(self, attempts: Iterable[Attempt]) -> None:
        """These rows were claimed: each holds a lease, and a slot if one is free and it need not wait for its turn."""
        with self._lock:
            self._slots.took(self)
            self._leased.update(attempts)
            free, left = self._slots.room(self)
            in_turn = [attempt for attempt in attempts if attempt.state is not State.WAITING]
            self._give_slots(in_turn[: max(0, free)], left)
            for attempt in in_turn[max(0, free) :]:
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

    def next_after(self, *attempts: Attempt) -> list[Attempt]:
        """Their handlers have returned: rows that waited ahead and have a slot now, which may be one of theirs."""
        with self._lock:
            self._returned.update(self._busy.intersection(attempts))
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
        self._slots.freed(self)

    def give_up_ahead(self) -> list[Attempt]:
        """The rows ahead, which wait no more: they go back."""
        elsewhere = self.take_back()
        with self._lock:
            self.ahead.lent_back(elsewhere)
            return self.ahead.empty() + elsewhere

    def give_back_ahead(self) -> list[Attempt]:
        """The rows ahead, and those behind them in their runs, given back: to be settled."""
        return [each for first in self.give_up_ahead() for each in given_back(first)]

    def give_back_overdue(self, at: float) -> list[Attempt]:
        """The same if one waits for too long: a handler has turned slow, and another worker may have free slots."""
        if self.ahead.overdue_at() > at:
            return []
        self.ahead.turned_slow()
        return self.give_back_ahead()

    def lend_ahead(self, n: int, kinds: Container[str]) -> list[Attempt]:
        """Rows ahead of these kinds that wait in a child process from now on, at most so many."""
        with self._lock:
            return self.ahead.lend(n, kinds) if self.slots_running <= self._slots.share(self) else []

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

    def begin_ahead(self) -> list[Attempt]:
        """Rows ahead that have a slot now: one that others have left."""
        with self._lock:
            return self._begun() if len(self.ahead) else []

    def _begun(self) -> list[Attempt]:
        """Rows ahead that have a slot now."""
        if not len(self.ahead):
            return []
        free, left = self._slots.room(self)
        begun = self.ahead.next(free)
        self._give_slots(begun, left)
        return begun

    def _give_slots(self, attempts: Collection[Attempt], left: int) -> None:
        """They may be the slots of handlers that have returned, if the others have left no more than so many."""
        n = len(attempts)
        for _ in range(min(n, len(self._busy) + n - left)):
            passed = self._returned.pop()
            self._busy.discard(passed)
            self._passed.add(passed)
        self._busy.update(attempts)

    def vacate(self, attempts: Iterable[Attempt]) -> None:
        """The handlers of these have returned and their rows are being settled: others may use their slots."""
        with self._lock:
            for held in (self._busy, self._returned, self._passed):
                held.difference_update(attempts)
        self._slots.freed(self)

    def end(self, attempts: Iterable[Attempt]) -> None:
        """These are settled: renew them no more; the slots of handlers that have returned are free."""
        with self._lock:
            self._leased.difference_update(attempts)
            over = [attempt for attempt in attempts if attempt.state is not State.ABANDONED]
            for held in (self._busy, self._returned, self._passed):
                held.difference_update(over)
        self._slots.freed(self)

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
    def slots_offered(self) -> int:
        """For how many more rows there is a slot."""
        return self._slots.offered(self)

    @property
    def shares_slots(self) -> bool:
        """True while another inbox wants slots too."""
        return self._slots.share(self) < self._slots.most

    @property
    def room_ahead(self) -> int:
        """How many more rows to claim ahead."""
        return self.ahead.room(beside_others=self.shares_slots)

    @property
    def slots_at_most(self) -> int:
        """How many slots there are."""
        return self._slots.most

    @property
    def hungry(self) -> bool:
        """True while there may be rows for more slots; said by the claimer, again and again."""
        return self._hungry_until > 0.0 and time.monotonic() < self._hungry_until

    def say_hungry(self, hungry: bool) -> None:
        """There may be rows for more slots, or there are none; then others may have what is free."""
        sated, self._hungry_until = self.hungry and not hungry, time.monotonic() + HUNGRY_SECONDS if hungry else 0.0
        if sated:
            self._slots.freed(self)

    @property
    def in_flight(self) -> int:
        """How many have a slot, or have passed it on and are not settled: they keep new rows from being claimed."""
        return len(self._busy) + len(self._passed)

    @property
    def slots_used(self) -> int:
        """How many slots are taken."""
        return len(self._busy)

    @property
    def slots_running(self) -> int:
        """How many of them have a handler that has not returned."""
        return len(self._busy) - len(self._returned)

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
