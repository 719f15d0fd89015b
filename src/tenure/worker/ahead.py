"""Rows claimed ahead: leased but not begun, so that a slot whose handler returns has its next row at once.

How many follows the run time of this worker's handlers, and how quickly rows were seen to begin: what waits here is
at most WORK_SECONDS of work. That is none for slow handlers, and none until some have returned. If a handler turns
slow, what waits goes back after WAIT_SECONDS.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container, Iterable, Sequence

from .attempt import Attempt
from .claim_rule import UNORDERED

WORK_SECONDS = 0.05  # how much work may wait here, as if one row ran after the other
WAIT_SECONDS = 0.2  # a row that waits longer goes back: another worker may have a free slot
ROWS_MAX = 500
ROWS_FIRST = 50
ROWS_LEAST = 8  # however slowly they began the last time
SHARE = 16  # of so many handlers that returned, each counts for one in the mean


class Ahead:
    """The rows that wait for a slot, and how many may. Changed under the lock of the held attempts only."""

    def __init__(self) -> None:
        self._rows: deque[Attempt] = deque()
        # Of ordered keys and limited queues: they hold a key or a permit, so each gets the next slot.
        self._first: deque[Attempt] = deque()
        self._lent: dict[Attempt, None] = {}  # those that wait in a child process, in the order in which they went
        self._limit = float(ROWS_FIRST)  # as many as began in WORK_SECONDS
        self._begun, self._since, self._until = 0, 0.0, 0.0  # so many, since rows came last, until none was left
        self.row_seconds = 1.0  # how long a handler runs, the mean; slow until measured

    def __len__(self) -> int:
        return len(self._rows) + len(self._first) + len(self._lent)

    def ran(self, seconds: float) -> None:
        """A handler has returned after so long. Threads may overwrite each other: it is a mean."""
        self.row_seconds += (seconds - self.row_seconds) / SHARE

    def turned_slow(self) -> None:
        """A row waited for too long: whatever was measured, handlers run longer now."""
        self.row_seconds, self._limit = max(self.row_seconds, WAIT_SECONDS), ROWS_FIRST

    @property
    def most(self) -> int:
        """How many rows may wait."""
        return int(min(self._limit, WORK_SECONDS / max(self.row_seconds, 1e-6)))

    def room(self, *, beside_others: bool) -> int:
        """How many more to claim: none until half of them have begun, so that claims are not small.

        Beside other inboxes, whose rows take the slots meanwhile, three quarters.
        """
        most, n = self.most, len(self)
        return most - n if (4 if beside_others else 2) * n <= most else 0

    def add(self, attempts: Iterable[Attempt]) -> None:
        """These wait for a slot."""
        at = time.monotonic()
        if self._begun:
            fit = WORK_SECONDS * self._begun / max((at if len(self) else self._until) - self._since, 1e-6)
            self._limit = min(ROWS_MAX, max(fit, self._limit / 2, ROWS_LEAST))
        self._begun, self._since = 0, at
        for attempt in attempts:
            (self._rows if attempt.source == UNORDERED else self._first).append(attempt)

    def next(self, n: int) -> list[Attempt]:
        """The next rows, up to n, running from now on; those that were given back meanwhile are passed over."""
        begun: list[Attempt] = []
        while len(begun) < n and (self._first or self._rows):
            attempt = (self._first or self._rows).popleft()
            if attempt.take_turn():
                begun.append(attempt)
        self._have_begun(len(begun))
        return begun

    def _have_begun(self, n: int) -> None:
        self._begun += n
        if n and not len(self):
            self._until = time.monotonic()

    def overdue_at(self) -> float:
        """When a row will have waited for too long; never if none waits."""
        waiting = [each for rows in (self._first, self._rows, list(self._lent)) for each in _head(rows)]
        return min((each.started for each in waiting), default=float("inf")) + WAIT_SECONDS

    def lend(self, n: int, kinds: Container[str]) -> list[Attempt]:
        """Up to n rows that may wait in a child process: those of these kinds, as far as they are next."""
        lent: list[Attempt] = []
        while len(lent) < n and self._rows and self._rows[0].claimed.kind in kinds:
            lent.append(self._rows.popleft())
        self._lent.update(dict.fromkeys(lent))
        return lent

    def lent_back(self, attempts: Iterable[Attempt], *, wait: bool = False, begun: bool = False) -> None:
        """These wait in no child any more, but perhaps here, before the others; or they have begun there."""
        for attempt in attempts:
            self._lent.pop(attempt, None)
        if begun:
            self._have_begun(1)
        if wait:
            self._rows.extendleft(reversed([*attempts]))

    def empty(self) -> list[Attempt]:
        """All that wait here, which do no more."""
        attempts = [*self._first, *self._rows]
        self._first.clear()
        self._rows.clear()
        return attempts


def _head(rows: Sequence[Attempt]) -> Sequence[Attempt]:
    """The first, if there is one; in one step, for other threads take rows meanwhile."""
    try:
        return (rows[0],)
    except IndexError:
        return ()
