"""What does a fleet cost the server beside a long backlog? Shares of a core, by what the sessions of workers are for.

A million rows wait, spread over queues and ordered keys, none of them due. Two workers serve all queues: first idle,
then busy with rows that a producer sends at a steady rate. The server's own processor time is read from the kernel, for
each session. The last lines are the time of one sweep, one board and one empty claim.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from psycopg import Connection

from tenure import postgres, verbs
from tenure.model.rows import Lane
from tenure.postgres import migrate
from tenure.verbs import questions
from tenure.verbs.statement import Statement

from .crew import hired
from .server import bench_server
from .snapshot import producing

SWEEP_MAX = 0.01  # of a core, the sweep alone: it comes every two seconds
SWEEP_EVERY = 2.0
TURNS = 50

_FILL = """
INSERT INTO tenure.live (kind, payload, queue, partition_key, ordered, available_at)
SELECT 'nothing', '{}', 'q' || k %% %(queues)s, 'order:' || k, k %% 10 = 0, clock_timestamp() + interval '1 day'
FROM generate_series(%(first)s::int, %(last)s::int) AS k
"""
_SESSIONS = "SELECT pid, application_name FROM pg_stat_activity WHERE application_name LIKE 'tenure %%'"


def main() -> int:
    """Idle, busy, and the statements one by one; exit 1 when the sweep takes more than its share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows that wait")
    parser.add_argument("--queues", type=int, default=20, help="queues they wait in")
    parser.add_argument("--rate", type=int, default=500, help="jobs a second, when busy")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    given = parser.parse_args()
    names = ["default", *(f"q{n}" for n in range(given.queues))]
    with (
        bench_server() as url,
        postgres.connect(url, application_name="bench") as conn,
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
    ):
        migrate.apply(conn)
        for first in range(1, given.rows + 1, 20_000):
            last = min(first + 19_999, given.rows)
            conn.execute(_FILL.encode(), {"queues": given.queues, "first": first, "last": last})
        conn.execute("VACUUM ANALYZE tenure.live")
        with hired(url, "bench.apps:quick", folder, "--queues", ",".join(names), n=2):
            time.sleep(10)  # heads are made, the ring is settled
            show(f"idle, {given.rows:,} rows wait in {given.queues} queues", shares(conn, given.seconds))
            with producing(url, given.rate, "plain"):
                time.sleep(3)
                show(f"busy, {given.rate} jobs a second", shares(conn, given.seconds))
        sweep = one_by_one(conn, names)
    print(f"\nsweep, every {SWEEP_EVERY:g} s: {sweep / SWEEP_EVERY:.2%} of a core   (at most {SWEEP_MAX:.0%})")
    return 0 if sweep / SWEEP_EVERY <= SWEEP_MAX else 1


def shares(conn: Connection[Any], seconds: float) -> dict[str, float]:
    """The share of a core that the sessions of each name took, over so many seconds."""
    sessions = dict(conn.execute(_SESSIONS.encode()).fetchall())
    before = {pid: cpu_seconds(pid) for pid in sessions}
    time.sleep(seconds)
    found: dict[str, float] = defaultdict(float)
    for pid, name in sessions.items():
        found[" ".join(name.split()[:2])] += (cpu_seconds(pid) - before[pid]) / seconds
    return found


def cpu_seconds(pid: int) -> float:
    """The processor time of a process so far; zero if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        return 0.0


def show(what: str, found: dict[str, float]) -> None:
    """One block of the table."""
    print(f"\n{what}: {sum(found.values()):.2%} of a core")
    for name, share in sorted(found.items(), key=lambda each: -each[1]):
        print(f"  {name:<28} {share:>8.2%}", flush=True)


def one_by_one(conn: Connection[Any], names: list[str]) -> float:
    """The time of each statement in milliseconds; of the sweep, in seconds, in return."""
    lanes = [Lane(name) for name in names]
    statements: dict[str, Statement[Any]] = {
        "sweep": verbs.sweep(),
        "board": questions.board(names),
        "claim, empty": verbs.claim("bench", 20, lanes=lanes),
        "claim of ordered keys, empty": verbs.claim_ordered("bench", 20, queues=names),
    }
    pid = conn.info.backend_pid
    took = {}
    print("\none statement, ms of the server")
    for name, statement in statements.items():
        before = cpu_seconds(pid)
        for _ in range(TURNS):
            postgres.run(conn, statement)
        took[name] = (cpu_seconds(pid) - before) / TURNS
        print(f"  {name:<28} {1000 * took[name]:>8.2f}", flush=True)
    return took["sweep"]


if __name__ == "__main__":
    sys.exit(main())
