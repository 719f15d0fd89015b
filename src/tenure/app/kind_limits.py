"""Limits of a kind, in code: how many of its rows run at once and how many start in a second, across all workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import BadSettings
from ..verbs.queues import declare_limits
from ..verbs.statement import Statement


@dataclass(frozen=True, slots=True)
class Limits:
    """What `tenure queues limit` sets, for the queue of one kind."""

    max_running: int | None = None
    max_per_key: int | None = None
    rate_per_second: float | None = None
    burst: int | None = None

    def of(self, queue: str) -> Statement[str]:
        """What a worker runs when it starts; an operator's own limits stay."""
        return declare_limits(queue, **asdict(self))


def check_limits(kind: str, queue: str, limits: Any, queues: Mapping[str, tuple[str, bool]]) -> None:
    """BadSettings if this kind, or another of its queue, has limits: they are of the queue, which must be its own."""
    if limits is not None and not isinstance(limits, Limits):
        raise BadSettings(f"handler {kind!r} has limits={limits!r}: write limits=Limits(max_running=4)")
    for other, (its_queue, is_limited) in queues.items():
        if its_queue == queue and (limits is not None or is_limited):
            raise BadSettings(
                f"handlers {kind!r} and {other!r} share the queue {queue!r}, and limits are of a queue: "
                "give the one that has them a queue of its own"
            )
