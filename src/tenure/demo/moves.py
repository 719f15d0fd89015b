"""How many buckets a change of the ring moved, and how many of them needlessly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..drills.scenes.ring import needless
from ..drills.stage.picture import bare
from ..drills.stage.stage import Stage
from ..model.ring import Ring, moved
from ..verbs import questions


class Moves(NamedTuple):
    """How many buckets have a new owner; needless are those that moved between two workers of both rings."""

    moved: int
    needless: int


def moves(before: Ring, after: Ring) -> Moves:
    """From one ring to the next."""
    return Moves(moved(before, after), needless(before, after))


def ring_now(stage: Stage) -> Ring:
    """The ring of the workers that the database knows to be alive."""
    return Ring(worker.id for worker in stage.run(questions.live_workers()))


def shares(ring: Ring) -> str:
    """How many buckets each worker owns, as 341 / 345 / 338."""
    return " / ".join(str(len(ring.buckets_of(worker))) for worker in ring.workers)


class RingWatch:
    """Says on the stage when buckets have moved."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self.ring = stage, ring_now(stage)

    def look(self) -> None:
        """Ask the database which workers are alive."""
        before, self.ring = self.ring, ring_now(self._stage)
        if before != self.ring:
            self._stage.say("ring", "ring_moved", workers=len(self.ring.workers), **moves(before, self.ring)._asdict(),
                            joined=_names({*self.ring.workers} - {*before.workers}),
                            left=_names({*before.workers} - {*self.ring.workers}))  # fmt: skip


def _names(workers: Iterable[str]) -> str:
    return ", ".join(sorted(str(bare(worker)) for worker in workers))
