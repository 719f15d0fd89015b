"""What this worker could not run, and how often: it gives such a row back for longer each time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import UUID

from ..model.outcome import Snooze

TURNED_AWAY_SECONDS = 10.0  # how long a row waits that this worker cannot run
LATER_SECONDS_MAX = 600.0
FORGOTTEN_SECONDS = 2 * LATER_SECONDS_MAX  # a row that has not come for so long was with somebody who can run it
ROWS_MAX = 10_000


class TurnedAway:
    """Counted here and not by the row's token, which also counts the times when others held it lawfully."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._times: dict[UUID, tuple[int, float]] = {}  # of each row how often, and when last; the longest ago first

    def later(self, row_id: UUID, why: str, seconds: float = TURNED_AWAY_SECONDS) -> Snooze:
        """Give the row back for longer each time, so that a row nobody can start is not claimed all the time."""
        with self._lock:
            now = self._clock()
            times, last = self._times.pop(row_id, (0, now))
            times = times if now - last < FORGOTTEN_SECONDS else 0
            self._times[row_id] = (times + 1, now)
            if len(self._times) > ROWS_MAX:
                del self._times[next(iter(self._times))]
        return Snooze(min(LATER_SECONDS_MAX, seconds * 2 ** min(times, 10)), why)
