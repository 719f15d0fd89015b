"""What does a fleet cost that has nothing to do? Transactions a second of one worker and of eight, by the server.

Autovacuum's own are left out: it is switched off meanwhile, where we may. At the end rows are sent to the idle fleet,
one by one: each must start at once.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from tenure import postgres

from .crew import hired
from .latency import p99, send, send_ours, starts, waits
from .report import Bar, Report

SETTLE_SECONDS = 12.0  # a new fleet settles its ring, and a quiet session tells within ten what it did
ROWS = 40
START_MOST = Bar(100, least=False)

_COUNT = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


def measure(url: str, conn: Connection[Any], report: Report, seconds: float, fleets: list[int]) -> None:
    """One after the other, on an inbox that is empty."""
    report.begin("idle fleet")
    with without_autovacuum(conn), postgres.connect(url, application_name="tenure bench") as producer:
        for n in fleets:
            with (
                tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
                hired(url, "bench.apps:prompt", folder, n=n, BENCH_STARTS=f"{folder}/starts"),
            ):
                time.sleep(min(SETTLE_SECONDS, seconds))
                report.judged(
                    f"transactions/s, workers: {n}", [transactions(url, seconds)], Bar(max(2, n), least=False)
                )
                sent, ledger = send(ROWS, partial(send_ours, producer)), Path(folder) / "starts"
                waited = waits(sent, partial(starts, ledger))
                report.judged(f"commit → start, p99 ms, workers: {n}", [1000 * p99(waited)], START_MOST)


def transactions(url: str, seconds: float) -> float:
    """A second, of everybody else in this database."""
    before, began = count(url), time.monotonic()
    time.sleep(seconds)
    after, took = count(url), time.monotonic() - began
    return max(0.0, (after - before - 1) / took)  # the first count is one of them


def count(url: str) -> int:
    """So far, by a session of its own: what an open one has done is told late."""
    with psycopg.connect(url, autocommit=True) as conn:
        found = conn.execute(_COUNT).fetchone()
    return int(found[0]) if found else 0


@contextlib.contextmanager
def without_autovacuum(conn: Connection[Any]) -> Iterator[None]:
    """Off for the whole server while the block lasts, if we may."""
    try:
        conn.execute("ALTER SYSTEM SET autovacuum = off")
        conn.execute("SELECT pg_reload_conf()")
    except psycopg.errors.InsufficientPrivilege:
        yield
        return
    try:
        yield
    finally:
        conn.execute("ALTER SYSTEM RESET autovacuum")
        conn.execute("SELECT pg_reload_conf()")
