"""The shop of the drills: orders, a ledger inside the fence, a mailbox outside it, and the handlers that fill them."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Any

from ... import postgres, sql
from ...app.inbox import Inbox
from ...app.job import Job
from ...model.backoff import Exponential
from .protocol import say

# The ledger has no unique key, the mailbox only the idempotency key of an e-mail: a duplicate must be visible.
TABLES = (
    "CREATE TABLE tenure.orders (id int NOT NULL PRIMARY KEY)",
    """
CREATE TABLE tenure.ledger (
  n          bigint      GENERATED ALWAYS AS IDENTITY,
  order_id   int         NOT NULL,
  step       int         NOT NULL DEFAULT 0,
  job_id     uuid        NOT NULL,
  worker     text        NOT NULL,
  token      bigint      NOT NULL,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp()
)""",
    """
CREATE TABLE tenure.mailbox (
  n               bigint      GENERATED ALWAYS AS IDENTITY,
  order_id        int         NOT NULL,
  idempotency_key text        UNIQUE,
  worker          text        NOT NULL,
  token           bigint      NOT NULL,
  sent_at         timestamptz NOT NULL DEFAULT clock_timestamp()
)""",
    """
CREATE TABLE tenure.shop (
  one             bool   PRIMARY KEY DEFAULT true CHECK (one),
  handler_seconds float8 NOT NULL,
  dedupe          bool   NOT NULL,
  cured           bool   NOT NULL DEFAULT false
)""",
)
PROPS = ("handler_seconds", "dedupe")
OPEN = """
INSERT INTO tenure.shop (handler_seconds, dedupe) VALUES (%s, %s)
ON CONFLICT (one) DO UPDATE SET handler_seconds = EXCLUDED.handler_seconds, dedupe = EXCLUDED.dedupe"""
ASK = "SELECT handler_seconds, dedupe, cured FROM tenure.shop"
CURE = "UPDATE tenure.shop SET cured = true"
WRITE = "INSERT INTO tenure.ledger (order_id, step, job_id, worker, token) VALUES (%s, %s, %s, %s, %s)"
POST = """
INSERT INTO tenure.mailbox (order_id, idempotency_key, worker, token) VALUES (%s, %s, %s, %s)
ON CONFLICT (idempotency_key) DO NOTHING RETURNING n"""
WAIT_SECONDS = 0.02
SOON = Exponential(first_seconds=1.0, factor=2.0, most_seconds=4.0, jitter=0.1)
LATER = Exponential(first_seconds=30.0, factor=2.0, most_seconds=60.0, jitter=0.1)  # longer than any stage lives


class Shop:
    """Plain functions, as most handlers are: they run in threads and use nothing of leases but `job.fenced()`."""

    def __init__(self, worker: str, url: str, schema: str, gate: threading.Event | None) -> None:
        self._worker, self._url, self._schema, self._gate = worker, url, schema, gate
        self.inbox = Inbox(schema=schema)
        self.inbox.handler("send_receipt", key="order:{order_id}")(self.send_receipt)
        self.inbox.handler("ship_order", key="order:{order_id}", backoff=LATER)(self.ship_order)
        self.inbox.handler("poison", key="order:{order_id}", backoff=SOON)(self.poison)

    def send_receipt(self, job: Job, order_id: int) -> None:
        """Send the e-mail, which cannot be rolled back; take a while; write the ledger inside the fence."""
        with self._outside() as outside:
            handler_seconds, dedupe, _ = self._ask(outside)
            key = f"receipt-{order_id}" if dedupe else None
            sent = outside.execute(self._sql(POST), [order_id, key, self._worker, job.token]).fetchone()
        self._tell(job, "mail_sent" if sent else "mail_already_sent", order=order_id)
        self._take_a_while(handler_seconds)
        self._write(job, order_id)

    def ship_order(self, job: Job, order_id: int, step: int, fails: int) -> None:
        """One step of an order; its first attempts may fail."""
        with self._outside() as outside:
            handler_seconds, _, _ = self._ask(outside)
        self._take_a_while(handler_seconds)
        if job.attempt <= fails:
            raise RuntimeError(f"step {step}: the label printer is out of paper")
        self._write(job, order_id, step)

    def poison(self, job: Job, order_id: int) -> None:
        """A row that fails in every attempt, until somebody repairs the shop's catalogue."""
        with self._outside() as outside:
            _, _, cured = self._ask(outside)
        if not cured:
            raise ValueError(f"order {order_id} names a product that nobody has ever made")
        self._write(job, order_id)

    def _outside(self) -> closing[postgres.QueueConnection]:
        """A connection outside the job: no fence can roll back what is written here."""
        return closing(postgres.connect(self._url, application_name=f"tenure shop {self._worker}"))

    def _ask(self, outside: postgres.QueueConnection) -> tuple[float, bool, bool]:
        return outside.execute(self._sql(ASK)).fetchone() or (0.0, True, False)

    def _write(self, job: Job, order_id: int, step: int = 0) -> None:
        with job.fenced() as tx:
            tx.execute(self._sql(WRITE), [order_id, step, job.id, self._worker, job.token])
        self._tell(job, "ledger_written", order=order_id, step=step)

    def _take_a_while(self, seconds: float) -> None:
        """Wait for so many seconds, or until the drill sends the answer."""
        by = time.monotonic() + seconds
        while not self._gate.is_set() if self._gate else time.monotonic() < by:
            time.sleep(WAIT_SECONDS)

    def _tell(self, job: Job, event: str, **fields: Any) -> None:
        say({"event": event, "worker": self._worker, "job_id": job.id, "token": job.token, **fields})

    def _sql(self, text: str) -> bytes:
        return sql.in_schema(text, self._schema).encode()
