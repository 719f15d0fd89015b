"""What does an enqueue cost beside a bare INSERT of the same columns? Ratios of one run; exit 1 if a bound is broken.

One row a transaction: a handler's `enqueue` on a connection of ours, on one that never prepares (as behind a pooler),
and with an idempotency key, against a prepared INSERT into a table of the same columns that has a primary key and no
more: no index to claim by, no check, nobody to wake. Inside a larger transaction, the server's time alone. In bulk,
`enqueue_many` and COPY against a raw INSERT of unnested lists into that table, as psycopg sends them.

Turns alternate. A ratio is that of one round, and its median counts; the spread is from the lower to the upper quarter.
It is taken twice: of the time that passed, in which both wait for the disk, and of what client and server computed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from psycopg import Connection

from tenure import postgres, verbs
from tenure.app.inbox import Inbox
from tenure.model.rows import NewRow
from tenure.postgres import migrate

from .server import bench_server
from .shares import cpu_seconds

BULK = 1000
SERVER_MICROSECONDS_MAX = 110.0
SERVER_BARE_MAX = 4.2  # the same where a bare INSERT takes 26 microseconds of the server, as on a quiet machine
BARE, UNNEST = "bare INSERT", "raw unnest"
LEAST = {"enqueue": 0.6, "enqueue, never prepared": 0.5, "enqueue, idempotency key": 0.5}
LEAST_BULK = {"enqueue_many": 0.8, "COPY": 0.75}

_TABLE = "CREATE TABLE bare.rows (LIKE tenure.live INCLUDING DEFAULTS INCLUDING IDENTITY, PRIMARY KEY (id))"
_COLUMNS = "INSERT INTO bare.rows (kind, payload, partition_key, queue, priority, max_attempts, ordered, hold)"
_INSERT = f"{_COLUMNS} VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING id"
_UNNEST = f"""{_COLUMNS} SELECT * FROM unnest(
  %s::text[], %s::jsonb[], %s::text[], %s::text[], %s::smallint[], %s::int[], %s::bool[], %s::bool[]) RETURNING id"""

Contender = tuple[Connection[Any], Callable[[int], object]]  # its session, and how it sends what has this number
inbox = Inbox(schema="tenure")


@inbox.handler("send_receipt")
async def send_receipt(order_id: int, email: str, note: str, amount: float, express: bool) -> None:
    """Never called: only sent."""


class Turn(NamedTuple):
    """What one row took in one turn of a contender, in microseconds."""

    wall: float
    client: float
    server: float


def main() -> int:
    """Both tables; the ratios are judged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="alternating turns")
    parser.add_argument("--rows", type=int, default=60, help="rows a turn, one by one")
    given = parser.parse_args()
    with bench_server() as url, _connect(url) as conn, _connect(url) as pooled:
        migrate.apply(conn)
        conn.execute("DROP SCHEMA IF EXISTS bare CASCADE")
        conn.execute("CREATE SCHEMA bare")
        conn.execute(_TABLE)
        pooled.pooled = True  # as if: nothing is prepared
        found = rounds(conn, one_by_one(conn, pooled), given.rounds, given.rows)
        with conn.transaction(force_rollback=True):
            inside = rounds(conn, one_by_one(conn, conn), given.rounds, given.rows)
        in_bulk = rounds(conn, bulk(conn), given.rounds // 2, 1, each=BULK)
    good = [
        judge("one row a transaction", found, BARE, LEAST),
        judge(f"{BULK:,} rows a transaction", in_bulk, UNNEST, LEAST_BULK),
        judge_server(inside),
    ]
    return 0 if all(good) else 1


def _connect(url: str) -> Any:
    return postgres.connect(url, application_name="tenure bench")


def fields(n: int) -> dict[str, Any]:
    """A payload of five fields and about a hundred bytes."""
    return {"order_id": n, "email": "someone@example.com", "note": "x" * 30, "amount": 12.5, "express": True}


def one_by_one(conn: Connection[Any], pooled: Connection[Any]) -> dict[str, Contender]:
    """The contenders that send one row, each with its connection."""

    def bare(n: int) -> object:
        row = ("send_receipt", json.dumps(fields(n)), None, "default", 0, 10, False, False)
        return conn.execute(_INSERT, row, prepare=True).fetchall()

    return {
        BARE: (conn, bare),
        "enqueue": (conn, lambda n: send_receipt.enqueue(conn, **fields(n))),
        "enqueue, never prepared": (pooled, lambda n: send_receipt.enqueue(pooled, **fields(n))),
        "enqueue, idempotency key": (
            conn,
            lambda n: send_receipt.using(idempotency_key=f"order:{n}").enqueue(conn, **fields(n)),
        ),
    }


def bulk(conn: Connection[Any]) -> dict[str, Contender]:
    """The contenders that send a thousand rows."""

    def unnest(n: int) -> object:
        payloads = [json.dumps(fields(n * BULK + each)) for each in range(BULK)]
        same = [[each] * BULK for each in ("default", 0, 10, False, False)]
        return conn.execute(_UNNEST, (["send_receipt"] * BULK, payloads, [None] * BULK, *same)).fetchall()

    def rows(n: int) -> list[NewRow]:
        return [NewRow("send_receipt", fields(n * BULK + each)) for each in range(BULK)]

    return {
        UNNEST: (conn, unnest),
        "enqueue_many": (conn, lambda n: postgres.run(conn, verbs.enqueue_many(rows(n)))),
        "COPY": (conn, lambda n: postgres.copy(conn, rows(n))),
    }


def rounds(
    conn: Connection[Any],
    contenders: Mapping[str, Contender],
    n: int,
    rows: int,
    *,
    each: int = 1,
) -> dict[str, list[Turn]]:
    """So many turns of each, one after the other; the first is not counted."""
    numbers = count()
    took: dict[str, list[Turn]] = {name: [] for name in contenders}
    for _ in range(n + 1):
        for name, (session, send) in contenders.items():
            pid = session.info.backend_pid
            server, client, wall = cpu_seconds(pid), time.process_time(), time.perf_counter()
            for _ in range(rows):
                send(next(numbers))
            spent = time.perf_counter() - wall, time.process_time() - client, cpu_seconds(pid) - server
            took[name].append(Turn(*(1e6 * part / rows / each for part in spent)))
        conn.execute("TRUNCATE tenure.live, tenure.idempotency, bare.rows")
    return {name: turns[1:] for name, turns in took.items()}


def judge(what: str, found: Mapping[str, list[Turn]], base: str, least: Mapping[str, float]) -> bool:
    """Print one table; true if every ratio is at least its bound."""
    print(f"\n{what:<26} of {base:<12} spread       of its CPU    wall µs  client µs  server µs   a row, medians")
    good = True
    for name, turns in found.items():
        pairs = list(zip(found[base], turns, strict=True))
        low, ratio, high = statistics.quantiles([one.wall / turn.wall for one, turn in pairs], n=4)
        cpu = statistics.median((one.client + one.server) / (turn.client + turn.server) for one, turn in pairs)
        bound = least.get(name, 0.0)
        good &= min(ratio, cpu) >= bound
        said = f"   at least {bound}{'' if min(ratio, cpu) >= bound else ': BROKEN'}" if bound else ""
        times = "".join(f"{statistics.median(part):>11.1f}" for part in zip(*turns, strict=True))
        print(f"{name:<26} {ratio:>12.2f}   {low:.2f} to {high:.2f} {cpu:>10.2f}{times}{said}")
    return good


def judge_server(found: Mapping[str, list[Turn]]) -> bool:
    """Print the server's time inside a larger transaction; true if that of one enqueue is within its bound."""
    took = {name: statistics.median(turn.server for turn in turns) for name, turns in found.items()}
    most = max(SERVER_MICROSECONDS_MAX, SERVER_BARE_MAX * took[BARE])
    print("\ninside a larger transaction, µs of the server a row")
    for name, server in took.items():
        bound = f"   at most {most:.0f}{'' if server <= most else ': BROKEN'}" if name == "enqueue" else ""
        print(f"{name:<28} {server:>12.1f}   {server / took[BARE]:.1f} of a bare INSERT{bound}")
    return took["enqueue"] <= most


if __name__ == "__main__":
    sys.exit(main())
