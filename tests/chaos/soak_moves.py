"""Ranges of a Citus cluster move under load, and workers are killed: every key keeps its order, no row is lost.

`python -m chaos.soak_moves --moves 100 --seed 7`, with TENURE_CITUS_BIN. Exit code 0: held, 1: not.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.errors import SerializationFailure

import citus_cluster
from apps.ledger import read
from apps.moved import moved
from citus_cluster import Cluster
from crew import Process, eventually
from guarantees.test_citus_moves import away_from, move
from tenure import postgres, verbs
from tenure.model.rows import NewRow
from world import World

KEYS, SENDERS, WORKERS, KILL_SECONDS = 200, 4, 4, 5.0
TERMS = ("--citus", "--lease-seconds", "5", "--grace-seconds", "2", "--drain-seconds", "2")
APART_SECONDS = 1.0  # between two moves of a range, so that clocks of the nodes tell its stays apart
SETTLE_SECONDS = 300.0


@dataclass
class Tally:
    """What happened, and what was found wrong."""

    moves: int = 0
    kills: int = 0
    sent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    twice: int = 0
    again: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        rows, late = sum(self.sent.values()), statistics.quantiles(self.waited or [0, 0], n=100)
        return (
            f"{self.moves} moves, {self.kills} workers killed, {rows} rows of {len(self.sent)} keys"
            f" in {self.seconds:.0f} s ({rows / self.seconds:.0f}/s), each name sent twice,"
            f" {self.twice} of them accepted twice, {self.again} sent again: {len(self.wrong)} keys wrong;"
            f" sent to begun p50 {late[49]:.2f} s, p99 {late[98]:.2f} s"
        )


def soak(cluster: Cluster, folder: Path, moves: int, seed: int) -> Tally:
    """Send, move and kill until there were so many moves, then wait until all is done, and judge."""
    tally, over, began = Tally(), threading.Event(), time.monotonic()
    world = World(cluster.url, "tenure")
    keys = [f"key:{n}" for n in range(KEYS)]
    threads = [
        threading.Thread(target=_send, args=(cluster, keys[n::SENDERS], over, tally), daemon=True)
        for n in range(SENDERS)
    ]
    with _workers(world, folder, over, tally, seed):
        for thread in threads:
            thread.start()
        for n in range(moves):
            key = keys[n % len(keys)]
            move(cluster, key, away_from(cluster, key))
            tally.moves += 1
            time.sleep(APART_SECONDS)
        over.set()
        for thread in threads:
            thread.join(SETTLE_SECONDS)
        tally.seconds = time.monotonic() - began
        with contextlib.suppress(AssertionError):
            eventually(lambda: not any(cluster.rows("moved").values()), seconds=SETTLE_SECONDS)
    _judge(read(folder / "ledger.jsonl"), tally)
    world.close()
    return tally


def _send(cluster: Cluster, keys: list[str], over: threading.Event, tally: Tally) -> None:
    """Every row with a name, and every name a second time: that must be a duplicate."""
    chance = random.Random(keys[0])
    with cluster.at() as conn:
        while not over.is_set():
            key = chance.choice(keys)
            n = tally.sent[key]
            row = moved.row(key=key, n=n, sent_ns=time.monotonic_ns())
            first, second = (_enqueue(conn, row, f"{key}:{n}", tally) for _ in range(2))
            tally.twice += (first, second) != ("enqueued", "duplicate")
            tally.sent[key] = n + 1


def _enqueue(conn: psycopg.Connection[Any], row: NewRow, name: str, tally: Tally) -> str:
    while True:
        try:
            return postgres.run(conn, verbs.enqueue(replace(row, idempotency_key=name)), "tenure_door").outcome
        except SerializationFailure:
            tally.again += 1


@contextlib.contextmanager
def _workers(world: World, folder: Path, over: threading.Event, tally: Tally, seed: int) -> Iterator[None]:
    """A crew of which one is killed every few seconds, and another takes its place."""
    chance = random.Random(seed)
    crew = [Process(world, "apps.moved:inbox", folder, *TERMS) for _ in range(WORKERS)]

    def kill() -> None:
        while not over.wait(KILL_SECONDS):
            victim = chance.randrange(WORKERS)
            crew[victim].process.kill()
            crew[victim].process.wait(90)
            crew[victim] = Process(world, "apps.moved:inbox", folder, *TERMS)
            tally.kills += 1

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join(90)
        for worker in crew:
            worker.process.kill()
            worker.process.wait(90)


def _judge(lines: list[dict[str, Any]], tally: Tally) -> None:
    """Note the keys that are not as they should be, and how long each row waited."""
    begun: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["what"] == "start":
            begun[line["key"]].append(line)
    for key, sent in tally.sent.items():
        if not in_order(begun[key], sent):
            tally.wrong.append(key)
        first = {line["n"]: line for line in reversed(begun[key])}
        tally.waited += [(line["at_ns"] - line["sent_ns"]) / 1e9 for line in first.values()]


def in_order(begun: Sequence[Mapping[str, Any]], sent: int) -> bool:
    """No row of a key is missing, overtakes another or begins for a holder of before.

    A worker may have begun some rows of one claim and died before the database knew: another begins all of them again.
    """
    last, holder, tokens = -1, None, dict[int, int]()
    for line in begun:
        n = line["n"]
        back_at_another = n < last and line["pid"] != holder
        if not (n in (last, last + 1) or back_at_another) or line["token"] <= tokens.get(n, 0):
            return False
        last, holder, tokens[n] = n, line["pid"], line["token"]
    return last == sent - 1


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    given = parser.parse_args()
    if not citus_cluster.BIN:
        print("TENURE_CITUS_BIN is not set: it names a folder with initdb, postgres and the Citus extension")
        return 2
    with tempfile.TemporaryDirectory() as folder, citus_cluster.running(Path(folder)) as cluster:
        tally = soak(cluster, Path(folder), given.moves, given.seed)
    print(f"seed {given.seed}: {tally}")
    return 1 if tally.wrong or tally.twice or not tally.waited else 0


if __name__ == "__main__":
    sys.exit(main())
