"""A shop whose tenants are told what happened: the order and the webhooks commit together, workers call the tenants.

    pip install 'tenure[webhooks]'
    tenure worker app:inbox

`receiver.py` is a tenant. To try both on one machine, name its port: SHOP_LOCAL_PORT=8000. Without it only public
addresses are called, by https.
"""

from __future__ import annotations

import os
from typing import Any
from uuid import UUID

from tenure import Inbox
from tenure.shapes.webhook import Endpoint, Guard, Webhooks

local = os.environ.get("SHOP_LOCAL_PORT")
inbox = Inbox()
hooks = Webhooks(
    inbox, guard=Guard(ports=(int(local),), allow_http=True, allow_networks=("127.0.0.1/32",)) if local else None
)


def sign_up(conn: Any, tenant: str, url: str) -> Endpoint:
    """A tenant gives its address and is shown its secret, once."""
    made: Endpoint = hooks.add(conn, tenant=tenant, url=url, kinds=["order.*"])
    return made


def pay(conn: Any, tenant: str, order_id: int, amount: int) -> None:
    """Both or neither: the payment, and what the tenant is told of it."""
    with conn.transaction():
        conn.execute("INSERT INTO payments (order_id, amount) VALUES (%s, %s)", [order_id, amount])
        hooks.send(conn, tenant, "order.paid", {"order_id": order_id, "amount": amount})


def rotate(conn: Any, endpoint: UUID) -> str:
    """Another secret for the tenant; for a day both sign, so that it can change over when it likes."""
    made: Endpoint = hooks.rotate(conn, endpoint, overlap_seconds=86_400)
    return made.secret
