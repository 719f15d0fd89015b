"""The lists of inboxes that living workers were given: during a rolling restart there are two of them.

Every worker tells its list in the registry of each inbox that it serves. Whoever serves one inbox of both lists sees
them both, and which of them is the newer one: that of the worker that started last.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ..model.rows import Worker


class Lists:
    """What the registries of our inboxes said last; the lease keeper of each post reads one at every heartbeat."""

    def __init__(self) -> None:
        self._by_inbox: dict[str, list[tuple[datetime, frozenset[str]]]] = {}

    def saw(self, inbox: str, alive: Sequence[Worker]) -> None:
        """These workers are alive there."""
        self._by_inbox[inbox] = [
            (each.started_at, frozenset(map(str, told)))
            for each in alive
            if isinstance(told := each.metadata.get("inboxes"), list) and told
        ]

    def newest(self, ours: Collection[str]) -> frozenset[str]:
        """The list of the worker that started last; ours, if nobody is there."""
        every = [each for some in self._by_inbox.values() for each in some]
        return max(every, key=lambda each: each[0])[1] if every else frozenset(ours)

    def beyond(self, ours: Collection[str]) -> set[frozenset[str]]:
        """The lists that have an inbox that ours has not."""
        return {told for some in self._by_inbox.values() for _, told in some if not told <= set(ours)}
