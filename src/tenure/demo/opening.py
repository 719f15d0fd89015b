"""Opening the demo's shop: its schema, its workers and its till, which works while the stage waits."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..drills.stage.props import Props
from ..drills.stage.stage import Stage
from .moves import RingWatch, ring_now, shares
from .show import Show
from .till import Till

WORKERS = 3
PROPS = Props(lease_seconds=3.0, handler_seconds=0.8)  # long enough to see, short enough to wait for
LOOK_SECONDS = 0.25
START_SECONDS_MAX = 60.0


class Opened(NamedTuple):
    """A shop that takes orders."""

    stage: Stage
    till: Till
    shares: str  # of the ring, as text


@contextmanager
def opened(url: str, show: Show, orders_per_second: float) -> Iterator[Opened]:
    """Open the shop; after the block its processes have ended and its schema is dropped."""
    schema = f"tenure_demo_{secrets.token_hex(4)}"
    with Stage(url, show.told, props=PROPS, schema=schema) as stage:
        stage.build()
        for _ in range(WORKERS):
            stage.start()
        stage.until(lambda: len(ring_now(stage).workers) == WORKERS, f"{WORKERS} workers", START_SECONDS_MAX)
        show.stage = stage
        till, watch = Till(stage, orders_per_second), RingWatch(stage)
        stage.at_leisure = Round(till, watch, show).make
        yield Opened(stage, till, shares(watch.ring))


class Round:
    """What is done while the stage waits: the till each time, ring and foot a few times a second."""

    def __init__(self, till: Till, watch: RingWatch, show: Show) -> None:
        self._till, self._watch, self._show = till, watch, show
        self._due = 0.0

    def make(self) -> None:
        """One round; it must be quick, because it is made all the time."""
        self._till.tend()
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + LOOK_SECONDS
            self._watch.look()
            self._show.foot()
