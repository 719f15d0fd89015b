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
from tenure.shapes.webhook import (
    GitHubSignature,
    HmacSignature,
    StandardSignature,
    StripeSignature,
    Webhooks,
    new_secret,
)
from world import World

pytestmark = pytest.mark.one_server


def made(schema: str = "tenure", kind: str = "on_hook") -> tuple[Webhooks, Any]:
    """Webhooks of an inbox, and its handler."""
    inbox = Inbox(schema=schema)

    @inbox.handler(kind)
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
    assert (status, keys) == (202, {"shop:on_hook:eu:msg_1", "shop-eu:on_hook:msg_1"})


def test_receivers_of_one_name_in_two_inboxes_of_a_schema_store_one_row_each(world: World) -> None:
    """The id of each delivery is the provider's: it is the kind that tells them apart."""
    shop = Shop(world)
    for kind, id in (("on_hook", "b:1"), ("on_hook:b", "1"), ("on_hook", "b:1")):
        hooks, then = made(world.schema, kind)
        shop.app = hooks.receive("shop", verify=StandardSignature(SECRET), then=then, url=world.url)
        assert shop.post(standard(id=id)) == 202
    found = world.sql("SELECT kind, idempotency_key FROM live ORDER BY kind")
    assert found == [("on_hook", "shop:on_hook:b:1"), ("on_hook:b", "shop:on_hook%3Ab:1")]


def test_a_name_and_a_kind_that_leave_no_room_for_an_id_are_refused() -> None:
    hooks, on_hook = made(kind=":" * 120)
    with pytest.raises(BadSettings, match="too long together"):
        hooks.receive("shop", verify=StandardSignature(SECRET), then=on_hook)


@pytest.mark.parametrize("make", [StandardSignature, StripeSignature])
@pytest.mark.parametrize(
    "wrong", [pytest.param(new_secret(), id="a secret"), "300", None, True, 0, -1, float("nan"), float("inf"), [300]]
)
def test_a_tolerance_that_is_no_number_of_seconds_is_refused_and_not_shown(make: Any, wrong: Any) -> None:
    """A second secret, above all: several are one list."""
    with pytest.raises(BadSettings, match="tolerance_seconds") as refused:
        make(new_secret(), wrong)
    assert "whsec_" not in str(refused.value)
    assert make(new_secret(), 600).tolerance_seconds == 600


@pytest.mark.parametrize("options", [{"header": 5}, {"header": "a b"}, {"header": ""}, {"id_header": 5}, {"prefix": 5}])
def test_headers_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadSettings):
        HmacSignature("s", **{"header": "X-Sig", **options})


@pytest.mark.parametrize("secrets", [None, 5, b"secret", object()])
def test_secrets_that_are_no_text_are_refused(secrets: Any) -> None:
    for make in (StandardSignature, StripeSignature, GitHubSignature):
        with pytest.raises(BadSettings):
            make(secrets)


@pytest.mark.parametrize(
    "verify", [None, pytest.param(SECRET, id="a secret"), StandardSignature, GitHubSignature, lambda *_: "id"]
)
def test_what_is_no_verifier_is_refused_when_the_receiver_is_made(verify: Any) -> None:
    hooks, on_hook = made()
    with pytest.raises(BadSettings, match="must be a verifier") as refused:
        hooks.receive("shop", verify=verify, then=on_hook)
    assert SECRET not in str(refused.value)


def test_connections_that_cannot_be_lent_are_refused() -> None:
    hooks, on_hook = made()
    with pytest.raises(BadSettings, match="connections"):
        hooks.receive("shop", verify=StandardSignature(SECRET), then=on_hook, connections=object())


def test_a_handler_that_cannot_take_id_and_body_is_refused_when_the_receiver_is_made() -> None:
    inbox = Inbox()
    hooks, verify = Webhooks(inbox), StandardSignature(SECRET)

    async def other(job: Job, order_id: int) -> None: ...
    async def more(job: Job, id: str, body: dict[str, Any], order_id: int) -> None: ...
    async def open_more(job: Job, order_id: int, **rest: Any) -> None: ...
    async def open_all(job: Job, **rest: Any) -> None: ...
    async def with_default(id: str, body: dict[str, Any], order_id: int = 0) -> None: ...

    for wrong in (other, more, open_more):
        with pytest.raises(BadSettings, match="takes id and body"):
            hooks.receive("shop", verify=verify, then=inbox.handler(wrong.__name__)(wrong))
    hooks.receive("one", verify=verify, then=inbox.handler("open_all")(open_all))
    hooks.receive("two", verify=verify, then=inbox.handler("with_default")(with_default))
