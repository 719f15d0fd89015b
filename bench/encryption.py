"""What do encrypted payloads cost? A backlog drained in clear and encrypted, turn about; a ratio taken in one run.

One worker process with handlers that do nothing, on the same server; the rows are put in by COPY, so that draining
alone is measured: claim, open, settle. Each turn is compared with its neighbour, by the database's clock and by the
client's processor time, and the median taken; the last line is the ratio of the rates. Below --least the exit code
is 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from typing import Any

from psycopg import Connection

from tenure import postgres
from tenure.app.handler import Handler
from tenure.postgres import migrate

from . import apps
from .cpu import Taken
from .crew import WorkerProcess, eventually, hired
from .server import bench_server

_RATE = "SELECT count(*), date_part('epoch', max(completed_at) - min(claimed_at)) FROM tenure.archive"


def main() -> int:
    """Both, turn about; the ratio stands last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs a turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--slots", type=int, default=200, help="slots of the worker process")
    parser.add_argument("--least", type=float, default=0.6, help="the ratio that must be reached")
    given = parser.parse_args()
    turns: dict[str, list[Taken]] = {"in clear": [], "encrypted": []}
    handlers = {"in clear": apps.in_clear, "encrypted": apps.encrypted}
    with (
        bench_server() as url,
        postgres.connect(url, application_name="tenure bench") as conn,
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
    ):
        migrate.apply(conn)
        with hired(url, "bench.apps:secret", folder, "--slots", str(given.slots)) as crew:
            for _ in range(given.rounds):
                for name, handler in handlers.items():
                    turns[name].append(drain(conn, crew, handler, given.jobs))
            assert [worker.end() for worker in crew] == [0], "the worker did not leave in good order"
    print(f"\n{given.jobs:,} jobs a turn, medians of {given.rounds} turns")
    for name, each in turns.items():
        rates = ", ".join(f"{turn.rate:,.0f}" for turn in each)
        rate, cpu = (statistics.median(getattr(turn, what) for turn in each) for what in ("rate", "client"))
        print(f"  {name:<10} {rate:>7,.0f} jobs/s   {cpu:>3.0f} µs of client CPU a job   ({rates})")
    rate, cpu = (compared(turns, what) for what in ("rate", "client"))
    print(f"\nclient CPU, encrypted / in clear    {cpu:.2f}")
    print(f"drain rate, encrypted / in clear    {rate:.2f}   (at least {given.least})")
    return 0 if rate >= given.least else 1


def compared(turns: dict[str, list[Taken]], what: str) -> float:
    """The median ratio of neighbouring turns: what slows the machine down for a while slows both."""
    pairs = zip(turns["encrypted"], turns["in clear"], strict=True)
    return float(statistics.median(getattr(one, what) / getattr(other, what) for one, other in pairs))


def drain(conn: Connection[Any], crew: list[WorkerProcess], handler: Handler[..., ..., Any], jobs: int) -> Taken:
    """A backlog put in by COPY and drained by the crew: from the first claim to the last completion."""
    conn.execute("TRUNCATE tenure.live, tenure.archive")
    rows = [handler.row(order_id=k, email="someone@example.com", note="x" * 60) for k in range(jobs)]
    cpu = sum(worker.cpu_seconds() for worker in crew)
    with conn.transaction():
        postgres.copy(conn, iter(rows))
        conn.execute("SELECT tenure.wake('default', NULL)")
    eventually(lambda: conn.execute("SELECT 1 FROM tenure.live LIMIT 1").fetchone() is None, seconds=300)
    cpu = sum(worker.cpu_seconds() for worker in crew) - cpu
    done, seconds = conn.execute(_RATE).fetchone() or (0, 0)
    assert done == jobs, f"{done} of {jobs} jobs were completed"
    return Taken(jobs / seconds, 1e6 * cpu / jobs, 0.0)


if __name__ == "__main__":
    sys.exit(main())
