"""What does order cost? One worker process, handlers that do nothing, ratios of one run; exit 1 when one is broken.

Turn about on the same server, each turn on a fresh backlog: unordered rows; one ordered key; many ordered keys; cold
keys alone and beside a hot one. Only ratios can be compared between machines; CPU of client and server is told too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil  # type: ignore[import-untyped]
from psycopg import Connection

from tenure import postgres
from tenure.model.rows import NewRow
from tenure.postgres import migrate

from .crew import WorkerProcess, eventually, hired
from .server import bench_server

HOT_MIN = 0.5  # one key / unordered
MANY_MIN = 0.6  # many keys / unordered
SECONDS_MAX = 45.0  # after them no further round begins
COLD_MIN = 0.85  # cold keys beside a hot one / alone

UNORDERED, HOT, MANY, COLD, BESIDE = (
    "unordered",
    "one hot key",
    "many keys",
    "cold keys alone",
    "cold keys beside a hot one",
)

_RATE = """
SELECT count(*), date_part('epoch', max(completed_at) - min(claimed_at)), count(DISTINCT fence_token)
FROM tenure.archive WHERE partition_key <> %s
"""
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


@dataclass(frozen=True, slots=True)
class Turn:
    """One backlog drained."""

    per_second: float
    client_micros: float  # CPU of the worker, a row
    server_micros: float  # CPU of its backends, a row
    per_claim: float  # rows


def main() -> int:
    """Every kind of backlog in turn; the ratios stand last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000, help="rows a turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--slots", type=int, default=200, help="slots of the worker")
    parser.add_argument("--only", nargs="+", default=[], help="some kinds only, by the first word of their names")
    given = parser.parse_args()
    rows = given.rows
    backlogs = {
        UNORDERED: lambda: jobs(rows, lambda k: f"order:{k}", ordered=False),
        HOT: lambda: jobs(rows, lambda _: "hot"),
        MANY: lambda: jobs(rows, lambda k: f"order:{k % (rows // 5)}"),
        COLD: lambda: jobs(rows, lambda k: f"order:{k % (rows // 10)}"),
        BESIDE: lambda: jobs(2 * rows, lambda k: "hot" if k % 2 else f"order:{k // 2 % (rows // 10)}"),
    }
    turns: dict[str, list[Turn]] = {
        name: [] for name in backlogs if not given.only or any(name.startswith(only) for only in given.only)
    }
    with (
        bench_server() as url,
        postgres.connect(url, application_name="tenure bench") as conn,
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
    ):
        migrate.apply(conn)
        with hired(url, "bench.apps:quick", folder, "--slots", str(given.slots)) as crew:
            drain(conn, crew[0], backlogs[UNORDERED](), UNORDERED)  # warm
            until = time.monotonic() + SECONDS_MAX
            for nth in range(given.rounds):
                if nth and time.monotonic() > until:
                    break
                for name in turns:
                    turns[name].append(drain(conn, crew[0], backlogs[name](), name))
                    tell(name, turns[name])
            assert crew[0].end() == 0, "the worker did not leave in good order"
    print(f"\n{rows:,} rows a turn, medians of their turns")
    for name, each in turns.items():
        tell(name, each)
    return verdict({name: median(each, "per_second") for name, each in turns.items()})


def jobs(n: int, key: Any, *, ordered: bool = True) -> Iterator[NewRow]:
    """The rows of a backlog."""
    payload = {"email": "someone@example.com", "note": "x" * 60}
    return (NewRow("nothing", {"order_id": k, **payload}, key=key(k), ordered=ordered) for k in range(n))


def drain(conn: Connection[Any], worker: WorkerProcess, rows: Iterable[NewRow], name: str) -> Turn:
    """A backlog put in by COPY, drained: from the first claim to the last completion, by the database."""
    conn.execute("TRUNCATE tenure.live, tenure.archive, tenure.heads, tenure.arrivals")
    hot = "hot" if name == BESIDE else ""
    backends = [psutil.Process(pid) for (pid,) in conn.execute(_BACKENDS)]
    client, server = worker.cpu_seconds(), _cpu(backends)
    with conn.transaction():
        postgres.copy(conn, rows)
        conn.execute("SELECT tenure.wake('default', NULL)")  # COPY wakes nobody
    eventually(lambda: conn.execute("SELECT 1 FROM tenure.live LIMIT 1").fetchone() is None, seconds=120)
    client, server = worker.cpu_seconds() - client, _cpu(backends) - server
    done, seconds, claims = conn.execute(_RATE, [hot]).fetchone() or (0, 0.0, 0)
    (every,) = conn.execute("SELECT count(*) FROM tenure.archive").fetchone() or (0,)
    return Turn(done / seconds, 1e6 * client / every, 1e6 * server / every, done / claims)


def _cpu(backends: list[psutil.Process]) -> float:
    return float(sum(times.user + times.system for times in (each.cpu_times() for each in backends)))


def tell(name: str, turns: list[Turn]) -> None:
    """One line of the table, with every turn's rate behind it."""
    rate, client, server, claimed = (median(turns, what) for what in Turn.__slots__)
    each = ", ".join(f"{turn.per_second:,.0f}" for turn in turns)
    print(
        f"  {name:<27} {rate:>7,.0f} rows/s   CPU µs a row: {client:>3.0f} client, {server:>3.0f} server"
        f"   {claimed:>4.0f} rows a claim   ({each})",
        flush=True,
    )


def median(turns: list[Turn], what: str) -> float:
    """Of one figure, over the turns."""
    return float(statistics.median(getattr(turn, what) for turn in turns))


def verdict(rates: dict[str, float]) -> int:
    """The ratios against their bounds."""
    broken = 0
    for name, other, least in ((HOT, UNORDERED, HOT_MIN), (MANY, UNORDERED, MANY_MIN), (BESIDE, COLD, COLD_MIN)):
        if name in rates and other in rates:
            ratio = rates[name] / rates[other]
            broken += ratio < least
            print(f"{name} / {other:<20} {ratio:.2f}   (at least {least})")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
