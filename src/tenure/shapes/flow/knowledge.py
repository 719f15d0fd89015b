"""What an attempt at a flow knows: the records of its run, what its function has asked for, and the time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...verbs.steps import Recorded, Step
from .effects import Call, Instance
from .failures import Failures
from .made_late import made_late
from .moments import Moments
from .undoing import Root, is_asked_for


class Knowledge:
    """Filled by the core, and read by whatever looks at the flow."""

    met = made_late[dict[tuple[str, int], int]](dict)  # waits, and how much had been asked for when they were met
    families = made_late[dict[tuple[str, int], None]](dict)  # where children were sent that are not seen to have ended
    lines = made_late[dict[tuple[str, int], dict[object, int]]](dict)  # calls given to a fork as they are: whose
    undoable = made_late[dict[tuple[str, int], Call]](dict)  # what the function has asked for with undo=

    def __init__(self, instance: Instance, began_at: float, cancel: str = "") -> None:
        self.instance = instance
        self.records: dict[tuple[str, int], Step] = {}
        self.asked: dict[tuple[str, int], int] = {}  # how many were before it
        self.unseen: set[tuple[str, int]] = set()  # recorded before this attempt, and not looked at by its function yet
        self.closed: tuple[Root, ...] = ()  # where branches are that lost a race
        self.unbegun: dict[tuple[str, int], tuple[Any, Sequence[Root]]] = {}  # not awaited yet, and its roots
        self.riders: list[Step] = []  # recorded with the next step
        self.shown: dict[str, str] = {}
        self.moments, self.failures = Moments(began_at), Failures()
        self.cancel, self.cleaning, self.cancelled_at = cancel, False, 0.0
        self._seen, self._seen_at = max(began_at, instance.seen_at), time.monotonic()

    def know(self, records: list[Step]) -> None:
        """What is recorded of this run."""
        self.records = {(step.path, step.n): step for step in records}
        self.unseen = {place for place in self.records if is_asked_for(*place)}
        self._seen, self._seen_at = max([self._seen, *(step.recorded_at for step in records)]), time.monotonic()

    def learn(self, answer: Recorded) -> None:
        """What the database said with a record."""
        self._seen, self._seen_at = answer.moment, time.monotonic()
        self.cancel = self.cancel or answer.cancel or ""

    def now(self) -> float:
        """The database's time, as far as it is known: never ahead of it."""
        return self._seen + time.monotonic() - self._seen_at
