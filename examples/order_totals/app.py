"""Order totals: events in a journal, and a table that a projection makes of them.

    tenure dev examples/order_totals/app.py      # or: tenure worker examples/order_totals/app.py

Then, in another terminal: python examples/order_totals/app.py, and `tenure projections`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import psycopg

from tenure import Inbox, connect_async
from tenure.shapes.projection import Event, Journal

inbox = Inbox()
journal = Journal(inbox)

TABLE = (
    "CREATE TABLE IF NOT EXISTS order_totals (customer text PRIMARY KEY, orders int NOT NULL, amount bigint NOT NULL)"
)


@dataclass
class OrderPaid:
    """Somebody has paid; its type is order.paid."""

    customer: str
    amount: int


@journal.projection("order_totals", of=["order.*"], tables=["order_totals"], shards=2)
async def order_totals(tx: psycopg.AsyncConnection[Any], event: Event) -> None:
    """What this writes and how far the projection has read commit together: each event counts once."""
    paid = event.as_(OrderPaid)
    await tx.execute(
        "INSERT INTO order_totals AS t VALUES (%s, 1, %s)"
        " ON CONFLICT (customer) DO UPDATE SET orders = t.orders + 1, amount = t.amount + EXCLUDED.amount",
        [paid.customer, paid.amount],
    )


async def sell(conn: psycopg.AsyncConnection[Any], order_id: int, customer: str, amount: int) -> None:
    """One order, in one transaction with whatever else belongs to it."""
    async with conn.transaction():
        await journal.append(conn, f"order:{order_id}", OrderPaid(customer, amount), expect=0)


async def main() -> None:
    """Sell a few things."""
    async with await connect_async(autocommit=True) as conn:
        await conn.execute(TABLE)
        for order_id, customer, amount in ((1, "ann", 4200), (2, "bob", 999), (3, "ann", 100)):
            await sell(conn, order_id, customer, amount)


if __name__ == "__main__":
    asyncio.run(main())
