"""The till: it takes so many orders a second, each with its receipt in the order's own transaction."""

from __future__ import annotations

import time

from ..drills.stage.acts import Enqueue
from ..drills.stage.stage import Stage

WAITING_MAX = 60  # on a machine too slow for the rate, what is shown must not wait behind ever more rows
ROOM = "SELECT count(*) < %s FROM (SELECT FROM tenure.live LIMIT %s) AS waiting"


class Till:
    """Orders by number, from 1 on; `last` is the one that was taken last."""

    def __init__(self, stage: Stage, orders_per_second: float) -> None:
        self.last, self.open, self.per_second = 0, True, orders_per_second
        self._stage = stage
        self._due = time.monotonic()

    def tend(self) -> None:
        """Take an order if one is due and not too many wait; those missed meanwhile do not come all at once."""
        now = time.monotonic()
        if self.open and now >= self._due:
            self._due = max(self._due + 1 / self.per_second, now)
            if self._stage.sql(ROOM, WAITING_MAX, WAITING_MAX) == [(True,)]:
                Enqueue(self.next()).do(self._stage)

    def next(self) -> int:
        """The number of the next order."""
        self.last += 1
        return self.last
