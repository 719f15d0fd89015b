"""What the workers of a test have told: their events, in the order in which they came."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TypeVar

from ..events import Event

E = TypeVar("E", bound=Event)
WAIT_SECONDS = 60.0


class Heard:
    """A recorder of events: `testbed.events.of(JobRetried)`, `testbed.events.saw(ExecutionStarted)`."""

    def __init__(self) -> None:
        self._all: list[Event] = []
        self._came = threading.Condition()

    def __call__(self, event: Event) -> None:
        """One more, from any thread."""
        with self._came:
            self._all.append(event)
            self._came.notify_all()

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return f"<Heard {', '.join(self.names) or 'nothing'}>"

    @property
    def names(self) -> list[str]:
        """Their names, in order."""
        return [event.name for event in self]

    def of(self, kind: type[E]) -> list[E]:
        """Those of one type so far."""
        return [event for event in self if isinstance(event, kind)]

    def saw(self, kind: type[E], n: int = 1, *, seconds: float = WAIT_SECONDS) -> list[E]:
        """Those of one type, as soon as there are n; AssertionError with what came instead, if that takes too long."""
        by = time.monotonic() + seconds
        with self._came:
            while len(found := [event for event in self._all if isinstance(event, kind)]) < n:
                left = by - time.monotonic()
                assert left > 0, f"{n} × {kind.name} did not come within {seconds:g} s: heard {', '.join(self.names)}"
                self._came.wait(min(left, 1.0))
        return found
