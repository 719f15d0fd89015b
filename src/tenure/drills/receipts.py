"""A hundred receipts: the happy path on the real verbs, from the order's own transaction to the fenced write."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from .. import db, sql, verbs
from ..fence import fenced
from ..model import NewRow
from .stage import Said, Stage
from .verdict import Check, Verdict

NAME = "receipts"
WORKERS = ("worker-A", "worker-B")
CLAIM_MAX = 10

ORDERS = "CREATE TABLE tenure.orders (id int NOT NULL PRIMARY KEY)"
# No key on the order: a second receipt must be able to show.
RECEIPTS = "CREATE TABLE tenure.receipts (order_id int NOT NULL, worker text NOT NULL)"


def receipts(url: str, tell: Callable[[Said], None] | None = None, *, orders: int = 100) -> Verdict:
    """Take the orders, send the receipts with two workers, count; `seconds` is what claiming and completing took."""
    with Stage(url, tell or _silent) as stage:
        stage.build(ORDERS, RECEIPTS)
        for order_id in range(1, orders + 1):
            _take_order(stage, order_id)
        stage.say("shop", "orders_taken", orders=orders)
        began = time.monotonic()
        with ThreadPoolExecutor(len(WORKERS)) as threads:
            sent = list(threads.map(lambda worker: _send_receipts(url, stage.schema, worker), WORKERS))
        seconds = time.monotonic() - began
        stage.say("shop", "receipts_sent", **dict(zip(WORKERS, sent, strict=True)))
        return Verdict(NAME, "each once", _checks(stage, orders), seconds)


def _silent(said: Said) -> None:
    """The demo needs only the verdict."""
    del said


def _take_order(stage: Stage, order_id: int) -> None:
    """The order and its row of the inbox commit together, or not at all."""
    receipt = NewRow("send_receipt", {"order_id": order_id}, key=f"order:{order_id}")
    with stage.conn.transaction():
        stage.sql("INSERT INTO tenure.orders (id) VALUES (%s)", order_id)
        stage.run(verbs.enqueue(receipt))


def _send_receipts(url: str, schema: str, worker: str) -> int:
    """What a worker does until nothing is left; how many receipts it sent."""
    insert = sql.in_schema("INSERT INTO tenure.receipts (order_id, worker) VALUES (%s, %s)", schema).encode()
    sent = 0
    with db.connect(url, application_name=f"tenure drill {worker}") as conn:
        while jobs := db.run(conn, verbs.claim(worker, CLAIM_MAX), schema):
            for job in jobs:
                with fenced(conn, job.lease, schema=schema) as tx:
                    tx.execute(insert, [job.decode()["order_id"], worker])
                sent += 1
    return sent


def _checks(stage: Stage, orders: int) -> tuple[Check, ...]:
    ((rows, different),) = stage.sql("SELECT count(*), count(DISTINCT order_id) FROM tenure.receipts")
    ((left,),) = stage.sql("SELECT count(*) FROM tenure.inbox WHERE status <> 'completed'")
    return (
        Check("every_order_has_a_receipt", "every order has a receipt", different == orders),
        Check("no_receipt_twice", "no receipt was sent twice", rows == different),
        Check("no_row_left", "no row is left behind", left == 0),
    )
