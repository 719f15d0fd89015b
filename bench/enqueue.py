"""What does it cost to send a row? Against a bare INSERT of plain psycopg, and in bulk against an INSERT from arrays.

One a transaction: by a handler on a connection of Tenure's own, on a plain one where nothing is ever prepared (as
behind a pooler), and with an idempotency key. Inside a larger transaction: the server's time for a row. In bulk: a
thousand rows with one statement, and by COPY. A round is cut into short turns: a disk that is slow for a second is slow
for all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
from psycopg import Connection

from tenure import postgres, verbs
from tenure.model.rows import NewRow

from . import plain
from .apps import nothing
from .cpu import Stopwatch, Taken
from .report import Bar, Report, in_turns

BULK = 1_000
TURNS = 5  # of each contender in a round
BARE, BARE_UNPREPARED = "bare INSERT", "bare INSERT, never prepared"
ONE, UNPREPARED, KEYED = "tenure", "tenure, never prepared", "tenure, with an idempotency key"
UNNEST, MANY, COPY = "INSERT from arrays", "tenure, enqueue_many", "tenure, COPY"
INSIDE = "server µs a row inside a larger transaction"
BARS = {ONE: Bar(0.6), UNPREPARED: Bar(0.5), KEYED: Bar(0.5), MANY: Bar(0.8), COPY: Bar(0.75)}
INSIDE_MOST = Bar(110, least=False)

_numbers = itertools.count()


def measure(url: str, report: Report, rounds: int, rows: int) -> None:
    """Both tables: `rows` a round one by one, and thirty times as many in bulk."""
    rounds, rows = rounds * TURNS, max(1, rows // TURNS)
    with ExitStack() as open_:
        theirs = open_.enter_context(psycopg.connect(url, autocommit=True))
        user = open_.enter_context(psycopg.connect(url, autocommit=True))
        ours = open_.enter_context(postgres.connect(url, application_name="tenure bench"))
        plain.make(theirs, bare=True)
        ones = in_turns(
            rounds,
            {
                BARE: lambda: each(theirs, rows, lambda k: plain.insert(theirs, k, fields(k))),
                BARE_UNPREPARED: lambda: each(
                    theirs, rows, lambda k: plain.insert(theirs, k, fields(k), prepare=False)
                ),
                ONE: lambda: each(ours, rows, lambda k: nothing.enqueue(ours, **fields(k))),
                UNPREPARED: lambda: each(user, rows, lambda k: nothing.enqueue(user, **fields(k))),
                KEYED: lambda: each(
                    ours, rows, lambda k: nothing.using(idempotency_key=f"bench:{k}").enqueue(ours, **fields(k))
                ),
                INSIDE: lambda: inside(ours, rows),
            },
        )
        many = in_turns(
            rounds,
            {
                UNNEST: lambda: bulk(theirs, 30 * rows, lambda ks: plain.insert_many(theirs, pairs(ks))),
                MANY: lambda: bulk(ours, 30 * rows, lambda ks: postgres.run(ours, verbs.enqueue_many(new(ks)))),
                COPY: lambda: bulk(ours, 30 * rows, lambda ks: postgres.copy(ours, new(ks))),
            },
        )
        ours.execute("TRUNCATE tenure.live, tenure.idempotency")
    tell(report, "one enqueue a transaction, rows/s", ones, BARE, (BARE, BARE_UNPREPARED, ONE, UNPREPARED, KEYED))
    report.judged(INSIDE, [taken.server for taken in ones[INSIDE]], INSIDE_MOST)
    tell(report, f"bulk, {BULK:,} rows a transaction, rows/s", many, UNNEST, (UNNEST, MANY, COPY))


def tell(report: Report, section: str, taken: dict[str, list[Taken]], against: str, names: tuple[str, ...]) -> None:
    """The rates with what a row costs, then ours as ratios."""
    report.begin(section)
    for name in names:
        report.turns(name, taken[name])
    for name in names:
        if name in BARS:
            theirs = [each.rate for each in taken[against]]
            report.ratio(f"{name} / {against}", [each.rate for each in taken[name]], theirs, BARS[name])


def each(conn: Connection[Any], rows: int, send: Callable[[int], object]) -> Taken:
    """One by one, a transaction each; a few first, so that what can be prepared is."""
    for _ in range(10):
        send(next(_numbers))
    watch = Stopwatch(conn)
    for _ in range(rows):
        send(next(_numbers))
    return watch.taken(rows)


def inside(conn: Connection[Any], rows: int) -> Taken:
    """All in one transaction."""
    with conn.transaction():
        watch = Stopwatch(conn)
        for _ in range(rows):
            nothing.enqueue(conn, **fields(next(_numbers)))
        return watch.taken(rows)


def bulk(conn: Connection[Any], rows: int, send: Callable[[range], object]) -> Taken:
    """A thousand at a time, and at least one thousand."""
    watch = Stopwatch(conn)
    batches = max(1, rows // BULK)
    for n in range(batches):
        send(range(n * BULK, (n + 1) * BULK))
    return watch.taken(batches * BULK)


def fields(k: int) -> dict[str, Any]:
    """The payload of every bench, about a hundred bytes."""
    return {"order_id": k, "email": "someone@example.com", "note": "x" * 60}


def pairs(ks: range) -> list[tuple[str, dict[str, Any]]]:
    """Key and payload of plain rows."""
    return [(f"order:{k}", fields(k)) for k in ks]


def new(ks: range) -> Iterator[NewRow]:
    """The same as ours."""
    return (NewRow("nothing", fields(k), key=f"order:{k}") for k in ks)
