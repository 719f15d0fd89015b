"""What does a page of the dashboard wait for, over HTTP? Every GET of the API over a million rows.

Exit 1 when one of them takes longer than 300 ms. With TENURE_TEST_DATABASE_URL the rows are made there, if the schema
is empty, and stay.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import tenure.web
from tenure import postgres
from tenure.postgres import migrate
from tenure.web.serve import Server, listen

from .pages import FILTERS, MOST_SECONDS, fill
from .server import bench_server

ROUNDS = 5


def main() -> int:
    """A table of times; the slowest decides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows in all")
    given = parser.parse_args()
    with bench_server() as url:
        with postgres.connect(url, application_name="tenure bench") as conn:
            migrate.apply(conn)
            if not conn.execute("SELECT 1 FROM tenure.live LIMIT 1").fetchone():
                fill(conn, rows=given.rows)
        with served(url) as client:
            slowest = measure(client, paths(client))
    print(f"\nslowest median {1000 * slowest:.0f} ms (at most {1000 * MOST_SECONDS:.0f})")
    return 0 if slowest <= MOST_SECONDS else 1


@contextmanager
def served(url: str) -> Iterator[http.client.HTTPConnection]:
    """A client of a server in a thread of this process."""
    listener = listen("127.0.0.1", 0)
    server = Server(tenure.web.app(database_url=url, schema="tenure", access=tenure.web.local))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    client = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1])
    yield client
    client.close()
    server.handle_exit(2, None)
    thread.join(10)


def paths(client: http.client.HTTPConnection) -> list[str]:
    """Every GET that a page makes; lists with every kind of filter."""
    found = ["/api/me", "/api/overview", "/api/queues", "/api/workers", "/api/ring", "/api/schedules", "/api/dead"]
    found += ["/api/overview?seconds=604800", "/api/blocked", "/api/audit", "/metrics", "/api/openapi.json", "/"]
    for noun in ("rows", "rows/count", "rows/statuses"):
        found += [f"/api/{noun}?filter={quote(text)}" for text in FILTERS]
    for status in ("pending", "processing", "completed", "dead_letter"):
        (row, *_) = json.loads(get(client, f"/api/rows?n=1&filter=status:{status}"))["rows"]
        found.append(f"/api/rows/{row['id']}")
    return found


def get(client: http.client.HTTPConnection, path: str) -> Any:
    """The body of a 200."""
    client.request("GET", path, headers={"host": "localhost"})
    answer = client.getresponse()
    body = answer.read()
    assert answer.status == 200, (path, answer.status, body)
    return body


def measure(client: http.client.HTTPConnection, paths: list[str]) -> float:
    """Time each path ROUNDS times; prints the table, returns the worst median."""
    print(f"{'GET':<96}{'first':>8}{'median':>8}{'worst':>8}  ms")
    slowest = 0.0
    for path in paths:
        times = [timed(client, path) for _ in range(ROUNDS)]
        median = statistics.median(times)
        slowest = max(slowest, median)
        numbers = "".join(f"{1000 * cell:>8.1f}" for cell in (times[0], median, max(times)))
        print(f"{path[:95]:<96}{numbers}{'  over' if median > MOST_SECONDS else ''}", flush=True)
    return slowest


def timed(client: http.client.HTTPConnection, path: str) -> float:
    """Seconds of one request."""
    began = time.perf_counter()
    get(client, path)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
