"""The lists of inboxes that living workers were given: during a rolling restart there are two of them.

Every worker tells its list in the registry of each inbox that it serves, and which schedules its code has. Whoever
serves one inbox of both lists sees them both, and which of them is the newer one: that of the worker that started
last. A worker whose code does not have a schedule, as one of another service, has no say about it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from ..model.rows import Worker


class Told(NamedTuple):
    """What one living worker told of itself."""

    started_at: datetime
    inboxes: frozenset[str]
    schedules: frozenset[str] | None  # None: it may have any

    def has(self, schedule: str) -> bool:
        """Can it fire this schedule, or move it?"""
        return self.schedules is None or schedule in self.schedules


class Lists:
    """What the registries of our inboxes said last; the lease keeper of each post reads one at every heartbeat."""

    def __init__(self) -> None:
        self._by_inbox: dict[str, list[Told]] = {}

    def saw(self, inbox: str, alive: Sequence[Worker]) -> None:
        """These workers are alive there."""
        self._by_inbox[inbox] = [
            Told(each.started_at, frozenset(map(str, told)), _names(each.metadata.get("schedules")))
            for each in alive
            if isinstance(told := each.metadata.get("inboxes"), list) and told
        ]

    def newest(self, ours: Collection[str], schedule: str) -> frozenset[str]:
        """The list of the worker that started last, of those that have this schedule; ours, if nobody is there."""
        every = [each for each in self._every() if each.has(schedule)]
        return max(every, key=lambda each: each.started_at).inboxes if every else frozenset(ours)

    def beyond(self, ours: Collection[str], schedules: Collection[str]) -> set[frozenset[str]]:
        """The lists that have an inbox that ours has not, of workers that have one of these schedules."""
        return {
            each.inboxes
            for each in self._every()
            if not each.inboxes <= set(ours) and any(each.has(schedule) for schedule in schedules)
        }

    def _every(self) -> list[Told]:
        return [each for some in self._by_inbox.values() for each in some]


def _names(told: object) -> frozenset[str] | None:
    return frozenset(map(str, told)) if isinstance(told, list) else None
