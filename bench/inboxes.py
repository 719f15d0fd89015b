"""What do several inboxes cost one process, and what does one that is away cost the others?

The same number of rows is drained by one worker from 1, 2 and 4 databases: the processor time a row, of the worker
and of its sessions. Then one inbox is drained while the other answers, and while it is cut off, turn about.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tenure import postgres, verbs
from tenure.drills.stage.proxy import FaultProxy
from tenure.model.rows import NewRow
from tenure.postgres import migrate

from .cpu import Sessions, Taken
from .crew import WorkerProcess, eventually
from .drain import _FILL
from .report import Bar, Report, opened
from .server import bench_server

NAMES = ("a", "b", "c", "d")
LEFT = "SELECT NOT EXISTS (SELECT FROM tenure.live)"
SESSIONS = 3  # that a worker keeps in each inbox
WARM = 2_000  # rows of each inbox before those that are counted


class Place(NamedTuple):
    """A database with the schema, and a connection to it."""

    url: str
    conn: Connection[Any]

    def ask(self, question: str) -> Any:
        """The one value that it answers with."""
        found = self.conn.execute(question.encode()).fetchone()
        assert found is not None
        return found[0]


def main() -> int:
    """Both; below its bar, the exit code is 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40_000, help="rows a turn, in all inboxes together")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=100)
    parser.add_argument("--json", help="the file to keep the figures in (default: in the system's temporary folder)")
    given = parser.parse_args()
    with bench_server() as url, _databases(url) as places, tempfile.TemporaryDirectory() as folder:
        report = opened(places[0].conn, jobs=given.jobs, rounds=given.rounds, slots=given.slots)
        report.begin("CPU a job of one process, by the number of its inboxes")
        _cost(report, places, given, folder)
        report.begin("the rate of one inbox while the other is away")
        _away(report, places, given, folder)
    return report.verdict(report.keep(given.json, "inboxes"))


def _cost(report: Report, places: Sequence[Place], given: Any, folder: str) -> None:
    taken: dict[int, list[Taken]] = {1: [], 2: [], 4: []}
    for _ in range(given.rounds):
        for n, each in taken.items():
            with _worker(
                {name: place.url for name, place in zip(NAMES, places[:n], strict=False)}, given.slots, folder
            ) as worker:
                _drained(places[:n], WARM * n, worker)  # every session plans its statements once
                each.append(_drained(places[:n], given.jobs, worker))
    for n, each in taken.items():
        report.turns(f"{n} inbox{'es' * (n > 1)}", each)
    whole = {n: [one.client + one.server for one in each] for n, each in taken.items()}
    for n in (2, 4):
        report.ratio(f"CPU a job, {n} inboxes / 1", whole[n], whole[1], Bar(1.10, least=False))


def _away(report: Report, places: Sequence[Place], given: Any, folder: str) -> None:
    there: list[float] = []
    away: list[float] = []
    with (
        FaultProxy(places[1].url) as proxy,
        _worker({"a": places[0].url, "b": _as_url(proxy.url)}, given.slots, folder) as worker,
    ):
        for _ in range(given.rounds):
            proxy.heal()
            eventually(lambda: _attached(places[1]))
            there.append(_drained(places[:1], given.jobs, worker).rate)
            proxy.cut()
            proxy.refuse()
            away.append(_drained(places[:1], given.jobs, worker).rate)
        proxy.heal()
    report.rate("both answer", there)
    report.rate("the other is away", away)
    report.ratio("rate, away / both", away, there, Bar(0.95))


def _as_url(words: str) -> str:
    """Words of libpq as an address."""
    return f"postgresql:///?{urlencode(conninfo_to_dict(words), quote_via=quote)}"


def _attached(place: Place) -> bool:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return bool(place.ask(asked) >= SESSIONS)


def _drained(places: Sequence[Place], jobs: int, worker: WorkerProcess) -> Taken:
    """Fill all, in transactions that end together, and wait until all are empty; per row, from then on."""
    for place in places:
        eventually(partial(_attached, place))
    sessions, client = [Sessions(place.conn) for place in places], worker.cpu_seconds()
    last = [NewRow("nothing", {"order_id": k, "email": "", "note": ""}, key=f"k{k}") for k in range(10)]
    for place in places:
        place.conn.execute("BEGIN")
        place.conn.execute(_FILL, [jobs // len(places) - len(last)])
        postgres.run(place.conn, verbs.enqueue_many(last))  # it wakes the worker
    began = time.perf_counter()
    for place in places:
        place.conn.execute("COMMIT")
    for place in places:
        eventually(partial(place.ask, LEFT), seconds=600.0)
    wall = time.perf_counter() - began
    used = sum(each.seconds() for each in sessions)
    return Taken(jobs / wall, 1e6 * (worker.cpu_seconds() - client) / jobs, 1e6 * used / jobs)


@contextlib.contextmanager
def _worker(shards: dict[str, str], slots: int, folder: str) -> Iterator[WorkerProcess]:
    """One process at all of them, with its sessions open."""
    text = ",".join(f"{name}={url}" for name, url in shards.items())
    options = ("--slots", str(slots), "--shards", text)
    worker = WorkerProcess("", "bench.apps:quick", folder, *options)
    try:
        worker.saw("ring_changed", len(shards))
        yield worker
    finally:
        worker.end()


@contextlib.contextmanager
def _databases(url: str) -> Iterator[list[Place]]:
    """Four databases with the schema, and a connection to each."""
    with postgres.connect(url) as conn, contextlib.ExitStack() as stack:
        places: list[Place] = []
        for each in NAMES:
            conn.execute(f"DROP DATABASE IF EXISTS bench_{each} WITH (FORCE)".encode())
            conn.execute(f"CREATE DATABASE bench_{each}".encode())
            there = _as_url(make_conninfo(url, dbname=f"bench_{each}"))
            made = stack.enter_context(postgres.connect(there))
            migrate.apply(made, "tenure")
            places.append(Place(there, made))
        yield places
        stack.close()
        for each in NAMES:
            conn.execute(f"DROP DATABASE bench_{each} WITH (FORCE)".encode())


if __name__ == "__main__":
    sys.exit(main())
