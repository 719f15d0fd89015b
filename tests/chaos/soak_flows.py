"""A soak of workflows: three versions, a worker killed every second, a deploy in the middle, random signals.

`make soak-flows` runs 1,000 of them. Exit code 0: all ended right and no fenced effect is there twice, 1: not.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import servers
from crew import Process
from tenure.verbs import steps
from world import World, new_world

TABLES = (
    "CREATE TABLE deeds (row_id uuid, what text); CREATE TABLE booked (key text PRIMARY KEY, amount int, calls int)"
)
TERMS = ("--grace-seconds=1", "--poll-seconds=0.3")
OLD, NEW = "1,2", "1,2,3"


class Plan(NamedTuple):
    """How much, by how many, and how often one of them is killed."""

    flows: int = 1000
    workers: int = 3
    kill_seconds: float = 1.0
    seed: int = 7
    seconds_max: float = 1800.0


class Order(NamedTuple):
    """What was begun, and how it must end."""

    id: UUID
    version: int
    waits: bool
    fails: bool

    @property
    def effects(self) -> list[str]:
        """What its fenced steps leave."""
        return ["reserve"] if self.fails else ["end", "reserve"]

    @property
    def booked(self) -> list[int]:
        """What its plain steps leave: nothing, if it was undone."""
        return [0 if self.fails else 1] * min(self.version, 2)


class Soak:
    """Workers, somebody who kills them, and somebody who signals."""

    def __init__(self, world: World, folder: Path, plan: Plan) -> None:
        self.world, self.folder, self.plan, self.dice = world, folder, plan, random.Random(plan.seed)
        self.versions, self.killed, self.signalled = OLD, 0, 0
        self.orders: list[Order] = []
        self.deaf: list[Order] = []  # those that wait and were not told to go

    def run(self) -> list[str]:
        """What is wrong in the end, which is nothing."""
        self.world.sql("UPDATE chores SET every_seconds = 0.4 WHERE name IN ('leases', 'fleet')")
        self.world.sql(TABLES)
        by, next_kill = time.monotonic() + self.plan.seconds_max, time.monotonic() + 2.0
        with self._workers() as crew:
            while self._begin() or self.deaf or self._left():
                self._signal()
                if time.monotonic() > next_kill:
                    next_kill = time.monotonic() + self.plan.kill_seconds
                    self._kill(crew)
                if self.versions == OLD and len(self.orders) * 2 >= self.plan.flows:
                    self._deploy(crew)
                if time.monotonic() > by:
                    return [f"{self._left()} rows are left after {self.plan.seconds_max:.0f} s"]
                time.sleep(0.05)
        return self.judge()

    def _begin(self) -> bool:
        """Some more of them, a few a turn; False when all were begun. Version 3 begins with the deploy."""
        for _ in range(min(self.dice.randrange(max(2, self.plan.flows // 50)), self.plan.flows - len(self.orders))):
            version = self.dice.choice([1, 2] if self.versions == OLD else [1, 2, 3])
            waits, fails = self.dice.random() < 0.6, self.dice.random() < 0.3
            headers = {"tenure-flow": "order", "tenure-version": str(version)}
            id = self.world.enqueue("order", {"waits": waits, "fails": fails}, headers=headers, max_attempts=20)
            self.orders.append(Order(id, version, waits, fails))
            if waits:
                self.deaf.append(self.orders[-1])
        return len(self.orders) < self.plan.flows

    def _signal(self) -> None:
        """Tell some to go, perhaps before they ask and perhaps twice; and say things nobody asked for."""
        self.dice.shuffle(self.deaf)
        some = self.dice.randrange(1 + max(1, len(self.deaf) // 4))
        for order in self.deaf[:some]:
            for _ in range(self.dice.choice([1, 1, 2])):
                self.world.run(steps.signal(order.id, "go", {"n": self.signalled}, once="go"))
                self.signalled += 1
        self.deaf = self.deaf[some:]
        if self.orders and self.dice.random() < 0.2:
            self.world.run(steps.signal(self.dice.choice(self.orders).id, "noise"))

    def _kill(self, crew: list[Process]) -> None:
        n = self.dice.randrange(len(crew))
        holds = "SELECT 1 FROM live WHERE status = 'processing' AND claimed_by LIKE %s LIMIT 1"
        if self.world.sql(holds, f"%-{crew[n].pid}-%"):
            crew[n].end(signal.SIGKILL)
            crew[n] = self._worker()
            self.killed += 1

    def _deploy(self, crew: list[Process]) -> None:
        """Drain every worker in turn and start one with the new code."""
        self.versions = NEW
        for n, old in enumerate(crew):
            old.end(signal.SIGTERM)
            crew[n] = self._worker()

    def _left(self) -> int:
        return self.world.count("live")

    def judge(self) -> list[str]:
        """Each has ended as it must, with every effect once."""
        wrong = []
        status = dict(self.world.sql("SELECT id, status FROM inbox WHERE kind = 'order'"))
        effects: dict[UUID, list[str]] = {}
        for id, what in self.world.sql("SELECT row_id, what FROM deeds WHERE what <> 'part' ORDER BY what"):
            effects.setdefault(id, []).append(what)
        booked: dict[str, list[int]] = {}
        for key, amount in self.world.sql("SELECT split_part(key, '/', 1), amount FROM booked"):
            booked.setdefault(key, []).append(amount)
        for order in self.orders:
            found = (status.get(order.id), effects.get(order.id), booked.get(str(order.id)))
            if found != ("failed" if order.fails else "completed", order.effects, order.booked):
                wrong.append(f"{order}: {found}")
        parts = 2 * sum(order.version == 3 for order in self.orders)
        found_parts = self.world.sql("SELECT count(*), count(DISTINCT row_id) FROM deeds WHERE what = 'part'")
        if found_parts != [(parts, parts)]:
            wrong.append(f"{parts} children, and {found_parts} effects of theirs")
        return wrong

    def _worker(self) -> Process:
        return Process(self.world, "apps.orders:inbox", self.folder, *TERMS, TENURE_TEST_VERSIONS=self.versions)

    @contextlib.contextmanager
    def _workers(self) -> Iterator[list[Process]]:
        crew = [self._worker() for _ in range(self.plan.workers)]
        try:
            yield crew
        finally:
            for each in crew:
                if each.process.poll() is None:
                    each.process.kill()
                    each.process.wait(90)


def main() -> int:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.running(servers.available()[0], Path(folder)) as url,
        new_world(url) as world,
    ):
        began = time.monotonic()
        soak = Soak(world, Path(folder), Plan(asked.flows, seed=asked.seed))
        wrong = soak.run()
        for line in wrong[:20]:
            print(line)
        took = time.monotonic() - began
        print(
            f"seed {asked.seed}: {asked.flows:,} flows of three versions, {soak.killed} workers killed, one deploy, "
            f"{soak.signalled} signals in {took:.0f} s: {'violated' if wrong else 'all ended right, each effect once'}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
