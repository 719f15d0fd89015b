"""A soak of the journal: writers that commit late, roll back and draw early transaction ids, and readers of every rule.

`make soak-journal` appends 100,000 events by 16 writers. Exit code 0: the reader below the marks has every event once
and each stream in order, and every naive reader has shown its fault; 1: violated; 2: a naive reader was lucky.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import servers
from guarantees.facts import user_connection
from tenure.model.journal import NewEvent
from tenure.postgres import run
from tenure.verbs.journal import append, read_after
from world import World, new_world

NAIVE = {
    "sequence": "SELECT position, stream, version FROM journal WHERE position > %s ORDER BY position LIMIT 2000",
    "xid": "SELECT position, stream, version, xid::text::bigint FROM journal"
    " WHERE (xid::text::bigint, position) > (%s, %s) AND xid < pg_snapshot_xmin(pg_current_snapshot())"
    " ORDER BY xid, position LIMIT 2000",
}


@dataclass
class Reading:
    """What one reader saw, in order."""

    seen: list[tuple[int, str, int]] = field(default_factory=list)

    def faults(self, committed: set[int]) -> Counter[str]:
        """Events missed, seen twice, or seen before an earlier one of their stream."""
        positions = [position for position, _, _ in self.seen]
        last: dict[str, int] = {}
        inverted = 0
        for _, stream, version in self.seen:
            inverted += version < last.get(stream, 0)
            last[stream] = max(version, last.get(stream, 0))
        missed = len(committed - set(positions))
        return Counter(missed=missed, doubles=len(positions) - len(set(positions)), inversions=inverted)


class Soak:
    """Writers and readers on one journal."""

    def __init__(self, world: World, *, events: int, writers: int, seed: int) -> None:
        self.world, self.events, self.writers, self.seed = world, events, writers, seed
        self.committed: set[int] = set()
        self._lock, self._over = threading.Lock(), threading.Event()
        self.readings = {"marks": Reading(), "sequence": Reading(), "xid": Reading()}

    def run(self) -> dict[str, Counter[str]]:
        """The faults of each reader."""
        self.world.sql("ALTER TABLE journal ADD COLUMN xid xid8 DEFAULT pg_current_xact_id()")
        readers = [threading.Thread(target=self._read, args=[name], daemon=True) for name in self.readings]
        writers = [threading.Thread(target=self._write, args=[n], daemon=True) for n in range(self.writers)]
        for each in [*readers, *writers]:
            each.start()
        for each in writers:
            each.join()
        self._over.set()
        for each in readers:
            each.join(120)
        return {name: reading.faults(self.committed) for name, reading in self.readings.items()}

    def _write(self, number: int) -> None:
        conn, dice = user_connection(self.world), random.Random(f"{self.seed}/{number}")
        while len(self.committed) < self.events:
            mine: list[int] = []
            if dice.random() < 0.3:
                conn.execute("SELECT pg_current_xact_id()")  # an early id, and a late append
                time.sleep(dice.random() * 0.01)
            for stream in sorted(dice.sample(range(40), dice.choice([1, 1, 2]))):  # in one order: no deadlock
                events = [NewEvent("order.paid", {"n": n}) for n in range(dice.choice([1, 2, 5, 20]))]
                last = run(conn, append(f"order:{stream}", events), self.world.schema)
                found = conn.execute(
                    "SELECT position FROM journal WHERE stream = %s AND version > %s",
                    [last.stream, last.version - len(events)],
                )
                mine += [row[0] for row in found]
            time.sleep(dice.choice([0, 0, 0.002, 0.02]) * dice.random())
            if dice.random() < 0.05:
                conn.rollback()
                continue
            conn.commit()
            with self._lock:
                self.committed.update(mine)

    def _read(self, name: str) -> None:
        conn, reading = user_connection(self.world, autocommit=True), self.readings[name]
        cursor = (0, 0)
        while True:
            over = self._over.is_set()
            rows = self._some(conn, name, cursor)
            reading.seen += [row[:3] for row in rows]
            if rows:
                cursor = (rows[-1][3], rows[-1][0]) if name == "xid" else (rows[-1][0], 0)
            elif over:
                return

    def _some(self, conn: psycopg.Connection[Any], name: str, cursor: tuple[int, int]) -> list[Any]:
        if name == "marks":
            events = run(conn, read_after(cursor[0], limit=2000), self.world.schema)
            return [(event.position, event.stream, event.version) for event in events]
        return conn.execute(NAIVE[name].encode(), cursor if name == "xid" else cursor[:1]).fetchall()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.running(servers.available()[0], Path(folder)) as url,
        new_world(url) as world,
    ):
        began = time.monotonic()
        soak = Soak(world, events=asked.events, writers=asked.writers, seed=asked.seed)
        faults = soak.run()
        print(f"seed {asked.seed}: {len(soak.committed):,} events committed in {time.monotonic() - began:.0f} s")
        for name, found in faults.items():
            print(f"  {name:9} " + ", ".join(f"{n:,} {what}" for what, n in found.items()))
    if +faults["marks"]:
        return 1
    return 0 if faults["sequence"]["missed"] and faults["xid"]["inversions"] else 2


if __name__ == "__main__":
    sys.exit(main())
