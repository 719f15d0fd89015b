"""What does an idle fleet ask of the server, and does it still hear of a row at once? One worker, then eight.

The server counts the transactions of its database over --seconds, one for each session that hears a note among them;
autovacuum, which has transactions of its own, is off. Then rows come one by one, and each is timed from when its commit
returned to the start of its handler.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from datetime import UTC, datetime
from statistics import median

import psycopg

from tenure import postgres, verbs
from tenure.model.rows import NewRow
from tenure.postgres import migrate

from .crew import WorkerProcess, hired
from .server import bench_server

MOST = {1: 2.0, 8: 8.0}  # transactions a second, of all workers together
START_MS = 100.0  # all but one start of a hundred
SETTLED_SECONDS = 12.0  # a session that has little to do reports what it did within ten
ROWS = 200
PAYLOAD = {"order_id": 1, "email": "ada@example.org", "note": ""}


def main() -> int:
    """One line a fleet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to count")
    given = parser.parse_args()
    good = True
    with bench_server(autovacuum="off") as url, postgres.connect(url) as conn, tempfile.TemporaryDirectory() as folder:
        migrate.apply(conn)
        for n, most in MOST.items():
            with hired(url, "bench.apps:quick", folder, "-v", n=n) as crew:
                rate = idle_rate(conn, n, given.seconds)
                waits = starts(conn, crew)
            p99 = waits[math.ceil(0.99 * len(waits)) - 1]
            print(
                f"{n} idle worker{'s' if n > 1 else ' '}  {rate:5.2f} transactions/s (at most {most:g})   "
                f"commit to start p50 {median(waits):.1f} ms, p99 {p99:.1f} ms (at most {START_MS:g})"
            )
            good &= rate <= most and p99 <= START_MS
    return 0 if good else 1


def idle_rate(conn: psycopg.Connection[tuple[int]], n: int, seconds: float) -> float:
    """Transactions a second in this database, without our own."""
    while conn.execute("SELECT count(*) FROM tenure.workers WHERE waiting").fetchone() != (n,):
        time.sleep(0.1)
    time.sleep(SETTLED_SECONDS)
    before, began = transactions(conn), time.monotonic()
    time.sleep(seconds)
    return (transactions(conn) - before - 1) / (time.monotonic() - began)


def transactions(conn: psycopg.Connection[tuple[int]]) -> int:
    """Committed in this database so far, as far as sessions have reported."""
    found = conn.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").fetchone()
    return found[0] if found else 0


def starts(conn: psycopg.Connection[tuple[int]], crew: list[WorkerProcess]) -> list[float]:
    """Milliseconds from commit to start, one row after the other, sorted."""
    sent: dict[str, datetime] = {}
    for _ in range(ROWS):
        enqueued = postgres.run(conn, verbs.enqueue(NewRow("nothing", PAYLOAD)))
        sent[str(enqueued.id)] = datetime.now(UTC)
        time.sleep(0.05)
    began: dict[str, datetime] = {}
    while len(began) < ROWS:
        for event in (event for worker in crew for event in worker.events("execution_started")):
            if event["job_id"] in sent:
                began[event["job_id"]] = datetime.fromisoformat(event["at"])
    return sorted((began[id] - sent[id]).total_seconds() * 1000 for id in sent)


if __name__ == "__main__":
    sys.exit(main())
