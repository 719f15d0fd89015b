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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
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
RATE, GROUP, NAMED = 500.0, 20, 2  # rows a second; in one call; of them with a name, which is sent a second time
RANGES = 32  # as Citus makes them: with one move a second each stays longer than the ten seconds between two adoptions
HELD_SECONDS = 12.0
TERMS = ("--citus", "--lease-seconds", "5", "--grace-seconds", "2", "--drain-seconds", "2")
APART_SECONDS = 1.0  # between two moves of a range, so that clocks of the nodes tell its stays apart
SETTLE_SECONDS = 300.0


@dataclass
class Tally:
    """What happened, and what was found wrong."""

    moves: int = 0
    kills: int = 0
    sent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    names: int = 0
    twice: int = 0
    again: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Rows a second."""
        return sum(self.sent.values()) / self.seconds

    @property
    def held_seconds(self) -> float:
        """How long a key whose range has moved is held up, beyond what was to be worked off: p99."""
        return _cuts(self.held)[98]

    def __str__(self) -> str:
        late, held = _cuts(self.waited), _cuts(self.held)
        return (
            f"{self.moves} moves, {self.kills} workers killed, {sum(self.sent.values())} rows of {len(self.sent)} keys"
            f" in {self.seconds:.0f} s ({self.rate:.0f}/s), {self.names} of them with a name, each sent twice,"
            f" {self.twice} of them accepted twice, {self.again} sent again: {len(self.wrong)} keys wrong;"
            f" sent to begun p50 {late[49]:.2f} s, p99 {late[98]:.2f} s; {len(self.held)} times a key went on"
            f" elsewhere, held up beyond the rows to work off p50 {held[49]:.2f} s, p99 {held[98]:.2f} s"
        )


def _cuts(seconds: Sequence[float]) -> list[float]:
    return statistics.quantiles(seconds if len(seconds) > 1 else [0, 0], n=100)


def soak(cluster: Cluster, folder: Path, moves: int, seed: int, rate: float = RATE) -> Tally:
    """Send, move and kill until there were so many moves, then wait until all is done, and judge."""
    tally, over = Tally(), threading.Event()
    world = World(cluster.url, "tenure")
    keys = [f"key:{n}" for n in range(KEYS)]
    ranges = _ranges(cluster, keys)
    movable = list({number: key for key, number in ranges.items()}.values())
    threads = [
        threading.Thread(target=_send, args=(cluster, keys[n::SENDERS], rate / SENDERS, over, tally), daemon=True)
        for n in range(SENDERS)
    ]
    with _workers(world, folder, over, tally, seed):
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for n in range(moves):
            key = movable[n % len(movable)]
            move(cluster, key, away_from(cluster, key))
            tally.moves += 1
            time.sleep(APART_SECONDS)
        over.set()
        for thread in threads:
            thread.join(SETTLE_SECONDS)
        tally.seconds = time.monotonic() - began
        with contextlib.suppress(AssertionError):
            eventually(lambda: not any(cluster.rows("moved").values()), seconds=SETTLE_SECONDS)
    _judge(read(folder / "ledger.jsonl"), tally, ranges)
    world.close()
    return tally


def _ranges(cluster: Cluster, keys: Sequence[str]) -> dict[str, int]:
    with cluster.at() as conn:
        asked = "SELECT k, tenure_door.range_of(k) FROM unnest(%s::text[]) AS k"
        return dict(conn.execute(asked, [[*keys]]).fetchall())


def _send(cluster: Cluster, keys: list[str], rate: float, over: threading.Event, tally: Tally) -> None:
    """Groups of rows; those with a name are sent a second time, and that must be a duplicate."""
    chance, due = random.Random(keys[0]), time.monotonic()
    with cluster.at() as conn:
        while not over.wait(max(0.0, due - time.monotonic())):
            due += GROUP / rate
            group = []
            for at, key in enumerate(chance.sample(keys, GROUP)):
                row = moved.row(key=key, n=tally.sent[key], sent_ns=time.monotonic_ns())
                group.append(
                    msgspec.structs.replace(row, idempotency_key=f"{key}:{tally.sent[key]}") if at < NAMED else row
                )
            first = _enqueue(conn, group, tally)
            for row in group:
                tally.sent[str(row.key)] += 1
            second = _enqueue(conn, group[:NAMED], tally)
            tally.names += NAMED
            tally.twice += sum(outcome != "enqueued" for outcome in first)
            tally.twice += sum(outcome != "duplicate" for outcome in second)


def _enqueue(conn: psycopg.Connection[Any], rows: Sequence[NewRow], tally: Tally) -> list[str]:
    while True:
        try:
            return [each.outcome for each in postgres.run(conn, verbs.enqueue_many(rows), "tenure_door")]
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


def _judge(lines: list[dict[str, Any]], tally: Tally, ranges: Mapping[str, int]) -> None:
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
    tally.held = held_up(lines, ranges)


def held_up(lines: Sequence[Mapping[str, Any]], ranges: Mapping[str, int]) -> list[float]:
    """Where a key goes on in another inbox: since the row was sent and nothing of its range was left, in seconds."""
    last: dict[int, dict[str, int]] = defaultdict(dict)  # of each range: when each inbox began one of its rows
    homes, held, seen = dict[str, str](), list[float](), set[tuple[str, int]]()
    for line in sorted((line for line in lines if line["what"] == "start"), key=lambda line: line["at_ns"]):
        key, inbox = line["key"], line["worker"].rpartition("@")[2]
        others = [at for name, at in last[ranges[key]].items() if name != inbox]
        if (key, line["n"]) not in seen and homes.get(key, inbox) != inbox:
            held.append((line["at_ns"] - max(line["sent_ns"], *others)) / 1e9)
        seen.add((key, line["n"]))
        last[ranges[key]][inbox], homes[key] = line["at_ns"], inbox
    return held


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
    parser.add_argument("--rate", type=float, default=RATE, help="rows a second")
    parser.add_argument("--ranges", type=int, default=RANGES, help="few: they move on before they are at home")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    given = parser.parse_args()
    if not citus_cluster.BIN:
        print("TENURE_CITUS_BIN is not set: it names a folder with initdb, postgres and the Citus extension")
        return 2
    spread = {"citus.shard_count": str(given.ranges)}
    with tempfile.TemporaryDirectory() as folder, citus_cluster.running(Path(folder), spread) as cluster:
        tally = soak(cluster, Path(folder), given.moves, given.seed, given.rate)
    print(f"seed {given.seed}: {tally}")
    wrong = faults(tally, given.rate)
    print(*(f"   FAIL {words}" for words in wrong), sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def faults(tally: Tally, rate: float) -> list[str]:
    """What did not hold; a run below its load shows nothing."""
    found = {
        "keys are wrong": tally.wrong,
        "names were accepted twice": tally.twice,
        "nothing began": not tally.waited,
        f"less than {rate:g} rows a second": tally.rate < 0.95 * rate,
        f"held up for more than {HELD_SECONDS:g} s": tally.held_seconds > HELD_SECONDS,
    }
    return [words for words, fault in found.items() if fault]


if __name__ == "__main__":
    sys.exit(main())
