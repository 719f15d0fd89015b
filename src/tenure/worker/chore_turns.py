"""When a worker asks for chores: with each poll of its claimer, in the same transaction, else on its own.

          no poll for so long: the housekeeper asks
   ┌────────────────────────────────────────────────┐
   │                                                ▼
waiting ──────────────────────────────────────▶ at work ──▶ waiting
          the claimer polls, and asks too
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import TypeVar

from ..model.jitter import jittered
from ..postgres.connection import QueueConnection
from ..postgres.runner import run, run_both
from ..verbs.fleet import Turn, take_turn
from ..verbs.statement import Statement
from .shared import Shared

T = TypeVar("T")
PAUSE_SECONDS_MAX = 3.0
WATCHFUL_SECONDS = 0.4  # between turns, while a worker's session is gone
APART_SECONDS = 60.0  # how long the claimer asks for no turn after a statement of its was refused
NO_FLOOR = float("-inf")


class ChoreTurns:
    """Shared by two threads: the claimer may bring a turn along, the housekeeper waits for it."""

    def __init__(self, shared: Shared, workers: Callable[[], int], more: Iterable[str] = ()) -> None:
        self._shared, self._workers = shared, workers
        self._more = more  # chores of the application, by name
        self._brought: SimpleQueue[Turn | None] = SimpleQueue()
        self._waiting = False  # the housekeeper has nothing else to do
        self._with_poll_from = 0.0
        self._missed_until = 0.0  # a worker's session is gone: until then, look more often
        self._pause_seconds = jittered(self._pace(), random.random())  # noqa: S311
        self.sweep_from = NO_FLOOR  # where the list of claims begins, by the database's clock

    def ask(self) -> Statement[Turn]:
        """The question itself."""
        return take_turn(self._shared.worker_id, sweep_from=self.sweep_from, chores=self._more)

    # -- the claimer

    def with_poll(self, conn: QueueConnection, poll: Statement[T]) -> T:
        """Run a poll, and ask for a turn along with it if one is wanted."""
        if not self.wanted:
            return run(conn, poll)
        answer, turn = run_both(conn, poll, self.ask())
        self.brought(turn)
        return answer

    @property
    def wanted(self) -> bool:
        """The housekeeper would do the chores at once."""
        return self._waiting and self._shared.terms.housekeeping and time.monotonic() >= self._with_poll_from

    def brought(self, turn: Turn) -> None:
        """This turn came with a poll."""
        self._brought.put(turn)

    def apart(self) -> None:
        """A statement was refused, perhaps because somebody has locked the chores: no poll may wait for that."""
        self._with_poll_from = time.monotonic() + APART_SECONDS

    # -- the housekeeper

    def wait(self) -> Turn | None:
        """A turn that came with a poll; None when it is time to ask."""
        self._waiting = True
        try:
            turn = self._brought.get(timeout=self._next_pause())
            # A poll has its own jitter; the next one comes before this pause is over, if the fleet is not small.
            self._pause_seconds = self._pace()
            return turn
        except Empty:
            self._pause_seconds = jittered(self._pace(), random.random())  # noqa: S311
            return None
        finally:
            self._waiting = False

    def stop_waiting(self) -> None:
        """There is something else to do."""
        self._brought.put(None)

    def watch(self, grace_seconds: float) -> None:
        """A worker's session is gone: ask more often, until it is back or dead."""
        self._missed_until = time.monotonic() + grace_seconds + PAUSE_SECONDS_MAX

    def _next_pause(self) -> float:
        return WATCHFUL_SECONDS if time.monotonic() < self._missed_until else self._pause_seconds

    def _pace(self) -> float:
        """Longer with more workers: the whole fleet asks every second, and more often."""
        return min(PAUSE_SECONDS_MAX, max(1.0, self._workers() / 2))
