"""A soak of projections: late commits, killed holders, rebuilds under load; in the end the tables equal SQL.

Before each rebuild a row is put into the table that no event has made: only a table that was filled anew is without it.
Who holds every other rebuild is killed in the midst of it.

`make soak-projections` runs 50,000 events of 8 writers, 50 kills and 2 rebuilds. Exit code 0: equal, 1: not.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import servers
from crew import Process
from guarantees.facts import user_connection
from tenure.model.journal import NewEvent
from tenure.postgres import run
from tenure.testing.address import with_schema
from tenure.verbs.journal import append
from tenure.verbs.rebuild import ask_rebuild
from world import World, new_world

SETTLE_SECONDS = 240.0
DIFFERS = """
SELECT count(*) FROM (
  SELECT stream, count(*) AS n, sum((data->>'amount')::bigint)::bigint AS total, max(version) AS last
  FROM journal GROUP BY stream) AS j
FULL JOIN {}.sums AS s ON s.stream = j.stream
WHERE (s.n, s.total, s.last, s.wrong) IS DISTINCT FROM (j.n, j.total, j.last, 0)
"""


class Soak:
    """Writers, two workers and somebody who kills them."""

    def __init__(self, world: World, folder: Path, *, events: int, writers: int, kills: int, rebuilds: int, seed: int):
        self.world, self.folder, self.events, self.writers = world, folder, events, writers
        self.kills, self.rebuilds, self.dice = kills, rebuilds, random.Random(seed)
        self.seed, self.appended, self.killed, self.rebuilt, self.thrown_away = seed, 0, 0, 0, 0
        self.place, self.name = f"p_{world.schema}", f"sums_{world.schema}"
        self._lock = threading.Lock()

    def run(self) -> int:
        """How many streams differ from what SQL makes of the journal, in the end."""
        self.world.sql("UPDATE chores SET every_seconds = 0.4 WHERE name IN ('leases', 'fleet')")
        self.world.sql(f"CREATE SCHEMA {self.place}")
        self.world.sql(
            f"CREATE TABLE {self.place}.sums (stream text PRIMARY KEY, n int, total bigint, last bigint, wrong int)"
        )
        writers = [threading.Thread(target=self._write, args=[n], daemon=True) for n in range(self.writers)]
        with self._workers() as crew:
            for each in writers:
                each.start()
            while self.killed < self.kills or self._rebuilds_left() or any(each.is_alive() for each in writers):
                time.sleep(0.3)
                if self._rebuild_due():
                    self._rebuild(crew)
                if self.killed < self.kills and self.dice.random() < 0.6:
                    self._kill(crew, self.dice.randrange(len(crew)))
            return self._settled()

    def _settled(self) -> int:
        by = time.monotonic() + SETTLE_SECONDS
        while (differs := self.differs() + self.thrown_away) or self.world.sql(
            "SELECT 1 FROM projections WHERE rebuild_id IS NOT NULL"
        ):
            if time.monotonic() > by:
                return differs or 1
            time.sleep(0.2)
        return 0

    def differs(self) -> int:
        return int(self.world.sql(DIFFERS.format(self.place))[0][0])

    def _rebuilds_left(self) -> int:
        return self.rebuilds - self.rebuilt

    def _rebuild_due(self) -> bool:
        """Evenly over the events, and one after the other."""
        due = self.appended >= self.events * (self.rebuilt + 1) / (self.rebuilds + 1)
        idle = "SELECT 1 FROM projections WHERE rebuild_id IS NULL"
        return bool(self._rebuilds_left() and due and self.world.sql(idle))

    def _rebuild(self, crew: list[Process]) -> None:
        """Ask for one and let it end; of every other, kill who holds it, asking until it was caught."""
        caught = self.rebuilt % 2 == 0
        while True:
            self.world.sql(f"INSERT INTO {self.place}.sums VALUES ('nobody', 0, 0, 0, 0) ON CONFLICT DO NOTHING")
            self.world.run(ask_rebuild(self.name))
            while self.world.sql("SELECT 1 FROM projections WHERE rebuild_id IS NOT NULL"):
                caught = caught or any(self._kill(crew, n, f"rebuild:{self.name}") for n in range(len(crew)))
                time.sleep(0.01)
            self.thrown_away += len(self.world.sql(f"SELECT 1 FROM {self.place}.sums WHERE stream = 'nobody'"))
            if caught:
                break
        self.rebuilt += 1

    def _kill(self, crew: list[Process], n: int, kind: str = "%") -> bool:
        """If it holds a row of that kind."""
        holds = self.world.sql(
            "SELECT 1 FROM live WHERE status = 'processing' AND kind LIKE %s AND claimed_by LIKE %s",
            kind,
            f"%-{crew[n].pid}-%",
        )
        if not holds:
            return False
        crew[n].end(signal.SIGKILL)
        crew[n] = self._worker()
        self.killed += 1
        return True

    def _worker(self) -> Process:
        """It finds the table by the search path of its address, as most do."""
        url = with_schema(self.world.url, self.place)
        return Process(self.world, "apps.sums:inbox", self.folder, url=url, TENURE_TEST_PROJECTION=self.name)

    @contextlib.contextmanager
    def _workers(self) -> Iterator[list[Process]]:
        crew = [self._worker(), self._worker()]
        try:
            yield crew
        finally:
            for each in crew:
                if each.process.poll() is None:
                    each.process.kill()
                    each.process.wait(90)

    def _write(self, number: int) -> None:
        conn, dice = user_connection(self.world), random.Random(f"{self.seed}/{number}")
        while self.appended < self.events:
            n = dice.choice([1, 3, 10, 40])
            stream = f"order:{dice.randrange(60)}"
            run(conn, append(stream, [NewEvent("order.paid", {"amount": a}) for a in range(n)]), self.world.schema)
            time.sleep(dice.choice([0, 0.002, 0.02]) * dice.random())
            if dice.random() < 0.05:
                conn.rollback()
                continue
            conn.commit()
            with self._lock:
                self.appended += n


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.running(servers.available()[0], Path(folder)) as url,
        new_world(url) as world,
    ):
        began = time.monotonic()
        soak = Soak(world, Path(folder), events=asked.events, writers=8, kills=asked.kills, rebuilds=2, seed=asked.seed)
        differs = soak.run()
        print(
            f"seed {asked.seed}: {soak.appended:,} events, {soak.killed} holders killed, 2 rebuilds in "
            f"{time.monotonic() - began:.0f} s: {differs} streams differ from the journal"
        )
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
