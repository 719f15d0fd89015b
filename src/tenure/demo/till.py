"""The till: it takes orders at a given rate, and enqueues each receipt in the order's own transaction."""

from __future__ import annotations

import time

from ..drills.stage.acts import Enqueue
from ..drills.stage.stage import Stage

BACKLOG_MAX = 60  # on a machine too slow for the rate, the backlog must not grow: rows to show would wait behind it
ROOM = "SELECT count(*) < %s FROM (SELECT FROM tenure.live LIMIT %s) AS backlog"


class Till:
    """Orders by number, from 1 on; `last` is the one that was taken last."""

    def __init__(self, stage: Stage, orders_per_second: float) -> None:
        self.last, self.open, self.per_second = 0, True, orders_per_second
        self._stage = stage
        self._due = time.monotonic()

    def tend(self) -> None:
        """Take an order if one is due and the backlog is small; missed orders are not made up for."""
        now = time.monotonic()
        if self.open and now >= self._due:
            self._due = max(self._due + 1 / self.per_second, now)
            if self._stage.sql(ROOM, BACKLOG_MAX, BACKLOG_MAX) == [(True,)]:
                Enqueue(self.next()).do(self._stage)

    def next(self) -> int:
        """The number of the next order."""
        self.last += 1
        return self.last
