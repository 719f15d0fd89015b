"""The ground a curve stands on: rows that wait, history, rows of later, and one worker that drains beside them."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from psycopg import Connection

from ..cpu import Sessions
from ..crew import WorkerProcess, eventually, hired

WINDOWS = 3
WINDOWED = 20_000  # jobs
BEST = ("--slots", "500")
FILL_ROWS = 100_000  # a transaction
NOTE_BYTES = 60  # with the rest of the payload about a hundred

_TABLES = "tenure.live, tenure.archive, tenure.attempts, tenure.claims, tenure.arrivals, tenure.heads"
_FILL = """
INSERT INTO tenure.live (kind, queue, partition_key, ordered, available_at, payload)
SELECT 'nothing', CASE %(queues)s WHEN 1 THEN 'default' ELSE 'q' || k %% %(queues)s END, 'order:' || k %% %(keys)s,
       %(ordered)s, statement_timestamp() + make_interval(secs => %(later)s),
       jsonb_build_object('order_id', k, 'email', 'someone@example.com', 'note', %(note)s::text)
FROM generate_series(%(first)s::int, %(last)s::int) AS k
"""
_HISTORY = """
INSERT INTO tenure.archive (id, created_at, available_at, claimed_at, completed_at, lease_generation, fence_token,
  attempts, max_attempts, priority, ordered, kind, queue, partition_key, finished_by, payload)
SELECT gen_random_uuid(), t, t, t, t, 1, k, 1, 10, 0, false, 'nothing', 'default', 'order:' || k, 'bench',
       jsonb_build_object('order_id', k, 'email', 'someone@example.com', 'note', repeat('x', 60))
FROM generate_series(%s::int, %s::int) AS k, (SELECT clock_timestamp() AS t) AS now
"""
_DONE = "SELECT count(*) FROM tenure.archive WHERE completed_at > %s"
_WINDOWS = """
SELECT count(*), date_part('epoch', min(claimed_at)), date_part('epoch', max(completed_at)) FROM (
  SELECT claimed_at, completed_at, ntile(%(windows)s) OVER (ORDER BY completed_at) AS part FROM (
    SELECT claimed_at, completed_at FROM tenure.archive WHERE completed_at > %(since)s
    ORDER BY completed_at LIMIT %(jobs)s) AS first) AS parts
GROUP BY part ORDER BY part
"""


@dataclass(frozen=True, slots=True)
class Point:
    """One place on a curve: the median of some windows, the smallest and the largest."""

    x: float
    rate: float
    low: float
    high: float
    client: float = 0.0  # µs of processor time a job, where one worker drains
    server: float = 0.0


def clear(conn: Connection[Any]) -> None:
    """Nothing waits, nothing was."""
    conn.execute(f"TRUNCATE {_TABLES}".encode())


def fill(
    conn: Connection[Any],
    rows: int,
    *,
    queues: int = 1,
    keys: int = 1_000_000,
    ordered: bool = False,
    later: float = 0.0,
    note: int = NOTE_BYTES,
) -> None:
    """So many rows more, spread over queues and keys, due now or later."""
    more = {"queues": queues, "keys": keys, "ordered": ordered, "later": later, "note": "x" * note}
    step = max(1, min(FILL_ROWS, 200_000_000 // max(note, 1_000)))
    for first in range(1, rows + 1, step):
        conn.execute(_FILL.encode(), {**more, "first": first, "last": min(first + step - 1, rows)})
    conn.execute("VACUUM ANALYZE tenure.live")


def history(conn: Connection[Any], rows: int) -> None:
    """So many rows completed."""
    for first in range(1, rows + 1, FILL_ROWS):
        conn.execute(_HISTORY.encode(), [first, min(first + FILL_ROWS - 1, rows)])
    conn.execute("VACUUM ANALYZE tenure.archive")


@contextlib.contextmanager
def one_worker(url: str, *options: str) -> Iterator[WorkerProcess]:
    """A worker with the best settings; it leaves in good order, so that the next one is alone."""
    with (
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
        hired(url, "bench.apps:quick", folder, *BEST, *options) as crew,
    ):
        yield crew[0]
        try:
            crew[0].end()
        except subprocess.TimeoutExpired:
            print("  the worker did not leave within a minute of SIGTERM", flush=True)


def drained(url: str, conn: Connection[Any], x: float, jobs: int, *options: str) -> Point:
    """The rate of a worker over the next so many jobs of what waits, by the database's clock, in windows."""
    (since,) = conn.execute("SELECT clock_timestamp()").fetchone() or (None,)
    with one_worker(url, *options) as worker:
        sessions, client, before = Sessions(conn), worker.cpu_seconds(), done(conn, since)
        eventually(lambda: done(conn, since) >= jobs, seconds=900)
        server, client, more = sessions.seconds(), worker.cpu_seconds() - client, done(conn, since) - before
    each = 1e6 / max(more, 1)  # what it did before we looked was not looked at
    return replace(windows(conn, x, since, jobs), client=each * client, server=each * server)


def done(conn: Connection[Any], since: Any) -> int:
    """Jobs completed since then."""
    (count,) = conn.execute(_DONE, [since]).fetchone() or (0,)
    return int(count)


def windows(conn: Connection[Any], x: float, since: Any, jobs: int) -> Point:
    """What was completed since then, as a point: in windows where each has many batches, else as a whole."""
    parts = {"windows": WINDOWS if jobs >= WINDOWED else 1, "since": since, "jobs": jobs}
    rows = conn.execute(_WINDOWS.encode(), parts).fetchall()
    ends = [rows[0][1], *(end for _, _, end in rows)]
    rates = [n / (end - start) for (n, _, _), start, end in zip(rows, ends, ends[1:], strict=False)]
    return Point(x, statistics.median(rates), min(rates), max(rates))


def counted(conn: Connection[Any], x: float, since: Any, seconds: float) -> Point:
    """What was completed since then, so many seconds ago."""
    rate = done(conn, since) / seconds
    return Point(x, rate, rate, rate)


def waited(seconds: float, began: float) -> None:
    """Sleep until so long after."""
    time.sleep(max(0.0, began + seconds - time.monotonic()))
