"""What the threads of one worker share: its configuration, its id, and where events go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..events import Bus
from ..telemetry.tally import Tally
from ..telemetry.tracing import Tracing
from .config import Terms, new_worker_id
from .garbage import Garbage
from .threads import Threads
from .turned_away import TurnedAway


@dataclass(slots=True)
class Shared:
    """Made by the worker, given to each of its threads."""

    terms: Terms
    bus: Bus
    failed: Callable[[BaseException], None]  # a thread ended with a bug: the worker must stop, not go on without it
    drain: Callable[[], None]  # an operator asks this worker to drain
    away_seconds: float = 0.0  # how long the database was away the last time
    worker_id: str = ""  # changes if this worker was declared dead
    tally: Tally = field(default_factory=Tally)
    tracing: Tracing = field(default_factory=Tracing)
    threads: Threads | None = None  # of the whole worker, for plain handlers
    turned_away: TurnedAway = field(default_factory=TurnedAway)
    garbage: Garbage = field(default_factory=Garbage)  # of the whole worker

    def __post_init__(self) -> None:
        self.worker_id = self.worker_id or new_worker_id(self.terms)
