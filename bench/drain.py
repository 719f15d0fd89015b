"""How fast do worker processes drain a backlog? A ratio to the reference loop without handlers, taken in one run.

Raw clients and worker processes take turns on the same server: so many raw clients, then as many workers (an async
handler that does nothing, every guard on), each turn on a fresh backlog. Medians of the turns are compared; the last
line is the ratio for one process, and below --least the exit code is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from tenure import db, migrate
from tenure.model import NewRow

from . import raw
from .crew import WorkerProcess, eventually, hired
from .server import bench_server

BATCH = 100  # jobs a turn of the raw loop
SLACK = 1.5  # the raw loop stops before its backlog runs dry: a short batch would tell of something else

_RATE = "SELECT count(*), date_part('epoch', max(completed_at) - min(claimed_at)) FROM tenure.archive"
_BATCHES = """
SELECT (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM (
          SELECT count(*) AS n FROM tenure.archive GROUP BY fence_token) AS claims),
       (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM (
          SELECT count(*) AS n FROM tenure.archive GROUP BY xmin::text) AS settles)
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One backlog drained."""

    jobs_per_second: float
    cpu_micros: float  # of the client, a job
    claimed: int = BATCH  # the median batch
    settled: int = BATCH


def main() -> int:
    """Both sizes of crew; the ratio for one process stands last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30_000, help="jobs a turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--slots", type=int, default=200, help="slots of a worker process")
    parser.add_argument("--least", type=float, default=0.5, help="the ratio that must be reached with one process")
    given = parser.parse_args()
    with bench_server() as url, db.connect(url, application_name="tenure bench") as conn:
        migrate.apply(conn)
        ratios = [compare(conn, url, n, given.jobs, given.rounds, given.slots) for n in (2, 1)]
    print(f"\ntwo worker processes / two raw clients   {ratios[0]:.2f}")
    print(f"one worker process / one raw client      {ratios[1]:.2f}   (at least {given.least})")
    return 0 if ratios[1] >= given.least else 1


def compare(conn: Connection[Any], url: str, n: int, jobs: int, rounds: int, slots: int) -> float:
    """n workers against n raw clients, turn about; the ratio of their medians."""
    raws: list[Turn] = []
    ours: list[Turn] = []
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
        ProcessPoolExecutor(n, mp_context=spawn) as clients,
        hired(url, "bench.apps:quick", folder, "--slots", str(slots), n=n) as crew,
    ):
        for _ in range(rounds):
            raws.append(drain_raw(conn, url, clients, n, jobs))
            ours.append(drain(conn, crew, jobs))
    print(f"\n{n} and {n}, {jobs:,} jobs a turn, {rounds} turns each: medians")
    for name, turns in (("raw", raws), ("tenure", ours)):
        print(
            f"  {name:<8}{median(turns, 'jobs_per_second'):>9,.0f} jobs/s {median(turns, 'cpu_micros'):>6.0f} µs of "
            f"client CPU a job, batches of {median(turns, 'claimed'):.0f} claimed, {median(turns, 'settled'):.0f} settled"
            f"   ({', '.join(f'{turn.jobs_per_second:,.0f}' for turn in turns)})",
            flush=True,
        )
    return median(ours, "jobs_per_second") / median(raws, "jobs_per_second")


def median(turns: list[Turn], what: str) -> float:
    """Of one figure, over the turns."""
    return statistics.median(getattr(turn, what) for turn in turns)


def drain(conn: Connection[Any], crew: list[WorkerProcess], jobs: int) -> Turn:
    """A backlog put in by COPY, drained by the crew: from the first claim to the last completion, by the database."""
    conn.execute("TRUNCATE tenure.live, tenure.archive")
    payload = {"email": "someone@example.com", "note": "x" * 60}
    cpu = sum(worker.cpu_seconds() for worker in crew)
    db.copy(conn, (NewRow("nothing", {"order_id": k, **payload}, key=f"order:{k}") for k in range(jobs)))
    eventually(lambda: conn.execute("SELECT 1 FROM tenure.live LIMIT 1").fetchone() is None, seconds=120)
    cpu = sum(worker.cpu_seconds() for worker in crew) - cpu
    done, seconds = conn.execute(_RATE).fetchone() or (0, 0)
    assert done == jobs, f"{done} of {jobs} jobs were completed"
    claimed, settled = conn.execute(_BATCHES).fetchone() or (0, 0)
    return Turn(jobs / seconds, 1e6 * cpu / jobs, claimed, settled)


def drain_raw(conn: Connection[Any], url: str, clients: ProcessPoolExecutor, n: int, jobs: int) -> Turn:
    """As many jobs by the reference loop, shared by n clients: from the first to start to the last to end."""
    raw.Loop(conn, "bucket", batch=BATCH, backlog=int(jobs * SLACK))
    turns = jobs // n // BATCH
    took = list(clients.map(turn_raw, [url] * n, range(n), [n] * n, [turns] * n, [time.monotonic() + 0.5] * n))
    began, ended, cpu = zip(*took, strict=True)
    return Turn(turns * n * BATCH / (max(ended) - min(began)), 1e6 * sum(cpu) / jobs)


def turn_raw(url: str, which: int, n: int, turns: int, at: float) -> tuple[float, float, float]:
    """In a process of its own: one raw client's share. When it began and ended, and the CPU it took."""
    with db.connect(url, application_name="tenure bench raw") as conn:
        loop = raw.Loop(conn, "bucket", batch=BATCH, first=which * 1024 // n)
        time.sleep(max(0.0, at - time.monotonic()))
        began, cpu = time.monotonic(), time.process_time()
        for _ in range(turns):
            loop.turn()
        return began, time.monotonic(), time.process_time() - cpu


if __name__ == "__main__":
    sys.exit(main())
