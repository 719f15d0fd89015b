"""How fast do worker processes drain a backlog? A ratio to the reference loop without handlers, taken in one run.

Worker processes (an async handler that does nothing, every guard on) and as many raw clients take turns on the same
server, each turn on a fresh backlog, the raw loop with the batch that the workers were seen to claim. Medians of the
turns are compared; the last line is the ratio for one process, and below --least the exit code is 1.
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

from tenure import postgres
from tenure.model.rows import BUCKETS, NewRow
from tenure.postgres import migrate

from . import raw
from .crew import WorkerProcess, eventually, hired
from .server import bench_server

START_SECONDS = 0.5  # for raw clients to connect, so that all begin at once
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
    claimed: int  # rows a claim, the median
    settled: int


def main() -> int:
    """Both sizes of crew; the ratio for one process stands last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30_000, help="jobs a turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--slots", type=int, default=200, help="slots of a worker process")
    parser.add_argument("--least", type=float, default=0.5, help="the ratio that must be reached with one process")
    given = parser.parse_args()
    with bench_server() as url, postgres.connect(url, application_name="tenure bench") as conn:
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
            ours.append(drain(conn, crew, jobs))
            raws.append(drain_raw(conn, url, clients, n, jobs, batch=ours[-1].claimed))
        assert [worker.end() for worker in crew] == [0] * n, "a worker did not leave in good order"
    print(f"\n{n} of each, {jobs:,} jobs a turn, medians of {rounds} turns")
    tell("raw", raws)
    tell("tenure", ours)
    return median(ours, "jobs_per_second") / median(raws, "jobs_per_second")


def tell(name: str, turns: list[Turn]) -> None:
    """One line of the table, with every turn's rate behind it."""
    rate, cpu, claimed, settled = (median(turns, what) for what in Turn.__slots__)
    each = ", ".join(f"{turn.jobs_per_second:,.0f}" for turn in turns)
    print(
        f"  {name:<8} {rate:>7,.0f} jobs/s   {cpu:>3.0f} µs of client CPU a job"
        f"   batches of {claimed:.0f} claimed, {settled:.0f} settled   ({each})",
        flush=True,
    )


def median(turns: list[Turn], what: str) -> float:
    """Of one figure, over the turns."""
    return float(statistics.median(getattr(turn, what) for turn in turns))


def drain(conn: Connection[Any], crew: list[WorkerProcess], jobs: int) -> Turn:
    """A backlog put in by COPY, drained by the crew: from the first claim to the last completion, by the database."""
    conn.execute("TRUNCATE tenure.live, tenure.archive")
    payload = {"email": "someone@example.com", "note": "x" * 60}
    cpu = sum(worker.cpu_seconds() for worker in crew)
    with conn.transaction():
        postgres.copy(conn, (NewRow("nothing", {"order_id": k, **payload}, key=f"order:{k}") for k in range(jobs)))
        conn.execute("SELECT tenure.wake('default', NULL)")  # COPY wakes nobody: all shall begin at once
    eventually(lambda: conn.execute("SELECT 1 FROM tenure.live LIMIT 1").fetchone() is None, seconds=120)
    cpu = sum(worker.cpu_seconds() for worker in crew) - cpu
    done, seconds = conn.execute(_RATE).fetchone() or (0, 0)
    assert done == jobs, f"{done} of {jobs} jobs were completed"
    claimed, settled = conn.execute(_BATCHES).fetchone() or (0, 0)
    return Turn(jobs / seconds, 1e6 * cpu / jobs, claimed, settled)


def drain_raw(conn: Connection[Any], url: str, clients: ProcessPoolExecutor, n: int, jobs: int, *, batch: int) -> Turn:
    """As many jobs by the reference loop, shared by n clients: from the first to start to the last to end."""
    raw.Loop(conn, "bucket", batch=batch, backlog=int(jobs * SLACK))
    turns, at = jobs // n // batch, time.monotonic() + START_SECONDS
    took = [future.result() for future in [clients.submit(turn_raw, url, k / n, batch, turns, at) for k in range(n)]]
    began, ended, cpu = zip(*took, strict=True)
    done = turns * n * batch
    return Turn(done / (max(ended) - min(began)), 1e6 * sum(cpu) / done, batch, batch)


def turn_raw(url: str, first: float, batch: int, turns: int, at: float) -> tuple[float, float, float]:
    """In a process of its own: one raw client's share. When it began and ended, and the CPU it took."""
    with postgres.connect(url, application_name="tenure bench raw") as conn:
        loop = raw.Loop(conn, "bucket", batch=batch, first=int(first * BUCKETS))
        time.sleep(max(0.0, at - time.monotonic()))
        began, cpu = time.monotonic(), time.process_time()
        for _ in range(turns):
            loop.turn()
        return began, time.monotonic(), time.process_time() - cpu


if __name__ == "__main__":
    sys.exit(main())
