"""A fleet of worker processes under steady load, for tests that change it while it works."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from pathlib import Path

from apps.naps import nap
from crew import Process, eventually
from tenure import postgres, verbs
from world import World


class Fleet:
    """Workers of `apps.naps`, ended when the test is over."""

    def __init__(self, world: World, folder: Path, *terms: str) -> None:
        self._world, self._folder, self._terms = world, folder, terms
        self.workers: list[Process] = []

    def hire(self, n: int = 1) -> list[Process]:
        """So many more; returns when they are in the ring."""
        new = [Process(self._world, "apps.naps:inbox", self._folder, *self._terms) for _ in range(n)]
        self.workers += new
        for worker in new:
            worker.saw("ring_changed")
        return new

    def agreed(self, n: int) -> None:
        """Return when everybody alive sees a ring of n."""
        alive = [worker for worker in self.workers if worker.process.poll() is None]
        eventually(lambda: all(worker.events("ring_changed")[-1]["workers"] == n for worker in alive))

    @property
    def ledger(self) -> Path:
        """Where the handlers write."""
        return self.workers[0].ledger


@contextlib.contextmanager
def fleet(world: World, folder: Path, *terms: str) -> Iterator[Fleet]:
    """A fleet without workers yet."""
    made = Fleet(world, folder, *terms)
    try:
        yield made
    finally:
        for worker in made.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait(90)


class Load(threading.Thread):
    """Rows at a steady pace: most of them short, every twentieth long enough to outlast a drain."""

    def __init__(self, world: World, *, long_seconds: float = 0.1) -> None:
        super().__init__(name="load", daemon=True)
        self._world, self._long_seconds = world, long_seconds
        self._over = threading.Event()
        self.rows = 0

    def run(self) -> None:
        """Until ended."""
        chance = random.Random(1)
        with postgres.connect(self._world.url) as conn:
            while not self._over.wait(0.01):
                seconds = self._long_seconds if self.rows % 20 == 10 else chance.uniform(0.0, 0.1)
                row = nap.row(key=f"key:{self.rows}", seconds=seconds)
                postgres.run(conn, verbs.enqueue(row), self._world.schema)
                self.rows += 1

    def end(self) -> None:
        """Send no more, and return when everything sent is over."""
        self._over.set()
        self.join(90)
        eventually(lambda: self._world.count("live") == 0)


@contextlib.contextmanager
def load(world: World, *, long_seconds: float = 0.1) -> Iterator[Load]:
    """Load while the block lasts, and until all of it is done."""
    made = Load(world, long_seconds=long_seconds)
    made.start()
    try:
        yield made
    finally:
        made._over.set()
    made.end()
