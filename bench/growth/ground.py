"""The ground a curve stands on: rows that wait, history, rows of later, and one worker that drains beside them.

A machine is twice as quick at one minute as at the next. So a plain loop without guards runs before and after every
turn, on a table of its own that does not grow, and a point is what we make of that loop's rate.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import Connection

from .. import plain
from ..cpu import Sessions, Taken
from ..crew import WorkerProcess, eventually, hired

TURNS = 3
BATCH = 100
PLAIN_ROWS = 20_000  # of the plain loop, before and after each turn
BEST = ("--slots", "500")
FILL_ROWS = 100_000  # a transaction
NOTE_BYTES = 60  # with the rest of the payload about a hundred

_TABLES = "tenure.live, tenure.archive, tenure.attempts, tenure.claims, tenure.arrivals, tenure.heads"
# They came one after the other, as from producers who send a hundred thousand a second.
_FILL = """
INSERT INTO tenure.live (kind, queue, partition_key, ordered, available_at, payload)
SELECT 'nothing', CASE %(queues)s WHEN 1 THEN 'default' ELSE 'q' || k %% %(queues)s END, 'order:' || k %% %(keys)s,
       %(ordered)s,
       statement_timestamp() - (%(last)s - k) * interval '10 microseconds' + %(later)s * interval '1 second',
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
# From where the archive ended on: rows come to its end alone, and a look at all of it would slow down what is measured.
_SINCE = "SELECT clock_timestamp(), format('(%s,0)', pg_relation_size('tenure.archive') / 8192)"
_DONE = "SELECT count(*) FROM tenure.archive WHERE completed_at > %s AND ctid >= %s::tid"
_DUE = "SELECT count(*) FROM tenure.live WHERE available_at <= clock_timestamp()"
_RATE = """
SELECT count(*) / date_part('epoch', max(completed_at) - min(claimed_at)) FROM (
  SELECT claimed_at, completed_at FROM tenure.archive WHERE completed_at > %s AND ctid >= %s::tid
  ORDER BY completed_at LIMIT %s) AS first
"""


class Since(NamedTuple):
    """A moment, and where the archive ended."""

    at: Any
    end: str


@dataclass(frozen=True, slots=True)
class Point:
    """One place on a curve: its turns, and what the plain loop made of the machine around each."""

    x: float
    turns: tuple[Taken, ...]
    plain: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return statistics.median(turn.rate for turn in self.turns)

    @property
    def of_plain(self) -> float:
        """The same as a share of the plain loop's."""
        return statistics.median(turn.rate / plain for turn, plain in zip(self.turns, self.plain, strict=True))


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


def top_up(conn: Connection[Any], rows: int, **how: Any) -> None:
    """So many rows are due."""
    (due,) = conn.execute(_DUE).fetchone() or (0,)
    fill(conn, rows - due, **how)


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


def in_turns(conn: Connection[Any], x: float, ready: Callable[[], object], turn: Callable[[], Taken]) -> Point:
    """Some turns of ours, each made ready, and then between two of the plain loop."""
    taken, around = [], []
    for _ in range(TURNS):
        ready()
        before = plain_rate(conn)
        taken.append(turn())
        around.append((before + plain_rate(conn)) / 2)
    return Point(x, tuple(taken), tuple(around))


def plain_rate(conn: Connection[Any]) -> float:
    """What the machine makes of the plain loop, now."""
    plain.make(conn, PLAIN_ROWS)
    loop, began = plain.Plain(conn, batch=BATCH), time.perf_counter()
    for _ in range(PLAIN_ROWS // BATCH):
        loop.turn()
    return PLAIN_ROWS / (time.perf_counter() - began)


def drained(url: str, conn: Connection[Any], jobs: int, *options: str) -> Taken:
    """A worker over the next so many jobs of what waits, by the database's clock."""
    since = now(conn)
    with one_worker(url, *options) as worker:
        sessions, client, before = Sessions(conn), worker.cpu_seconds(), done(conn, since)
        eventually(lambda: done(conn, since) >= jobs, seconds=900)
        server, client, more = sessions.seconds(), worker.cpu_seconds() - client, done(conn, since) - before
    each = 1e6 / max(more, 1)  # what it did before we looked was not looked at
    return Taken(rate_since(conn, since, jobs), each * client, each * server)


def now(conn: Connection[Any]) -> Since:
    """By the database's clock."""
    at, end = conn.execute(_SINCE).fetchone() or (None, "")
    return Since(at, end)


def done(conn: Connection[Any], since: Since) -> int:
    """Jobs completed since then."""
    (count,) = conn.execute(_DONE, since).fetchone() or (0,)
    return int(count)


def rate_since(conn: Connection[Any], since: Since, jobs: int) -> float:
    """Of the first so many jobs that were completed since then, from the first claim to the last completion."""
    return float((conn.execute(_RATE, [*since, jobs]).fetchone() or (0.0,))[0])


def counted(conn: Connection[Any], x: float, since: Since, seconds: float) -> Point:
    """What was completed since then, so many seconds ago."""
    return Point(x, (Taken(done(conn, since) / seconds, 0.0, 0.0),))


def waited(seconds: float, began: float) -> None:
    """Sleep until so long after."""
    time.sleep(max(0.0, began + seconds - time.monotonic()))
