"""Checkout: a saga. What was reserved and charged is given back when a later step fails, or the customer cancels.

tenure dev examples/checkout/app.py          # or: tenure worker examples/checkout/app.py
python examples/checkout/app.py              # in another terminal: an order, and its parcel
tenure flows                                 # and: tenure flow show ID
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg

from tenure import Fail, Inbox
from tenure.settings import load
from tenure.shapes.flow import TIMED_OUT, Flow, Flows, Tries, step_key, undone_key

inbox = Inbox()
flows = Flows(inbox)

TABLES = (
    "CREATE TABLE IF NOT EXISTS stock (sku text PRIMARY KEY, free int NOT NULL CHECK (free >= 0))",
    "CREATE TABLE IF NOT EXISTS receipts (order_id int PRIMARY KEY, tracking text NOT NULL)",
)


class Bank:
    """Stands for a payment provider: what is asked again under the same key is done once. It declines odd cards."""

    def __init__(self) -> None:
        self.charges: dict[str, int] = {}

    def charge(self, key: str, card: str, amount: int) -> str:
        """Take the money."""
        if card == "declined":
            raise ValueError(f"card {card!r} has no {amount} left")
        self.charges.setdefault(key, amount)
        return key

    def refund(self, key: str) -> None:
        """Give it back; nothing was taken under a key that it does not know."""
        self.charges.pop(key, None)


bank = Bank()


async def reserve(tx: psycopg.AsyncConnection[Any], order_id: int, sku: str) -> None:
    """In the transaction of its record: exactly once."""
    found = await tx.execute("UPDATE stock SET free = free - 1 WHERE sku = %s AND free > 0", [sku])
    if found.rowcount == 0:
        raise ValueError(f"order {order_id}: no {sku!r} is left")


async def unreserve(tx: psycopg.AsyncConnection[Any], reserved: None, order_id: int, sku: str) -> None:
    """The undo of it, in the transaction of its own record."""
    del reserved, order_id
    await tx.execute("UPDATE stock SET free = free + 1 WHERE sku = %s", [sku])


async def charge(card: str, amount: int) -> str:
    """Outside of Postgres: at least once, so it sends the key of its step along."""
    return bank.charge(step_key(), card, amount)


async def refund(charged: str | None, card: str, amount: int) -> None:
    """Also called when nobody knows whether the charge took place: then `charged` is None, and the bank knows."""
    del charged, card, amount
    bank.refund(undone_key())


async def receipt(tx: psycopg.AsyncConnection[Any], order_id: int, tracking: str) -> None:
    """Exactly once, like every fenced step."""
    await tx.execute("INSERT INTO receipts VALUES (%s, %s)", [order_id, tracking])


@flows.workflow("checkout", name="order:{order_id}", deadline_seconds=30 * 86_400)
async def checkout(flow: Flow, order_id: int, sku: str, card: str, amount: int) -> str | Fail:
    """From the order to the receipt; whatever fails, nothing stays half done."""
    await flow.fenced("reserve", reserve, order_id, sku, retry=Tries(1), undo=unreserve)
    charged: str = await flow.step("charge", charge, card, amount, retry=Tries(2), undo=refund)
    flow.show("paid", amount)
    shipped = await flow.wait_for("shipped", timeout_seconds=14 * 86_400)
    if shipped is TIMED_OUT:
        return Fail("never shipped")
    await flow.fenced("receipt", receipt, order_id, shipped["tracking"])
    return charged


def order(conn: Any, order_id: int, sku: str, card: str, amount: int) -> UUID:
    """In the caller's transaction; the same order twice is one checkout."""
    started: UUID = checkout.start(conn, order_id=order_id, sku=sku, card=card, amount=amount).id
    return started


def scan(conn: Any, order_id: int, tracking: str) -> str:
    """The parcel is on its way: delivered, queued if the checkout does not wait yet, unknown if there is none."""
    outcome: str = checkout.of(f"order:{order_id}").signal(conn, "shipped", {"tracking": tracking}).outcome
    return outcome


def main() -> None:
    """One order, and its parcel."""
    with psycopg.connect(load().database_url or "", autocommit=True) as conn:
        for table in TABLES:
            conn.execute(table)
        conn.execute("INSERT INTO stock VALUES ('lamp', 10) ON CONFLICT DO NOTHING")
        order(conn, 9182, "lamp", "visa", 4200)
        scan(conn, 9182, "XYZ")


if __name__ == "__main__":
    main()
