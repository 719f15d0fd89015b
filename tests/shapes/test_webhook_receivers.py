"""Receivers of one application: their names, and what is refused when one is made."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from shapes.test_webhook_receive import SECRET, Shop, standard
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import BadSettings
from tenure.shapes.webhook import StandardSignature, Webhooks, new_secret
from world import World

pytestmark = pytest.mark.one_server


def made(schema: str = "tenure") -> tuple[Webhooks, Any]:
    """Webhooks of an inbox, and its handler."""
    inbox = Inbox(schema=schema)

    @inbox.handler("on_hook")
    async def on_hook(job: Job, id: str, body: dict[str, Any]) -> None: ...

    return Webhooks(inbox), on_hook


def test_a_name_that_is_taken_is_refused_and_of_the_same_receiver_it_is_not() -> None:
    hooks, on_hook = made()
    secret = new_secret()
    for _ in range(2):  # as by a factory of apps that is called twice
        hooks.receive("shop", verify=StandardSignature(secret), then=on_hook)
    with pytest.raises(BadSettings, match="is taken"):
        hooks.receive("shop", verify=StandardSignature(new_secret()), then=on_hook)


@pytest.mark.parametrize("name", ["shop:eu", ":", "shop:"])
def test_a_name_with_a_colon_is_refused(name: str) -> None:
    """Beside `shop` with the id `eu:msg_1`, a receiver `shop:eu` with `msg_1` would have the same key."""
    hooks, on_hook = made()
    with pytest.raises(BadSettings, match="colon"):
        hooks.receive(name, verify=StandardSignature(SECRET), then=on_hook)


def test_what_two_receivers_have_acknowledged_is_stored_twice(world: World) -> None:
    hooks, on_hook = made(world.schema)
    shop, other = Shop(world), new_secret()
    shop.app = hooks.receive("shop", verify=StandardSignature(SECRET), then=on_hook, url=world.url)
    assert shop.post(standard(id="eu:msg_1")) == 202
    shop.app = hooks.receive("shop-eu", verify=StandardSignature(other), then=on_hook, url=world.url)
    body, at = b'{"id": "evt_2", "amount": 7}', time.time()
    signed = Webhook(other).sign("msg_1", datetime.fromtimestamp(at, UTC), body.decode())
    status = shop.post({"webhook-id": "msg_1", "webhook-timestamp": str(int(at)), "webhook-signature": signed}, body)
    keys = {key for (key,) in world.sql("SELECT idempotency_key FROM live")}
    assert (status, keys) == (202, {"shop:eu:msg_1", "shop-eu:msg_1"})
