"""Transactions over two nodes of a Citus cluster whose servers are killed one after another: none torn, none lost.

`python -m chaos.soak_torn --seconds 600 --seed 7`, with TENURE_CITUS_BIN. Exit code 0: held, 1: not.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

import citus_cluster
from chaos.own_server import OwnServer
from crew import eventually
from tenure.postgres.citus_door import node_urls, open_door

NODES = 2
SENDERS = 8
EVERY_SECONDS = 2.0
RECOVERED_SECONDS = 240.0
SEND = "SELECT tenure_door.enqueue('pair', jsonb_build_object('pair', %s::text), %s)"


@dataclass
class Tally:
    """What the senders were told, and what was found when all was over."""

    kills: int = 0
    unsure: int = 0
    acknowledged: set[str] = field(default_factory=set)
    torn: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    prepared: int = 0

    @property
    def held(self) -> bool:
        """True if nothing is torn, lost, doubled or left prepared."""
        return not (self.torn or self.lost or self.doubled or self.prepared)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {len(self.acknowledged)} transactions over two nodes acknowledged,"
            f" {self.unsure} without an answer: {len(self.torn)} torn, {len(self.lost)} acknowledged and lost,"
            f" {len(self.doubled)} doubled, {self.prepared} left prepared"
        )


@contextlib.contextmanager
def cluster(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[list[OwnServer]]:
    """Three servers with an open door, the coordinator first."""
    os.environ["TENURE_PG_BIN"] = str(citus_cluster.BIN)
    with contextlib.ExitStack() as stack:
        try:
            made = []
            for name in ("c", "n1", "n2"):
                made.append(OwnServer(folder / name, {**citus_cluster.SETTINGS, **(settings or {})}))
                stack.callback(made[-1].close)
            citus_cluster.join([server.url for server in made])
            list(open_door(made[0].url))
            yield made
        finally:
            del os.environ["TENURE_PG_BIN"]


def soak(servers: Sequence[OwnServer], seconds: float, seed: int, senders: int = SENDERS) -> Tally:
    """Send and kill for so long, then wait until the cluster has recovered, and count."""
    tally, over, keys = Tally(), threading.Event(), keys_by_node(servers[0].url)
    threads = [
        threading.Thread(target=_send, args=(servers, keys, f"{seed}-{n}", over, tally), daemon=True)
        for n in range(senders)
    ]
    for thread in threads:
        thread.start()
    chance, began = random.Random(seed), time.monotonic()
    while time.monotonic() < began + seconds:
        victim = chance.choice(servers)
        victim.end("killed")
        victim.start()
        tally.kills += 1
        time.sleep(max(0.0, began + tally.kills * EVERY_SECONDS - time.monotonic()))
    over.set()
    for thread in threads:
        thread.join(RECOVERED_SECONDS)
    _judge(servers, tally)
    return tally


def keys_by_node(url: str, n: int = 20) -> list[list[str]]:
    """So many keys for each node with an inbox."""
    found: dict[int, list[str]] = {int(name): [] for name in node_urls(url)}
    with psycopg.connect(url, autocommit=True) as conn:
        for key in map(str, range(n * 20)):
            ((home,),) = conn.execute("SELECT tenure_door.home(%s)", [key]).fetchall()
            found[home].append(key)
    return [keys[:n] for keys in found.values()]


def _send(
    servers: Sequence[OwnServer], keys: Sequence[Sequence[str]], name: str, over: threading.Event, tally: Tally
) -> None:
    """Pairs of rows, one on each node, from whichever server answers; what gets no answer is not sent again."""
    chance, number = random.Random(name), 0
    while not over.is_set():
        try:
            with psycopg.connect(chance.choice(servers).url, connect_timeout=5, autocommit=True) as conn:
                conn.execute("SET statement_timeout = '10s'")
                while not over.is_set():
                    number += 1
                    with conn.pipeline(), conn.transaction():
                        for each in keys:
                            conn.execute(SEND, [f"{name}-{number}", chance.choice(each)])
                    tally.acknowledged.add(f"{name}-{number}")
        except psycopg.Error:
            tally.unsure += 1
            time.sleep(0.05)


def _judge(servers: Sequence[OwnServer], tally: Tally) -> None:
    with contextlib.suppress(AssertionError):
        eventually(lambda: not _prepared(servers), seconds=RECOVERED_SECONDS)
    tally.prepared = _prepared(servers)
    sides = [Counter(_pairs(server)) for server in servers]
    found = sum(sides, Counter[str]())
    places = Counter(pair for side in sides for pair in side)
    tally.torn = [pair for pair, n in places.items() if n != NODES]
    tally.doubled = [pair for pair, n in found.items() if n > NODES]
    tally.lost = [pair for pair in tally.acknowledged if places[pair] != NODES]


def _prepared(servers: Sequence[OwnServer]) -> int:
    total = 0
    for server in servers:
        with psycopg.connect(server.url, autocommit=True) as conn:
            total += conn.execute("SELECT count(*) FROM pg_prepared_xacts").fetchall()[0][0]
    return total


def _pairs(server: OwnServer) -> list[str]:
    """The pairs that have a row in this server's inbox."""
    with psycopg.connect(server.url, autocommit=True) as conn:
        if conn.execute("SELECT to_regclass('tenure.live')").fetchall() == [(None,)]:
            return []
        return [pair for (pair,) in conn.execute("SELECT payload ->> 'pair' FROM tenure.live WHERE kind = 'pair'")]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--senders", type=int, default=SENDERS)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    given = parser.parse_args()
    if not citus_cluster.BIN:
        print("TENURE_CITUS_BIN is not set: it names a folder with initdb, postgres and the Citus extension")
        return 2
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # each killed connection is a warning
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as servers:
        tally = soak(servers, given.seconds, given.seed, given.senders)
    print(f"seed {given.seed}, {given.seconds:g} s: {tally}")
    return 0 if tally.held else 1


if __name__ == "__main__":
    sys.exit(main())
