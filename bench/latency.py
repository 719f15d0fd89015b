"""How long from a commit to the start of its handler, when all is idle? Against a raw NOTIFY and a claim.

Rows are sent fifty a second, in alternating turns to an idle worker and to a raw listener that claims one row when it
is told. Time counts from when the commit has returned to when the handler, or the claim, has its row: on one machine
they share a clock.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from tenure import postgres

from . import plain
from .apps import prompt
from .crew import eventually, hired
from .enqueue import fields
from .report import Bar, Report, in_turns

PACE_SECONDS = 0.02
AT_ONCE = 1e-6  # seconds: on a busy machine a claim may have its row before the sender has heard of its commit
OURS, RAW = "tenure: commit → handler starts", "raw: commit → NOTIFY → claimed"
P50_MOST, P99_MOST = Bar(1.6, least=False), Bar(2.0, least=False)
Sent = list[tuple[int, float]]


def measure(url: str, report: Report, rounds: int, rows: int) -> None:
    """Both in turns; p50 and p99 of each turn, and their ratios."""
    with (
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
        postgres.connect(url, application_name="tenure bench") as ours,
        psycopg.connect(url, autocommit=True) as theirs,
        listening(url, theirs) as claimed,
    ):
        ledger = Path(folder) / "starts"
        with hired(url, "bench.apps:prompt", folder, BENCH_STARTS=str(ledger)):
            contenders: dict[str, Callable[[], list[float]]] = {
                RAW: lambda: waits(send(rows, lambda k: send_raw(theirs, k)), lambda: dict(claimed)),
                OURS: lambda: waits(send(rows, lambda k: send_ours(ours, k)), lambda: starts(ledger)),
            }
            for contender in contenders.values():
                contender()  # the first of each is warming up
            taken = in_turns(rounds, contenders)
    report.begin("commit → start, idle, ms")
    for name, turns in taken.items():
        report.rate(f"{name}, p50", [1000 * statistics.median(turn) for turn in turns])
        report.rate(f"{name}, p99", [1000 * p99(turn) for turn in turns])
    for name, part, bar in (("p50", statistics.median, P50_MOST), ("p99", p99, P99_MOST)):
        both = [[part(turn) for turn in taken[side]] for side in (OURS, RAW)]
        report.ratio(f"{name}, tenure / raw", both[0], both[1], bar)


def p99(waited: list[float]) -> float:
    """The time within which all but one in a hundred started."""
    return statistics.quantiles(waited, n=100, method="inclusive")[98]


_last = 0


def send(rows: int, one: Callable[[int], object]) -> Sent:
    """Row after row at an even pace: its number and when its commit had returned."""
    global _last
    sent = []
    for _ in range(rows):
        _last += 1
        one(_last)
        sent.append((_last, time.monotonic()))
        time.sleep(PACE_SECONDS)
    return sent


def send_ours(conn: Connection[Any], k: int) -> None:
    """One row by the handler."""
    prompt.handlers["nothing"].enqueue(conn, **fields(k))


def send_raw(conn: Connection[Any], k: int) -> None:
    """One row and a note, one transaction."""
    with conn.transaction():
        plain.insert(conn, k, fields(k))
        conn.execute("SELECT pg_notify('raw_plain', '')")


def waits(sent: Sent, started: Callable[[], dict[int, float]]) -> list[float]:
    """Seconds from each commit to its start."""
    found = eventually(lambda: found if (found := started()).keys() >= {k for k, _ in sent} else None)
    assert found is not None
    return [max(AT_ONCE, found[k] - at) for k, at in sent]


def starts(ledger: Path) -> dict[int, float]:
    """What the handler has written down."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return {int(k): float(at) for k, at in (line.split() for line in lines)}


@contextmanager
def listening(url: str, conn: Connection[Any]) -> Iterator[dict[int, float]]:
    """A raw worker in a process of its own, and what it has claimed."""
    plain.make(conn)
    spawn = multiprocessing.get_context("spawn")
    with spawn.Manager() as manager:
        claimed, up = manager.dict(), spawn.Event()
        process = spawn.Process(target=listen, args=(url, claimed, up), daemon=True)
        process.start()
        up.wait(60)
        try:
            yield claimed  # type: ignore[misc]
        finally:
            process.kill()
            process.join()


def listen(url: str, claimed: dict[int, float], up: Any) -> None:
    """In that process: at each note claim a row, write down when, delete it."""
    with psycopg.connect(url, autocommit=True) as conn, psycopg.connect(url, autocommit=True) as ears:
        ears.execute("LISTEN raw_plain")
        up.set()
        for _ in ears.notifies():
            rows = conn.execute(plain.CLAIM, ["raw", 1]).fetchall()
            at = time.monotonic()
            for row_id, payload in rows:
                claimed[payload["order_id"]] = at
                conn.execute(plain.DELETE, [[row_id]])
