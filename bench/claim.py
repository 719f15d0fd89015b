"""Does the claim stay flat, and what do our guards cost? Ratios of one run; exit 1 when a bound is broken.

1. Claim time at a backlog of 1k, 100k and 1M, with all and with an eighth of the buckets, and with the oldest rows in
   other workers' buckets: largest / smallest must be at most 2.
2. The loop of claim and batch complete through our verbs, against the best raw guarded design: at least 0.8.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from tenure import db, migrate, settle, verbs
from tenure.model import Lease

from . import raw
from .server import bench_server

FLAT_MAX = 2.0
RAW_MIN = 0.8
BATCH = 100  # jobs a turn of the loop
CLAIM = 25  # rows a claim, where claims alone are timed: an eighth of 1,000 rows must still have them
EIGHTH = tuple(range(0, 1024, 8))

_FILL = """
INSERT INTO tenure.live (kind, partition_key, available_at, payload)
SELECT 'send_receipt', 'order:' || k, %(at)s::timestamptz,
       jsonb_build_object('order_id', k, 'email', 'someone@example.com', 'note', repeat('x', 60))
FROM (SELECT (random() * 1e6)::int AS k FROM generate_series(1, %(n)s)) AS keys
WHERE %(old)s::boolean IS NOT TRUE OR tenure.bucket('order:' || k) %% 8 <> 0
"""


def main() -> int:
    """Both measurements; the ratios stand last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 100_000, 1_000_000], help="backlogs")
    parser.add_argument("--jobs", type=int, default=40_000, help="jobs per loop")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the loops, interleaved; the best pair counts")
    given = parser.parse_args()
    with bench_server() as url, db.connect(url, application_name="tenure bench") as conn:
        migrate.apply(conn)
        against_raw = compare(conn, given.jobs, given.rounds)
        flat = flatness(conn, given.rows)
    verdict = flat <= FLAT_MAX and against_raw >= RAW_MIN
    print(f"\nloop through our verbs / best raw design   {against_raw:.2f}   (at least {RAW_MIN})")
    print(f"claim time, largest / smallest             {flat:.2f}   (at most {FLAT_MAX})")
    return 0 if verdict else 1


def flatness(conn: Connection[Any], backlogs: Sequence[int]) -> float:
    """Claim medians by backlog and by share of the buckets; the largest over the smallest."""
    print(
        f"\nclaim of {CLAIM} rows, median ms    no buckets   all buckets   an eighth   an eighth, older rows elsewhere"
    )
    medians: list[float] = []
    for rows in backlogs:
        fill(conn, rows)
        shares = [measure(conn, None), measure(conn, verbs.ALL_BUCKETS), measure(conn, EIGHTH)]
        fill(conn, rows, older_elsewhere=True)
        shares.append(measure(conn, EIGHTH))
        medians += shares
        shown = "".join(f"{1000 * share:>{width}.2f}" for share, width in zip(shares, (14, 14, 12, 34), strict=True))
        print(f"{rows:>20,} pending{shown}", flush=True)
    return max(medians) / min(medians)


def fill(conn: Connection[Any], rows: int, *, older_elsewhere: bool = False) -> None:
    """A backlog; with older_elsewhere half of it is an hour older and lies in the other seven eighths."""
    conn.execute("TRUNCATE tenure.live, tenure.archive, tenure.attempts, tenure.keys")
    left = rows
    while left > 0:
        n = min(left, 10_000)
        params = {"n": n, "at": "now", "old": False}
        if older_elsewhere and left > rows / 2:
            params |= {"at": time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(time.time() - 3600)), "old": True}
        conn.execute(_FILL.encode(), params)
        left -= n
    conn.execute("VACUUM ANALYZE tenure.live")


def measure(conn: Connection[Any], buckets: Sequence[int] | None, times: int = 41) -> float:
    """Median seconds of a claim that finds its fill; what it takes goes back before the next."""
    took: list[float] = []
    for turn in range(times):
        share = None if buckets is None else slice_of(buckets, turn)
        statement = verbs.claim("bench", CLAIM, buckets=share, per_bucket=8)
        began = time.perf_counter()
        jobs = db.run(conn, statement)
        took.append(time.perf_counter() - began)
        assert len(jobs) == CLAIM, f"only {len(jobs)} rows claimed: the measurement ran dry"
        db.run(conn, settle.release([job.lease for job in jobs]))
    return statistics.median(took)


def slice_of(buckets: Sequence[int], turn: int, width: int = 128) -> list[int]:
    """The slice a worker looks at in this turn: it goes round its buckets, a part of them at a time."""
    at = turn * BATCH // 8
    return [buckets[(at + n) % len(buckets)] for n in range(min(width, len(buckets)))]


def compare(conn: Connection[Any], jobs: int, rounds: int) -> float:
    """Interleaved rounds of the raw designs and of our two claims; the median of the ratios to the best raw design."""
    print(f"\nclaim + guarded complete, batch {BATCH}, one client, jobs/s")
    print("round      raw by time    raw by bucket    tenure, any bucket    tenure, by bucket     ratio")
    ratios: list[float] = []
    for turn in range(1, rounds + 1):
        speeds = []
        for design in ("time", "bucket"):
            raw.prepare(conn, design, jobs + 10_000)
            speeds.append(raw.loop(conn, design, BATCH, jobs))
        for by_bucket in (False, True):
            fill(conn, jobs + 10_000)
            speeds.append(ours(conn, jobs, by_bucket=by_bucket))
        ratios.append(max(speeds[2:]) / max(speeds[:2]))
        shown = "".join(f"{speed:>{width},.0f}" for speed, width in zip(speeds, (17, 17, 22, 21), strict=True))
        print(f"{turn:>5}{shown}{ratios[-1]:>10.2f}", flush=True)
    return statistics.median(ratios)


def ours(conn: Connection[Any], total: int, *, by_bucket: bool) -> float:
    """Jobs a second through our verbs: the last batch completed and the next claimed in one pipelined round trip."""
    held: list[Lease] = []
    done = turn = 0
    began = time.perf_counter()
    while done < total:
        share = slice_of(verbs.ALL_BUCKETS, turn) if by_bucket else None
        taking = verbs.claim("bench", BATCH, buckets=share, per_bucket=8)
        if held:
            settled, jobs = db.run_both(conn, settle.complete(held), taking)
            done += sum(each.ok for each in settled)
        else:
            jobs = db.run(conn, taking)
        held = [job.lease for job in jobs]
        turn += 1
    return done / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
