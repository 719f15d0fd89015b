"""ETL: extract with limits, load in order. `tenure worker app:inbox`, then `python app.py`.

- The source allows two calls at once: `limits` keeps all workers together to that.
- Changes of one customer are loaded in the order in which they were read (`ordered=True` with a key), customers side
  by side.
- A page and its cursor are one transaction: after a crash it is read again, and its changes are sent once.
"""

from __future__ import annotations

from typing import Any, TypedDict

import psycopg

from tenure import Inbox, Job, Limits, connect

TABLES = """
CREATE TABLE IF NOT EXISTS customers (id int PRIMARY KEY, name text NOT NULL, version int NOT NULL);
CREATE TABLE IF NOT EXISTS loaded (customer int NOT NULL, version int NOT NULL, seq bigint NOT NULL);
"""
PAGES = 4

inbox = Inbox()


class Change(TypedDict):
    """One line of the source."""

    customer: int
    name: str
    version: int


def fetch(page: int) -> list[Change]:
    """The source: three customers, one change of each on every page."""
    return [Change(customer=n, name=f"name {page}", version=page) for n in (1, 2, 3)]


@inbox.handler("extract", limits=Limits(max_running=2, rate_per_second=50), unique="pending")
def extract(job: Job, page: int) -> None:
    """Read one page, and send its changes and the next page with the completion, or not at all."""
    changes = fetch(page)
    with job.fenced() as tx:
        for change in changes:
            load.enqueue(tx, change=change)
        if page < PAGES:
            extract.enqueue(tx, page=page + 1)


@inbox.handler("load", key="customer:{change[customer]}", ordered=True)
def load(job: Job, change: Change) -> None:
    """Later changes of a customer wait for earlier ones, also while those are retried."""
    with job.fenced() as tx:
        tx.execute(
            "INSERT INTO customers AS c (id, name, version) VALUES (%s, %s, %s)"
            " ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, version = EXCLUDED.version",
            [change["customer"], change["name"], change["version"]],
        )
        tx.execute("INSERT INTO loaded VALUES (%s, %s, %s)", [change["customer"], change["version"], job.seq])


def start(conn: psycopg.Connection[Any]) -> str:
    """Begin with the first page, unless that waits already."""
    return extract.enqueue(conn, page=1).outcome


if __name__ == "__main__":
    with connect() as conn:
        conn.execute(TABLES)
        print(start(conn))
