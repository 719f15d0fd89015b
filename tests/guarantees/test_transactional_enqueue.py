"""Guarantee 8: a rolled-back enqueue leaves nothing, a committed one is never lost."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from guarantees.facts import until, user_connection
from tenure import postgres, verbs
from tenure.errors import InvalidPayload
from tenure.model.rows import NewRow
from tenure.verbs import settle
from world import World

TABLES = ("live", "idempotency", "orders")
KEYED = NewRow("send_receipt", {"order_id": 9182}, idempotency_key="receipt-9182")

CONNECTIONS = [
    pytest.param({}, id="plain"),
    pytest.param({"row_factory": dict_row}, id="dict_row"),
    pytest.param({"cursor_factory": psycopg.ClientCursor}, id="client_cursor"),
    pytest.param({"prepare_threshold": None}, id="unprepared"),
    pytest.param({"prepare_threshold": 0}, id="prepared_at_once"),
]


@pytest.fixture
def shop(world: World) -> World:
    """A world with a table of the user's own."""
    world.sql("CREATE TABLE orders (id int)")
    return world


def _counts(world: World) -> list[int]:
    return [world.count(table) for table in TABLES]


def test_a_pipeline_of_the_caller_has_its_answers(shop: World) -> None:
    conn = user_connection(shop)
    with conn.pipeline():
        conn.execute("INSERT INTO orders VALUES (1)")
        assert shop.run(verbs.enqueue(KEYED), conn).outcome == "enqueued"
        assert shop.run(verbs.enqueue(NewRow("send_receipt")), conn).outcome == "enqueued"
    conn.commit()

    async def again() -> str:
        async with await psycopg.AsyncConnection.connect(shop.url) as awaiting, awaiting.pipeline():
            return (await postgres.run(awaiting, verbs.enqueue(KEYED), shop.schema)).outcome

    assert asyncio.run(again()) == "duplicate"
    assert _counts(shop) == [2, 1, 1]


@pytest.mark.parametrize("how", CONNECTIONS)
def test_a_rolled_back_enqueue_leaves_nothing(shop: World, how: dict[str, Any]) -> None:
    conn = user_connection(shop, **how)
    conn.execute("INSERT INTO orders VALUES (1)")
    assert shop.run(verbs.enqueue(KEYED), conn).outcome == "enqueued"
    assert shop.run(verbs.enqueue(KEYED), conn).outcome == "duplicate"
    postgres.copy(conn, [NewRow("send_receipt")], shop.schema)
    conn.rollback()
    assert _counts(shop) == [0, 0, 0]
    assert shop.run(verbs.enqueue(KEYED)).outcome == "enqueued"


@pytest.mark.parametrize("how", CONNECTIONS)
def test_a_committed_enqueue_stands_beside_the_users_own_rows(shop: World, how: dict[str, Any]) -> None:
    conn = user_connection(shop, **how)
    conn.execute("INSERT INTO orders VALUES (1)")
    sent = shop.run(verbs.enqueue(KEYED), conn)
    postgres.copy(conn, [NewRow("send_receipt", {"n": n}) for n in range(3)], shop.schema)
    assert _counts(shop) == [0, 0, 0]  # nothing is visible before the commit
    assert shop.claim("A") == []
    conn.commit()
    assert _counts(shop) == [4, 1, 1]
    jobs = shop.claim("A", 10)
    assert sent.id in {job.id for job in jobs}
    assert sorted(job.payload for job in jobs) == ['{"n": 0}', '{"n": 1}', '{"n": 2}', '{"order_id": 9182}']


@pytest.mark.parametrize("how", CONNECTIONS)
def test_a_whole_life_can_be_lived_on_a_users_connection(shop: World, how: dict[str, Any]) -> None:
    conn = user_connection(shop, **how)
    shop.run(verbs.enqueue(KEYED), conn)
    (job,) = shop.run(verbs.claim("A", 1), conn)
    assert shop.run(verbs.renew([job.lease]), conn).lost == ()
    assert shop.run(settle.complete([job.lease]), conn)[0].ok
    conn.commit()
    assert shop.status(job.id) == "completed"


def test_a_savepoint_rolled_back_takes_only_its_own_rows(shop: World) -> None:
    conn = user_connection(shop)
    kept = shop.run(verbs.enqueue(NewRow("kept")), conn)
    with conn.transaction(force_rollback=True):
        shop.run(verbs.enqueue(NewRow("dropped", idempotency_key="k")), conn)
    conn.commit()
    assert shop.sql("SELECT id, kind FROM live") == [(kept.id, "kept")]
    assert shop.count("idempotency") == 0


@pytest.mark.parametrize("how", CONNECTIONS)
def test_on_an_awaiting_connection_too(shop: World, how: dict[str, Any]) -> None:
    if "cursor_factory" in how:
        how = {"cursor_factory": psycopg.AsyncClientCursor}

    async def story(end: Callable[[psycopg.AsyncConnection[Any]], Awaitable[None]], row: NewRow) -> None:
        conn: Any = await psycopg.AsyncConnection.connect(shop.url, **how)
        async with conn:
            await conn.execute(f"INSERT INTO {shop.schema}.orders VALUES (1)")
            await postgres.run(conn, verbs.enqueue(row), shop.schema)
            assert await postgres.copy_async(conn, [NewRow("send_receipt")] * 2, shop.schema) == 2
            await end(conn)

    asyncio.run(story(lambda conn: conn.rollback(), KEYED))
    assert _counts(shop) == [0, 0, 0]
    asyncio.run(story(lambda conn: conn.commit(), KEYED))
    assert _counts(shop) == [3, 1, 1]


def test_an_sql_call_of_another_language_takes_part_too(shop: World) -> None:
    conn = user_connection(shop)
    call = "SELECT outcome FROM enqueue('send_receipt', '{}', partition_key => 'order:1', delay_seconds => 60)"
    assert conn.execute(call).fetchone() == ("enqueued",)
    conn.rollback()
    assert shop.count("live") == 0
    conn.execute(call)
    conn.commit()
    assert shop.sql("SELECT kind, partition_key, queue, max_attempts FROM live") == [
        ("send_receipt", "order:1", "default", 10)
    ]
    assert shop.claim() == []


def test_what_was_sent_comes_back_as_it_was(shop: World) -> None:
    payloads: list[Any] = [
        {"text": "ü 🧾 \\ \" \t\n \u2028", "n": [1, -1, 0, 1.5, 2**60, True, False, None]},
        [], {}, "", 0, None, False, [[[]]], {"": {"": ""}}, "%(name)s :name tenure. $1",
    ]  # fmt: skip
    shop.run(verbs.enqueue_many([NewRow("send_receipt", payload) for payload in payloads]))
    postgres.copy(shop.conn, [NewRow("send_receipt", payload) for payload in payloads], shop.schema)
    back = [json.loads(payload) for (payload,) in shop.sql("SELECT payload::text FROM live ORDER BY seq")]
    assert back == payloads * 2
    decoded = [job.decode() for job in shop.claim(n=100)]
    assert sorted(map(repr, decoded)) == sorted(map(repr, back))


def test_copy_carries_every_option(shop: World) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    row = NewRow(
        "send_receipt",
        {"a": "\t\\N"},
        key="order\t1",
        queue="mail",
        priority=-5,
        at=at,
        max_attempts=9,
        ordered=True,
        hold=True,
    )
    assert postgres.copy(shop.conn, [row, NewRow("later", delay_seconds=60)], shop.schema) == 2
    first, second = shop.sql(
        "SELECT payload, partition_key, queue, priority, available_at, max_attempts, ordered, hold, status"
        " FROM live ORDER BY seq"
    )
    assert first == ({"a": "\t\\N"}, "order\t1", "mail", -5, at, 9, True, True, "pending")
    assert timedelta(0) < second[4] - datetime.now(UTC) <= timedelta(seconds=60)


def test_what_comes_by_copy_is_due_when_it_was_sent_by_the_clock_of_the_server(shop: World) -> None:
    assert postgres.copy(shop.conn, [NewRow("send_receipt") for _ in range(3)], shop.schema) == 3
    assert shop.sql("SELECT count(*) FROM live WHERE available_at = created_at") == [(3,)]


def test_what_comes_by_copy_late_in_a_transaction_is_not_due_since_that_began(shop: World) -> None:
    with shop.conn.transaction():
        shop.sql("SELECT pg_sleep(0.2)")
        postgres.copy(shop.conn, [NewRow("send_receipt")], shop.schema)
        assert shop.sql("SELECT available_at > now() + interval '0.1 seconds' FROM live") == [(True,)]


def test_a_copy_that_meets_a_bad_row_leaves_nothing(shop: World) -> None:
    for bad in (NewRow("send_receipt", idempotency_key="k"), NewRow(""), NewRow("send_receipt", {"a": "\0"})):
        with pytest.raises(InvalidPayload):
            postgres.copy(shop.conn, [NewRow("send_receipt"), bad], shop.schema)
        assert shop.count("live") == 0
        assert shop.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


PRODUCER = """
import sys
from tenure import postgres, verbs
from tenure.model.rows import NewRow
url, schema, when = sys.argv[1:]
import psycopg
conn = psycopg.connect(url, application_name="producer " + schema)
postgres.run(conn, verbs.enqueue(NewRow("send_receipt", {"n": 1}, idempotency_key="k")), schema)
if when == "after_commit":
    conn.commit()
print("here", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("when", "rows"), [("before_commit", 0), ("after_commit", 1)])
def test_a_producer_killed_before_its_commit_leaves_nothing_and_after_it_everything(
    shop: World, when: str, rows: int
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PRODUCER, shop.url, shop.schema, when], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"here\n"
        child.send_signal(signal.SIGKILL)
    until(
        lambda: not shop.sql("SELECT 1 FROM pg_stat_activity WHERE application_name = %s", f"producer {shop.schema}"),
        "the killed producer's backend is gone",
    )
    assert _counts(shop) == [rows, rows, 0]
    assert len(shop.claim()) == rows
