"""How many bytes does a job write to the log of the server? Enqueue, claim and completion, by the size of the payload.

Counted on a server without full page images, which depend on when the last checkpoint was; nobody else writes.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import psycopg

from tenure import postgres, verbs
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from tenure.verbs import settle

from .server import bench_server

LETTERS = (100, 1000)
BATCH, BATCHES = 100, 20
WORKER = "host.example.org-12345-0a1b2c3d"
CLAIM_MOST = 300.0  # bytes, whatever the payload


def main() -> int:
    """One line a size."""
    most = 0.0
    with bench_server(autovacuum="off", full_page_writes="off") as url, postgres.connect(url) as conn:
        migrate.apply(conn)
        one_job(conn, LETTERS[0])  # the first rows make the files
        print("bytes of log a job      enqueue    claim   completion")
        for letters in LETTERS:
            enqueued, claimed, completed = one_job(conn, letters)
            print(f"payload of {letters:>5,} bytes {enqueued:>10.0f} {claimed:>8.0f} {completed:>12.0f}")
            most = max(most, claimed)
    print(f"\ndearest claim {most:.0f} bytes   (at most {CLAIM_MOST:g})")
    return 0 if most <= CLAIM_MOST else 1


def one_job(conn: psycopg.Connection[tuple[int]], letters: int) -> tuple[float, float, float]:
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


def written(conn: psycopg.Connection[tuple[int]]) -> int:
    """All that the server has written to its log so far."""
    found = conn.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    return found[0] if found else 0


if __name__ == "__main__":
    sys.exit(main())
