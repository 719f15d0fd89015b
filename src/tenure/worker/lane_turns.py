"""Which unordered lanes the next claim asks: all of few; of many, some that are not known to be empty.

A claim looks into one lane after the other. With thousands of queues, most of what it would look into has just been
emptied by the claim before.

            a claim searched it to its end,
            or the board saw nothing due in it
    asked ─────────────────────────────────────▶ passed over
      ▲                                               │
      └───────────────────────────────────────────────┘
         a board that sees something due, a note about its queue
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ..model.rows import Claimed, Lane, Offer

FEW = 64  # so many are asked each time: a row that comes to an empty lane is found at once
TRIES = 4  # for each queue that is wanted of many
MORE = 4  # times as many are asked after a claim that found too few rows


@dataclass(slots=True)
class LaneTurns:
    """Lanes by queue, in an order that is drawn anew for each claim: a queue of twice the weight is first as often."""

    weights: Mapping[str, float]
    chance: Callable[[], float]
    _lanes: dict[str, list[Lane]] = field(default_factory=dict)  # of each queue, the most urgent first
    _count: int = 0
    _passed: set[Lane] = field(default_factory=set)
    _pool: list[str] = field(default_factory=list)  # queues to draw from: some may be passed over since
    _up_to: list[float] = field(default_factory=list)  # their weights, added up
    _then: int = -1  # how many lanes were passed over when they were looked up; -1: to be looked up
    _enough: int = FEW  # so many queues have rows for a claim

    def offered(self, offers: Iterable[Offer]) -> None:
        """The board was read: these lanes there are, and in some of them something is due."""
        self._lanes, self._count, self._then = {}, 0, -1
        self._passed.clear()
        for offer in offers:
            if not offer.ordered and not offer.limited:
                lane = Lane(offer.queue, offer.priority)
                self._add(lane)
                if offer.due_seconds is None or offer.due_seconds > 0:
                    self._passed.add(lane)

    def look_into(self, queue: str) -> None:
        """There may be a row in this queue, which the board did not show."""
        self._add(Lane(queue))

    def _add(self, lane: Lane) -> None:
        lanes = self._lanes.setdefault(lane.queue, [])
        lanes.append(lane)
        if len(lanes) > 1:
            lanes.sort(key=lambda lane: -lane.priority)
        self._count += 1
        self._then = -1

    def look_again(self, queue: str | None = None) -> None:
        """There may be rows in the lanes of this queue, or in all."""
        again = self._passed if queue is None else self._passed.intersection(self._lanes.get(queue, ()))
        if again:
            self._then = -1
            self._passed.difference_update(again)

    @property
    def any(self) -> bool:
        """True if there is a lane at all."""
        return self._count > 0

    @property
    def left(self) -> bool:
        """True if there is one to ask that no claim has searched to its end."""
        return len(self._passed) < self._count

    @property
    def all_are_asked(self) -> bool:
        """True if there are so few that each claim asks them all."""
        return self._count <= FEW

    def next(self, n: int) -> tuple[Lane, ...]:
        """The lanes to ask for n rows, in turn."""
        if self.all_are_asked:
            return tuple(lane for queue in self._drawn(list(self._lanes)) for lane in self._lanes[queue])
        pool = self._wet()
        if len(pool) <= FEW:
            drawn = self._drawn([queue for queue in pool if self._is_wet(queue)])
        else:
            drawn = self._some(pool, min(max(FEW, n), self._enough))
        return tuple(lane for queue in drawn for lane in self._lanes[queue] if lane not in self._passed)

    def _is_wet(self, queue: str) -> bool:
        return not self._passed.issuperset(self._lanes[queue])

    def _wet(self) -> list[str]:
        """The queues that may have rows; looked up again when half of them may have been emptied."""
        if self._then < 0 or 2 * (len(self._passed) - self._then) > len(self._pool):
            self._pool = [queue for queue in self._lanes if self._is_wet(queue)]
            self._up_to = list(accumulate(self.weights[queue] for queue in self._pool))
            self._then = len(self._passed)
        return self._pool

    def _drawn(self, queues: list[str]) -> list[str]:
        """All of these."""
        if len(queues) < 2:
            return queues
        rank = {queue: self.chance() ** (1 / self.weights[queue]) for queue in queues}
        return sorted(queues, key=lambda queue: -rank[queue])

    def _some(self, pool: list[str], n: int) -> list[str]:
        """About n of these, or the first of them if chance always says the same."""
        found: dict[str, None] = {}
        for _ in range(TRIES * n):
            queue = pool[min(bisect(self._up_to, self.chance() * self._up_to[-1]), len(pool) - 1)]
            if self._is_wet(queue):
                found[queue] = None
                if len(found) == n:
                    return list(found)
        self._then = -1  # the heavy ones are passed over, perhaps: look again who is left
        return list(found) or [next(queue for queue in pool if self._is_wet(queue))]

    def answered(self, lanes: Sequence[Lane], rows: Sequence[Claimed], n: int) -> None:
        """A claim of n rows asked these in turn: it has searched all before the last one that gave a row."""
        if len(rows) < n:
            self._passed.update(lanes)
            self._enough = MORE * max(FEW, len(lanes))
            return
        first: dict[str, int] = {}  # rows do not say their priority: of their queue, the first lane
        for at, lane in enumerate(lanes):
            first.setdefault(lane.queue, at)
        last = max((first[queue] for queue in {row.queue for row in rows} if queue in first), default=0)
        self._passed.update(lanes[:last])
        self._enough = max(FEW, 2 * (last + 1))
