"""What does counting cost? The same rows completed by several at once: alone, and counted in a batch; turn about.

Each turn claims all rows first, then completes them by 25 on several connections, so that completing alone is measured.
The last line is the ratio of the medians; below --least the exit code is 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from typing import Any

from psycopg import Connection

from tenure import postgres, verbs
from tenure.model.rows import Claimed, NewRow
from tenure.postgres import migrate
from tenure.verbs import batches, settle

from .server import bench_server


def main() -> int:
    """Both, turn about; the ratio stands last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="rows a turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--by", type=int, default=25, help="rows a statement")
    parser.add_argument("--least", type=float, default=0.45, help="the ratio that must be reached")
    given = parser.parse_args()
    rates: dict[str, list[float]] = {"alone": [], "counted": []}
    with bench_server() as url, postgres.connect(url, application_name="tenure bench") as conn:
        migrate.apply(conn)
        conns = [postgres.connect(url) for _ in range(given.clients)]
        for _ in range(given.rounds):
            for name, each in rates.items():
                each.append(turn(conn, conns, given.jobs, given.by, counted=name == "counted"))
        for client in conns:
            client.close()
    for name, each in rates.items():
        print(f"  {name:<8} {statistics.median(each):>8,.0f} rows/s   ({', '.join(f'{rate:,.0f}' for rate in each)})")
    ratio = statistics.median(one / other for one, other in zip(rates["counted"], rates["alone"], strict=True))
    print(f"completed by {given.by}, {given.clients} at once: counted / alone  {ratio:.2f}   (at least {given.least})")
    return 0 if ratio >= given.least else 1


def turn(conn: Connection[Any], conns: list[Any], jobs: int, by: int, *, counted: bool) -> float:
    """Rows a second, from the first completion to the last."""
    rows = [NewRow("noop", {"n": n}) for n in range(jobs)]
    postgres.run(conn, batches.open_group(rows) if counted else verbs.enqueue_many(rows))
    held: list[Claimed] = postgres.run(conn, verbs.claim("bench", jobs, lease_seconds=3600.0))
    assert len(held) == jobs
    held.sort(key=lambda job: job.seq)
    some = [held[at : at + by] for at in range(0, jobs, by)]
    parts = [some[n :: len(conns)] for n in range(len(conns))]
    threads = [threading.Thread(target=_end, args=each) for each in zip(conns, parts, strict=True)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    conn.execute("VACUUM tenure.live")
    return jobs / seconds


def _end(conn: Any, parts: list[list[Claimed]]) -> None:
    for part in parts:
        postgres.run(conn, settle.complete_all(part, ordered=False))


if __name__ == "__main__":
    sys.exit(main())
