"""The nemesis: kills workers and starts others, stops workers until their leases are over, from a seed."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from crew import Process
from world import World

LEASE_SECONDS = 2.0
TERMS = [
    "--slots=4",
    f"--lease-seconds={LEASE_SECONDS}",
    "--drain-seconds=1",
    "--grace-seconds=1",
    "--poll-seconds=0.5",
]


@dataclass(frozen=True)
class Plan:
    """How long, how many, and from which seed."""

    seconds: float
    seed: int
    workers: int = 8
    producers: int = 3
    keys: int = 24  # of these a third is shared by all producers
    needed: int = 3  # of each harm and each recovery, or the verdict is unknown

    @property
    def wanted(self) -> dict[str, int]:
        """What must have happened, and how often."""
        return dict.fromkeys(("kills", "pauses", "reclaims"), self.needed)


class Nemesis(threading.Thread):
    """Kills a worker and starts another, or stops one until its lease is over, again and again."""

    def __init__(self, world: World, folder: Path, plan: Plan, over: threading.Event) -> None:
        super().__init__(name="nemesis", daemon=True)
        self._world, self._folder, self._plan, self._over = world, folder, plan, over
        self._chance = random.Random(f"nemesis {plan.seed}")
        self.all: list[Process] = []
        self.crew = [self._hire() for _ in range(plan.workers)]
        self._resume_at: dict[int, tuple[float, Process]] = {}
        self.happened: Counter[str] = Counter()

    def _hire(self) -> Process:
        seed = str(self._plan.seed)
        self.all.append(Process(self._world, "apps.ordered:inbox", self._folder, *TERMS, TENURE_TEST_SEED=seed))
        return self.all[-1]

    def ready(self) -> None:
        """Return when the whole crew is in the ring."""
        for worker in self.crew:
            worker.saw("ring_changed")

    def run(self) -> None:
        """Harm after harm, to workers that hold a row, until told to stop; then everybody may go on."""
        conn = self._world.connect()
        while not self._over.wait(self._chance.uniform(0.3, 0.9)):
            self._resume(time.monotonic())
            holders = conn.execute(b"SELECT DISTINCT split_part(claimed_by, '-', -2) FROM live").fetchall()
            able = [
                at for at, worker in enumerate(self.crew) if (str(worker.pid),) in holders and not self._rests(worker)
            ]
            if able:
                self._harm(self._chance.choice(able))
        self._resume(float("inf"))

    def _rests(self, worker: Process) -> bool:
        return worker.pid in self._resume_at

    def _harm(self, at: int) -> None:
        if self.happened["pauses"] > self.happened["kills"]:
            self._kill(at, self.crew[at])
        elif len(self._resume_at) < len(self.crew) // 4:
            self._pause(self.crew[at])

    def _kill(self, at: int, worker: Process) -> None:
        worker.end(signal.SIGKILL)
        self.crew[at] = self._hire()
        self.happened["kills"] += 1

    def _pause(self, worker: Process) -> None:
        worker.send(signal.SIGSTOP)
        self._resume_at[worker.pid] = time.monotonic() + LEASE_SECONDS + self._chance.uniform(0.7, 2.0), worker
        self.happened["pauses"] += 1

    def _resume(self, by: float) -> None:
        for pid, (at, worker) in list(self._resume_at.items()):
            if at <= by:
                worker.send(signal.SIGCONT)
                del self._resume_at[pid]
