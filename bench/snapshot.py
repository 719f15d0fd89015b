"""Does a transaction that somebody left open slow the inbox down? A steady load while a snapshot is held.

Another session keeps a REPEATABLE READ transaction open, so no dead version of a row can be cleaned away. A producer
enqueues at a steady rate, one worker process drains; every claim is timed in the worker (the trip that ends one batch
and claims the next). The rows are plain, ordered by key, or of a queue with one at a time for each key. The last line
compares the last interval with the first: exit 1 when claims take more than twice as long or the rate has fallen by
more than a fifth.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import psycopg

from tenure import postgres, verbs
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from tenure.verbs import queues

from .crew import eventually, hired
from .server import bench_server

GROWTH_MAX = 2.0
RATE_MIN = 0.8
KEYS = 5_000
PACE_SECONDS = 0.02  # between two batches of the producer
WARM_SECONDS = 5.0

_DEAD = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'tenure.live'::regclass"


@dataclass(frozen=True, slots=True)
class Interval:
    """What the worker did in a stretch of time."""

    jobs_per_second: float
    p50: float  # seconds of a claim
    p99: float
    backlog: int


def main() -> int:
    """The intervals as they pass; first and last compared at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="how long the snapshot is held")
    parser.add_argument("--every", type=float, default=15.0, help="seconds of an interval")
    parser.add_argument("--rate", type=int, default=1_500, help="jobs a second")
    parser.add_argument("--rows", choices=("plain", "ordered", "limited"), default="plain", help="which way to claim")
    given = parser.parse_args()
    with (
        bench_server() as url,
        postgres.connect(url) as conn,
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
    ):
        migrate.apply(conn)
        if given.rows == "limited":
            postgres.run(conn, queues.limit("default", max_per_key=1))
        ledger = Path(folder) / "claims"
        hands = hired(url, "bench.timed:quick", folder, "--slots", "200", BENCH_CLAIMS=str(ledger))
        with hands:
            with producing(url, given.rate, given.rows) as sent:
                time.sleep(WARM_SECONDS)
                with held_snapshot(url):
                    print("snapshot held        jobs/s   backlog   claim p50     p99, ms     dead versions")
                    intervals = list(watch(conn, ledger, sent, given.seconds, given.every))
            settle_up(conn, sent.value)
    claims = intervals[-1].p50 / intervals[0].p50
    rate = intervals[-1].jobs_per_second / intervals[0].jobs_per_second
    bounds = f"claim time {claims:.2f} (at most {GROWTH_MAX}), rate {rate:.2f} (at least {RATE_MIN})"
    print(f"\nlast / first interval: {bounds}")
    return 0 if claims <= GROWTH_MAX and rate >= RATE_MIN else 1


@contextmanager
def held_snapshot(url: str) -> Iterator[None]:
    """A session that looked once and never left."""
    with psycopg.connect(url, application_name="tenure bench snapshot") as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("SELECT count(*) FROM tenure.live")
        yield
        conn.rollback()


@contextmanager
def producing(url: str, rate: int, rows: str) -> Iterator[Synchronized[int]]:
    """A process that enqueues at this rate, and how many rows it has sent."""
    spawn = multiprocessing.get_context("spawn")
    sent, ended = spawn.Value("q", 0), spawn.Event()
    process = spawn.Process(target=produce, args=(url, rate, rows, sent, ended))
    process.start()
    try:
        yield sent
    finally:
        ended.set()
        process.join(30)


def produce(url: str, rate: int, rows: str, sent: Synchronized[int], ended: Any) -> None:
    """In a process of its own: small batches, paced by the clock, catching up when one came late."""
    with postgres.connect(url, application_name="tenure bench producer") as conn:
        began = time.monotonic()
        while not ended.wait(PACE_SECONDS):
            due = int((time.monotonic() - began) * rate) - sent.value
            ids = range(sent.value, sent.value + due)
            postgres.run(conn, verbs.enqueue_many([new(k, rows) for k in ids]))
            sent.value += due


def new(k: int, rows: str) -> NewRow:
    """One job: of a key of its own, or of one of KEYS keys if these are ordered or limited."""
    fields = {"order_id": k, "email": "someone@example.com", "note": "x" * 60}
    return NewRow("nothing", fields, key=f"order:{k if rows == 'plain' else k % KEYS}", ordered=rows == "ordered")


def watch(
    conn: psycopg.Connection[Any], ledger: Path, sent: Synchronized[int], seconds: float, every: float
) -> Iterator[Interval]:
    """Interval after interval, printed."""
    began = time.monotonic()
    for n in range(max(2, round(seconds / every))):
        time.sleep(max(0.0, began + (n + 1) * every - time.monotonic()))
        found = interval(ledger, began + n * every, every, sent.value)
        (dead,) = conn.execute(_DEAD).fetchone() or (0,)
        print(
            f"{(n + 1) * every:>9.0f} s {found.jobs_per_second:>14,.0f} {found.backlog:>9,} "
            f"{1000 * found.p50:>11.2f} {1000 * found.p99:>11.2f} {dead:>17,}",
            flush=True,
        )
        yield found


def interval(ledger: Path, since: float, seconds: float, sent: int) -> Interval:
    """What the worker's ledger says of this stretch; what was sent and never claimed is the backlog."""
    claims = [line.split() for line in ledger.read_text().splitlines()[:-1]]
    rows = sum(int(n) for at, _, n in claims if since <= float(at) < since + seconds)
    took = [float(each) for at, each, _ in claims if since <= float(at) < since + seconds]
    parts = statistics.quantiles(took, n=100)
    return Interval(rows / seconds, parts[49], parts[98], sent - sum(int(n) for *_, n in claims))


def settle_up(conn: psycopg.Connection[Any], sent: int) -> None:
    """Every row that was sent is completed, exactly once."""
    eventually(lambda: conn.execute("SELECT 1 FROM tenure.live LIMIT 1").fetchone() is None)
    done = conn.execute("SELECT count(*), count(DISTINCT id) FROM tenure.archive").fetchone()
    assert done == (sent, sent), f"{sent} rows were sent, {done} completed"


if __name__ == "__main__":
    sys.exit(main())
