"""How fast is Tenure, and what does it cost? One run, one table: against plain psycopg on the same server.

Contenders take turns, medians are compared, every ratio is judged: exit 1 when a bar is missed. Bars differ where a
coroutine can start at once (Python 3.12 and later). `make bench`, or some parts: `make bench ONLY=enqueue,drain`.
"""

from __future__ import annotations

import argparse
import re
import sys
import time

from tenure import postgres
from tenure.postgres import migrate

from . import drain, enqueue, idle, latency, log_bytes, plots
from .report import opened
from .server import bench_server

PARTS = ("enqueue", "drain", "latency", "idle", "log")


def main() -> int:
    """The parts that were asked for, in turn."""
    names = [crew.schema for crew in drain.CREWS]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    parser.add_argument("--jobs", type=int, default=30_000, help="jobs of a turn of draining")
    parser.add_argument("--rows", type=int, default=400, help="rows of a round of enqueueing one by one")
    parser.add_argument("--starts", type=int, default=100, help="rows of a turn of commit → start")
    parser.add_argument("--idle-seconds", type=float, default=20.0, help="how long an idle fleet is counted")
    parser.add_argument("--fleets", type=int, nargs="+", default=[1, 8], help="workers of the idle fleets")
    parser.add_argument("--crews", nargs="+", choices=names, default=names, help="who drains, beside the raw loops")
    parser.add_argument("--json", help="the file to keep the figures in (default: in the system's temporary folder)")
    parser.add_argument("--plots", help="a folder to draw the table in, as SVG")
    given = parser.parse_args()
    parts = given.only.split(",")
    assert set(parts) <= set(PARTS), f"--only {given.only}: choose from {', '.join(PARTS)}"
    began = time.monotonic()
    with bench_server() as url, postgres.connect(url, application_name="tenure bench") as conn:
        migrate.apply(conn)
        report = opened(conn, rounds=given.rounds, jobs=given.jobs, best=" ".join(drain.BEST), command=_command())
        if "enqueue" in parts:
            enqueue.measure(url, report, given.rounds, given.rows)
        if "latency" in parts:
            latency.measure(url, report, given.rounds, given.starts)
        if "idle" in parts:
            idle.measure(url, conn, report, given.idle_seconds, given.fleets)
        if "drain" in parts:
            crews = [crew for crew in drain.CREWS if crew.schema in given.crews]
            drain.measure(url, conn, report, given.rounds, given.jobs, crews)
        if "log" in parts:
            log_bytes.measure(report)
    print(f"\n{time.monotonic() - began:.0f} s")
    if given.plots:
        plots.bench(report, given.plots)
    return report.verdict(report.keep(given.json, "bench"))


def _command() -> str:
    words = " ".join(sys.argv[1:])
    words = re.sub(r"--(json|plots) \S+ ?", "", words).strip()  # where it was kept says nothing of it
    return f"python -m bench {words}" if words else "make bench"


if __name__ == "__main__":
    sys.exit(main())
