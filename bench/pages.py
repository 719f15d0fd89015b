"""What does a page of the dashboard wait for? Every question over a million rows, on new and on warm connections.

Exit 1 when one of them takes longer than 300 ms. `fill` makes the rows: three in ten pending, six in ten completed over
two weeks, one in twenty scheduled, one in twenty dead, some held, some ordered, in a handful of queues and kinds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

from psycopg import Connection

from tenure import postgres, sql
from tenure.model.filter import parse
from tenure.postgres import migrate
from tenure.verbs import questions, search
from tenure.verbs.statement import Statement

from .server import bench_server

MOST_SECONDS = 0.3
ROUNDS = 5
QUEUES = ("default", "mail", "reports", "billing")
KINDS = ("send_receipt", "resize_image", "charge_card", "nightly_report", "sync_customer")

_DAYS = """
DO $$
DECLARE day date;
BEGIN
  FOR day IN SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date - n FROM generate_series(1, 13) AS n LOOP
    EXECUTE format('CREATE TABLE tenure.%%I PARTITION OF tenure.archive FOR VALUES FROM (%%L) TO (%%L)',
                   'archive_' || to_char(day, 'YYYYMMDD'),
                   day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
  END LOOP;
END
$$
"""
# What every row has, made from its number: when it came (the id tells as well), its kind, queue, key and payload.
_ROWS = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT (left(tenure.id_at(at)::text, 14) || substr(gen_random_uuid()::text, 15))::uuid AS id, at, n,
       (%(kinds)s::text[])[1 + n %% cardinality(%(kinds)s)] AS kind,
       (%(queues)s::text[])[1 + (n / 7) %% cardinality(%(queues)s)] AS queue,
       CASE WHEN n %% 5 <> 0 THEN 'order:' || (n::bigint * 7919) %% 100000 END AS partition_key,
       jsonb_build_object('order_id', n, 'email', 'someone@example.com', 'note', repeat('x', 100),
                          'customer', jsonb_build_object('country', 'pt')) AS payload,
       n %% 10 = 3 AND n %% 5 <> 0 AS ordered,
       CASE WHEN n %% 3 <> 0 THEN
         'Traceback (most recent call last):' || repeat(E'\\n  File "/app/handlers.py", line 10, in handle', 12)
         || E'\\n' || CASE n %% 4 WHEN 1 THEN 'TimeoutError: no answer within ' || n %% 900 || ' s'
                        ELSE (%(kinds)s::text[])[1 + n %% 3] || ': order ' || n || ' is unknown' END
       END AS error
FROM generate_series(1, %(n)s) AS n,
     LATERAL (SELECT clock_timestamp() - %(days)s * random() * interval '1 day' + n * interval '0' AS at) AS clock
"""
_LIVE = """
INSERT INTO tenure.live (id, kind, queue, partition_key, payload, ordered, created_at, available_at,
                         attempts, last_error)
SELECT id, kind, queue, partition_key, payload, ordered, at,
       CASE WHEN %(scheduled)s THEN clock_timestamp() + random() * interval '2 days' ELSE at END,
       CASE WHEN n %% 20 = 0 THEN 2 ELSE 0 END, CASE WHEN n %% 20 = 0 THEN error END
FROM made ORDER BY id
"""
_HELD = """
UPDATE tenure.live
SET status = 'processing', claimed_by = 'worker-' || seq %% 5, claimed_at = clock_timestamp(), claim_id = 1,
    lease_expires_at = clock_timestamp() + interval '90 seconds', lease_generation = 1, attempts = attempts + 1
WHERE id IN (SELECT id FROM tenure.live WHERE NOT ordered ORDER BY available_at LIMIT %(n)s)
"""
_ARCHIVE = """
INSERT INTO tenure.archive (id, created_at, available_at, claimed_at, completed_at, lease_generation, fence_token,
                            attempts, max_attempts, priority, ordered, kind, queue, partition_key, finished_by,
                            payload, last_error)
SELECT id, at, at, at, at, 1, (1::bigint << 40) + n, 1, 5, 0, ordered, kind, queue, partition_key,
       'worker-' || n %% 5, payload, CASE WHEN n %% 50 = 0 THEN error END
FROM made ORDER BY id
"""
_DEAD = """
INSERT INTO tenure.dead (id, seq, created_at, available_at, claimed_at, finished_at, lease_generation, fence_token,
                         attempts, max_attempts, priority, ordered, hold, status, kind, queue, partition_key,
                         finished_by, payload, last_error)
SELECT id, n, at, at, at, at + interval '1 second', 1, (1::bigint << 40) + n, 5, 5, 0, ordered, false,
       CASE WHEN n %% 10 < 6 THEN 'dead_letter' WHEN n %% 10 < 9 THEN 'failed' ELSE 'cancelled' END,
       kind, queue, partition_key, 'worker-' || n %% 5, payload, error
FROM made ORDER BY id
"""
_WORKERS = """
INSERT INTO tenure.workers (id, status, metadata)
SELECT 'worker-' || n, CASE WHEN n = 0 THEN 'dead' ELSE 'alive' END,
       '{"queues": ["default", "mail"], "slots": 20, "slots_used": 3}'
FROM generate_series(0, 4) AS n
"""
_TIDY = ("VACUUM ANALYZE tenure.live", "VACUUM ANALYZE tenure.dead", "VACUUM ANALYZE tenure.archive")

FILTERS = (
    "",
    "status:runnable",
    "status:pending",
    "status:scheduled",
    "status:processing",
    "status:completed",
    "status:dead_letter,failed",
    "status:cancelled",
    "queue:mail",
    "queue:nowhere",
    "kind:charge_card",
    "kind:nowhere",
    "kind:charge* queue:mai*",
    "key:order:77",
    "key:order:77*",
    "worker:worker-3",
    "worker:nobody",
    'error:"no answer within"',
    "error:nowhere",
    "payload.order_id:77",
    "payload.customer.country:pt",
    'kind:charge_card error:"no answer" payload.customer.country:pt',
    'kind:charge_card error:"no answer within 77 s" payload.order_id:77',
    'status:dead_letter kind:charge_card error:"no answer" payload.customer.country:es',
    "attempts:>3",
    "attempts:>7",
    "age:>1h",
    "age:>13d",
    "age:<5m",
    "idempotency:nothing",
    "ordered:yes",
    "bucket:17",
)


def main() -> int:
    """A table of times; the slowest decides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows in all")
    given = parser.parse_args()
    with bench_server() as url, postgres.connect(url, application_name="tenure bench") as conn:
        migrate.apply(conn)
        began = time.monotonic()
        fill(conn, rows=given.rows)
        print(f"{given.rows:,} rows made in {time.monotonic() - began:.0f} s\n")
        slowest = measure(url, asked(conn))
    print(f"\nslowest {1000 * slowest:.0f} ms (at most {1000 * MOST_SECONDS:.0f})")
    return 0 if slowest <= MOST_SECONDS else 1


def fill(conn: Connection[Any], schema: str = "tenure", rows: int = 1_000_000) -> None:
    """Put so many rows into an empty, migrated schema, vacuumed as they would be in a day's use."""
    for text in (_DAYS, _WORKERS):
        _run(conn, text, schema, {})
    shares = ((_LIVE, 0.3, 2, False), (_LIVE, 0.05, 3, True), (_ARCHIVE, 0.6, 13, False), (_DEAD, 0.05, 13, False))
    for text, share, days, scheduled in shares:
        made = {"n": int(rows * share), "days": days, "kinds": list(KINDS), "queues": list(QUEUES)}
        with conn.transaction():
            _run(conn, _ROWS, schema, made)
            _run(conn, text, schema, {"scheduled": scheduled} if text is _LIVE else {})
    _run(conn, _HELD, schema, {"n": rows // 1000})
    for text in _TIDY:
        _run(conn, text, schema, {})


def _run(conn: Connection[Any], text: str, schema: str, params: dict[str, Any]) -> None:
    conn.execute(sql.in_schema(text, schema).encode(), params)


def asked(conn: Connection[Any]) -> dict[str, Statement[Any]]:
    """Every question that a page asks, by name; those about one row are asked about one of each table."""
    found: dict[str, Statement[Any]] = {}
    for text in [*FILTERS, f"fingerprint:{_fingerprint(conn)}"]:
        filter, name = parse(text), text or "(all)"
        found[f"page {name}"] = search.page(filter)
        found[f"count {name}"] = search.count(filter)
    for text in FILTERS[::4]:
        found[f"statuses {text or '(all)'}"] = search.statuses(parse(text))
    six_days_back = _one(conn, "SELECT tenure.id_at(clock_timestamp() - interval '6 days')")
    found["page (all), six days back"] = search.page(parse(""), before=six_days_back)
    found["ids status:dead_letter"] = search.ids(parse("status:dead_letter"))
    found |= {"overview": search.overview(), "dead_groups": search.dead_groups()}
    found |= {"queue_depths": questions.queue_depths(), "queue_lags": questions.queue_lags()}
    found |= {"held_by_worker": questions.held_by_worker(), "ring_depth": questions.ring_depth(["default", "mail"])}
    found |= {"blocked_keys": questions.blocked_keys(), "workers": questions.workers()}
    for place in ("live", "dead", "archive"):
        id = _one(conn, f"SELECT id FROM tenure.{place} ORDER BY id LIMIT 1")
        found |= {f"row, of {place}": questions.row(id), f"tape, of {place}": questions.tape(id)}
        found |= {f"why, of {place}": questions.why(id), f"effects, of {place}": search.effects(id)}
    return found


def _fingerprint(conn: Connection[Any]) -> str:
    return str(_one(conn, "SELECT fingerprint FROM tenure.dead WHERE status = 'dead_letter' LIMIT 1"))


def _one(conn: Connection[Any], query: str) -> Any:
    found = conn.execute(query.encode()).fetchone()
    assert found is not None
    return found[0]


def measure(url: str, questions: dict[str, Statement[Any]]) -> float:
    """Time each question ROUNDS times on new connections and on a warm one; prints the table, returns the worst."""
    print(f"{'ms':<75}{'new: median':>12}{'worst':>8}{'warm: median':>14}{'worst':>8}")
    slowest = 0.0
    with postgres.connect(url) as warm:
        for name, statement in questions.items():
            cold = [timed_anew(url, statement) for _ in range(ROUNDS)]
            again = [timed(warm, statement) for _ in range(ROUNDS)]
            slowest = max(slowest, *cold, *again)
            cells = (statistics.median(cold), max(cold), statistics.median(again), max(again))
            numbers = "".join(f"{1000 * cell:>{width}.1f}" for cell, width in zip(cells, (12, 8, 14, 8), strict=True))
            over = "  over" if max(cells) > MOST_SECONDS else ""
            print(f"{name[:74]:<75}{numbers}{over}", flush=True)
    return slowest


def timed_anew(url: str, statement: Statement[Any]) -> float:
    """Seconds of the first question on a new connection, connecting not counted."""
    with postgres.connect(url) as conn:
        return timed(conn, statement)


def timed(conn: Connection[Any], statement: Statement[Any]) -> float:
    """Seconds of one question."""
    began = time.perf_counter()
    postgres.run(conn, statement)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
