"""The till: it takes so many orders a second, each with its receipt in the order's own transaction."""

from __future__ import annotations

import time

from ..drills.act import Enqueue
from ..drills.stage import Stage


class Till:
    """Orders by number, from 1 on; `last` is the one that was taken last."""

    def __init__(self, stage: Stage, orders_per_second: float) -> None:
        self.last, self.open, self.per_second = 0, True, orders_per_second
        self._stage = stage
        self._due = time.monotonic()

    def tend(self) -> None:
        """Take an order if one is due; whoever was away for a while is not met by all of them at once."""
        now = time.monotonic()
        if self.open and now >= self._due:
            self._due = max(self._due + 1 / self.per_second, now)
            Enqueue(self.next()).do(self._stage)

    def next(self) -> int:
        """The number of the next order."""
        self.last += 1
        return self.last
