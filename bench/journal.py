"""What do the writers' marks cost? The same events appended by several at once, with marks and without; turn about.

Without marks the trigger is off, which no installation may do: a reader would miss late commits. Then the horizon is
asked again and again, alone and while the writers append. Below --least the exit code is 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from typing import Any

from psycopg import Connection

from tenure import postgres
from tenure.model.journal import NewEvent
from tenure.postgres import migrate
from tenure.verbs.journal import append, horizon

from .server import bench_server

ASKED = 200  # times that the horizon is asked


def main() -> int:
    """Both, turn about, then the horizon; the ratio stands last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000, help="events a turn, each in a transaction of its own")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--least", type=float, default=0.8, help="the ratio that must be reached")
    given = parser.parse_args()
    rates: dict[str, list[float]] = {"without": [], "with": []}
    with bench_server() as url, postgres.connect(url, application_name="tenure bench") as conn:
        migrate.apply(conn)
        conns = [postgres.connect(url) for _ in range(given.clients)]
        for _ in range(given.rounds):
            for name, each in rates.items():
                turned = "ENABLE" if name == "with" else "DISABLE"
                conn.execute(f"ALTER TABLE tenure.journal {turned} TRIGGER journal_mark".encode())
                each.append(appended(conns, given.events))
        idle = asked(conn)
        busy = asked_under_load(conn, conns, given.events)
        for client in conns:
            client.close()
    for name, each in rates.items():
        shown = ", ".join(f"{rate:,.0f}" for rate in each)
        print(f"  {name:<7} marks {statistics.median(each):>8,.0f} appends/s   ({shown})")
    print(f"  horizon {1000 * idle:.2f} ms alone, {1000 * busy:.2f} ms while {given.clients} append")
    ratio = statistics.median(one / other for one, other in zip(rates["with"], rates["without"], strict=True))
    print(f"{given.clients} at once: with marks / without  {ratio:.2f}   (at least {given.least})")
    return 0 if ratio >= given.least else 1


def appended(conns: list[Any], events: int) -> float:
    """Appends a second, each writer to a stream of its own."""
    each = events // len(conns)
    threads = [threading.Thread(target=_append, args=(conn, n, each)) for n, conn in enumerate(conns)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return each * len(conns) / (time.monotonic() - began)


def asked(conn: Connection[Any]) -> float:
    """The median of the horizon, in seconds."""
    took = []
    for _ in range(ASKED):
        began = time.monotonic()
        postgres.run(conn, horizon())
        took.append(time.monotonic() - began)
    return statistics.median(took)


def asked_under_load(conn: Connection[Any], conns: list[Any], events: int) -> float:
    """The same while the writers append."""
    writing = threading.Thread(target=appended, args=(conns, events))
    writing.start()
    found = asked(conn)
    writing.join()
    return found


def _append(conn: Any, n: int, events: int) -> None:
    for amount in range(events):
        postgres.run(conn, append(f"bench:{n}", [NewEvent("bench.paid", {"amount": amount})]))


if __name__ == "__main__":
    sys.exit(main())
