"""Attempts that could not be settled for a moment: they stay ours, their leases are kept, and they are sent again."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..model.jitter import Pace
from ..model.outcome import Completed
from .attempt import Attempt

TURN_SECONDS = 0.02, 1.0  # the first and the longest pause of a row that is behind another one of its run
LOCKED_SECONDS = 1.0, 8.0  # of a row that is locked: the claimer does nothing else while it waits for the lock


@dataclass(slots=True)
class _Pause:
    pace: Pace
    locked: bool
    until: float = 0.0


class PutOff:
    """Knows when each of them is to be sent again, and which of them were locked."""

    def __init__(self) -> None:
        self._pauses: dict[Attempt, _Pause] = {}

    def __len__(self) -> int:
        return len(self._pauses)

    def add(self, attempts: Iterable[Attempt], *, locked: bool) -> None:
        """These were refused: each pause may be twice as long as the one before."""
        for attempt in attempts:
            pause = self._pauses.get(attempt)
            if pause is None or pause.locked != locked:
                pause = self._pauses[attempt] = _Pause(Pace(*(LOCKED_SECONDS if locked else TURN_SECONDS)), locked)
            pause.until = time.monotonic() + pause.pace.next(random.random())  # noqa: S311

    def forget(self, attempts: Iterable[Attempt]) -> None:
        """The database has answered for these."""
        for attempt in attempts if self._pauses else ():
            self._pauses.pop(attempt, None)

    def next_at(self, at: float) -> float:
        """When the next pause ends. One that has ended says nothing: its row is due, or stands behind another."""
        return min((pause.until for pause in self._pauses.values() if pause.until > at), default=float("inf"))

    def was_locked(self, attempts: Iterable[Attempt]) -> bool:
        """True if one of these was locked when it was sent last."""
        return any(attempt in self._pauses and self._pauses[attempt].locked for attempt in attempts)

    def over(self, attempts: Sequence[Attempt], at: float) -> list[Attempt]:
        """Those without a pause at this time. Completions behind a row that has one would be refused: they wait too."""
        waiting = {attempt for attempt, pause in self._pauses.items() if pause.until > at}
        behind: set[Attempt] = set()
        for attempt in waiting:
            following = attempt.following
            while following is not None and following not in behind:
                behind.add(following)
                following = following.following
        return [
            each
            for each in attempts
            if each not in waiting and not (each in behind and isinstance(each.outcome, Completed))
        ]


def in_runs(attempts: Iterable[Attempt]) -> list[list[Attempt]]:
    """These by the runs they belong to, in the order in which they ended."""
    runs: list[list[Attempt]] = []
    goes_on: dict[Attempt, list[Attempt]] = {}  # whose turn it is next in which run
    for attempt in attempts:
        run = goes_on.pop(attempt, None)
        if run is None:
            run = []
            runs.append(run)
        run.append(attempt)
        if attempt.following is not None:
            goes_on[attempt.following] = run
    return runs
