"""How many bytes does a job write to the log of the server? Enqueue, claim and completion, by the size of the payload.

Counted on a server without full page images, which depend on when the last checkpoint was; nobody else writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import psycopg

from tenure import postgres, verbs
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from tenure.verbs import settle

from .report import Bar, Report
from .server import bench_server

LETTERS = (100, 1000)
BATCH, BATCHES = 100, 20
WORKER = "host.example.org-12345-0a1b2c3d"
CLAIM_MOST = Bar(300, least=False)  # bytes, whatever the payload


def measure(report: Report) -> None:
    """Three lines a size."""
    report.begin("log of the server, bytes a job")
    server = bench_server(autovacuum="off", full_page_writes="off", max_prepared_transactions="10")
    with server as url, postgres.connect(url) as conn:
        migrate.apply(conn)
        one_job(conn, LETTERS[0])  # the first rows make the files
        for letters in LETTERS:
            for name, bytes_a_job in zip(("enqueue", "claim", "completion"), one_job(conn, letters), strict=True):
                bar = CLAIM_MOST if name == "claim" else None
                report.judged(f"{name}, payload of {letters:,} bytes", [bytes_a_job], bar)
        report.rate("enqueue, alone in its transaction", [alone(conn, ["COMMIT"])])
        found = conn.execute("SHOW max_prepared_transactions").fetchone()
        if found and found[0] != "0":
            two_phases = ["PREPARE TRANSACTION 'tenure bench'", "COMMIT PREPARED 'tenure bench'"]
            report.rate("enqueue, alone in a prepared transaction", [alone(conn, two_phases)])


def one_job(conn: psycopg.Connection[Any], letters: int) -> tuple[float, float, float]:
    """Bytes a row of each of its three statements, in batches."""
    row = NewRow("work", {"note": "x" * letters}, key="order:1")
    marks = [written(conn)]
    for _ in range(BATCHES):
        postgres.run(conn, verbs.enqueue_many([row] * BATCH))
    marks.append(written(conn))
    jobs = [postgres.run(conn, verbs.claim(WORKER, BATCH)) for _ in range(BATCHES)]
    marks.append(written(conn))
    for batch in jobs:
        postgres.run(conn, settle.complete([job.lease for job in batch], ordered=False))
    marks.append(written(conn))
    first, second, third = ((to - since) / (BATCH * BATCHES) for since, to in pairwise(marks))
    return first, second, third


def alone(conn: psycopg.Connection[Any], ends: Sequence[str]) -> float:
    """Bytes of a transaction with one row in it, ended by these statements."""
    before = written(conn)
    for _ in range(BATCH):
        conn.execute("BEGIN")
        postgres.run(conn, verbs.enqueue_many([NewRow("work", {"note": "x" * LETTERS[0]}, key="order:1")]))
        for statement in ends:
            conn.execute(statement.encode())
    return (written(conn) - before) / BATCH


def written(conn: psycopg.Connection[Any]) -> int:
    """All that the server has written to its log so far."""
    found = conn.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    return found[0] if found else 0
