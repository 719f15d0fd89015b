"""The slots of a worker: how many jobs it runs at once, over all inboxes that it serves, and who may take the next."""

from __future__ import annotations

import threading
from typing import Protocol


class Taker(Protocol):
    """The attempts of one inbox, which take slots."""

    @property
    def slots_running(self) -> int:
        """How many slots they have whose handler has not returned."""

    @property
    def in_flight(self) -> int:
        """How many have a slot, or have passed it on and are not settled."""

    @property
    def hungry(self) -> bool:
        """True while there may be rows for more slots, and it could take them."""

    def nudge(self) -> None:
        """There may be a slot."""


class Slots:
    """Counted here, so that no more handlers run than there are slots; if several want more, each has its share.

    What has returned and is not settled counts only for its own inbox: if its database is away, the others work on.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.lock = threading.Lock()  # of all takers: what one of them takes the others must see
        self._takers: list[Taker] = []
        self._turn = 0  # who has what is left over when the slots are dealt out

    def add(self, taker: Taker) -> None:
        """It takes part."""
        self._takers.append(taker)

    def room(self, taker: Taker) -> tuple[int, int]:
        """How many more handlers it may start: while slots are free, and it has less than its share.

        And how many slots the others do not use.
        """
        left, wanting = self.most, 1
        for each in self._takers:
            if each is not taker:
                left -= each.slots_running
                wanting += each.hungry
        return min(left, self._part(taker, wanting)) - taker.slots_running, left

    def offered(self, taker: Taker) -> int:
        """How many more rows it may claim; at most what is free, and its share while others want slots too."""
        free, _ = self.room(taker)
        return free + taker.slots_running - taker.in_flight

    def share(self, taker: Taker) -> int:
        """How many it may have: all, or its part while others want slots too."""
        return self._part(taker, 1 + sum(each.hungry for each in self._takers if each is not taker))

    def _part(self, taker: Taker, wanting: int) -> int:
        share, left = divmod(self.most, wanting)
        if not left:
            return share
        return share + ([each for each in self._in_turn() if each is taker or each.hungry].index(taker) < left)

    def took(self, taker: Taker) -> None:
        """It has claimed rows: what is left over is the next one's."""
        self._turn = self._takers.index(taker) + 1

    def freed(self, by: Taker) -> None:
        """One of them has a slot less, or wants no more: the others may have it."""
        for taker in self._takers:
            if taker is not by and taker.hungry:
                taker.nudge()

    def _in_turn(self) -> list[Taker]:
        first = self._turn % len(self._takers)
        return [*self._takers[first:], *self._takers[:first]]
