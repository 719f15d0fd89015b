"""A shop that tells others what happened: the order and the event commit together, a worker relays it to NATS.

    pip install 'tenure[nats]'
    SHOP_NATS=nats://127.0.0.1:4222 tenure worker app:inbox

The stream SHOP takes `shop.>`; you make it: `nats stream add SHOP --subjects 'shop.>'`.
"""

from __future__ import annotations

import os
from typing import Any

from tenure import Inbox
from tenure.shapes.outbox import JetStream, Outbox

inbox = Inbox()
outbox = Outbox(inbox, to=JetStream(os.environ["SHOP_NATS"], stream="SHOP", subject="shop"), source="/shop")


def pay(conn: Any, order_id: int, amount: int) -> None:
    """Both or neither; events of one order are sent in order."""
    with conn.transaction():
        conn.execute("INSERT INTO payments (order_id, amount) VALUES (%s, %s)", [order_id, amount])
        outbox.publish(conn, "order.paid", {"order_id": order_id, "amount": amount}, key=f"order:{order_id}")
