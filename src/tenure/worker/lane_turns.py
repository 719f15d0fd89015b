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


@dataclass(slots=True)
class LaneTurns:
    """Lanes by queue, in an order that is drawn anew for each claim: a queue of twice the weight is first as often."""

    weights: Mapping[str, float]
    chance: Callable[[], float]
    _lanes: dict[str, list[Lane]] = field(default_factory=dict)  # of each queue, the most urgent first
    _count: int = 0
    _passed: set[Lane] = field(default_factory=set)

    def offered(self, offers: Iterable[Offer]) -> None:
        """The board was read: these lanes there are, and in some of them something is due."""
        self._lanes, self._count = {}, 0
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
        lanes.sort(key=lambda lane: -lane.priority)
        self._count += 1

    def look_again(self, queue: str | None = None) -> None:
        """There may be rows in the lanes of this queue, or in all."""
        if queue is None:
            self._passed.clear()
        else:
            self._passed.difference_update(self._lanes.get(queue, ()))

    @property
    def any(self) -> bool:
        """True if there is a lane at all."""
        return self._count > 0

    @property
    def left(self) -> bool:
        """True if there is one to ask that no claim has searched to its end."""
        return len(self._passed) < self._count

    def next(self, n: int) -> tuple[Lane, ...]:
        """The lanes to ask for n rows, in turn."""
        if self._count <= FEW:
            return tuple(lane for queue in self._drawn(list(self._lanes)) for lane in self._lanes[queue])
        wet = [queue for queue, lanes in self._lanes.items() if not self._passed.issuperset(lanes)]
        drawn = self._drawn(wet) if len(wet) <= FEW else self._some(wet, max(FEW, n))
        return tuple(lane for queue in drawn for lane in self._lanes[queue] if lane not in self._passed)

    def _drawn(self, queues: list[str]) -> list[str]:
        """All of these."""
        if len(queues) < 2:
            return queues
        rank = {queue: self.chance() ** (1 / self.weights[queue]) for queue in queues}
        return sorted(queues, key=lambda queue: -rank[queue])

    def _some(self, queues: list[str], n: int) -> list[str]:
        """About n of these, or the first of them if chance always says the same."""
        up_to = list(accumulate(self.weights[queue] for queue in queues))
        found: dict[str, None] = {}
        for _ in range(TRIES * n):
            found[queues[min(bisect(up_to, self.chance() * up_to[-1]), len(queues) - 1)]] = None
            if len(found) == n:
                break
        return list(found)

    def answered(self, lanes: Sequence[Lane], rows: Sequence[Claimed], n: int) -> None:
        """A claim of n rows asked these in turn: it has searched all before the last one that gave a row."""
        if len(rows) < n:
            self._passed.update(lanes)
            return
        first: dict[str, int] = {}  # rows do not say their priority: of their queue, the first lane
        for at, lane in enumerate(lanes):
            first.setdefault(lane.queue, at)
        last = max((first[queue] for queue in {row.queue for row in rows} if queue in first), default=0)
        self._passed.update(lanes[:last])
