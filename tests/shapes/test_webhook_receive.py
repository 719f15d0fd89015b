"""Webhooks in: verified over the raw bytes, stored once, acknowledged after the commit."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from standardwebhooks.webhooks import Webhook
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import BadSettings
from tenure.events import Event, WebhookDiffers, WebhookReceived, WebhookRefused
from tenure.shapes.webhook import (
    GitHubSignature,
    HmacSignature,
    StandardSignature,
    StripeSignature,
    Webhooks,
    new_secret,
)
from tenure.shapes.webhook.verifiers import Forged
from world import World

pytestmark = pytest.mark.one_server
SECRET = new_secret()
BODY = b'{"id": "evt_1", "type": "charge.paid", "amount": 42}'


def hexed(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def standard(body: bytes = BODY, at: float | None = None, id: str = "msg_1") -> dict[str, str]:
    moment = time.time() if at is None else at
    signed = Webhook(SECRET).sign(id, datetime.fromtimestamp(moment, UTC), body.decode())
    return {"webhook-id": id, "webhook-timestamp": str(int(moment)), "webhook-signature": signed}


def stripe(body: bytes = BODY, at: float | None = None, by: str = "s") -> dict[str, str]:
    moment = int(time.time() if at is None else at)
    return {"stripe-signature": f"t={moment},v1={hexed(by, f'{moment}.'.encode() + body)},v0=old"}


class Shop:
    """A receiver of an inbox, and its events."""

    def __init__(self, world: World, verify: Any = None, **more: Any) -> None:
        inbox = Inbox(schema=world.schema)
        self.events: list[Event] = []
        inbox.bus.subscribe(self.events.append)

        @inbox.handler("on_stripe")
        async def on_stripe(job: Job, id: str, body: dict[str, Any]) -> None: ...

        hooks = Webhooks(inbox)
        self.app = hooks.receive(
            "stripe", verify=verify or StandardSignature(SECRET), then=on_stripe, **{"url": world.url, **more}
        )

    def post(self, headers: dict[str, str], *parts: bytes, method: str = "POST") -> int:
        """The status of one request; what it says beside is nothing."""
        return asyncio.run(self._post(headers, list(parts) or [BODY], method))

    async def _post(self, headers: dict[str, str], parts: list[bytes], method: str) -> int:
        sent: list[Any] = []
        coming = [
            {"type": "http.request", "body": part, "more_body": n < len(parts)} for n, part in enumerate(parts, 1)
        ]

        async def receive() -> Any:
            return coming.pop(0) if coming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        raw = [(name.title().encode(), value.encode()) for name, value in headers.items()]
        await self.app({"type": "http", "method": method, "path": "/", "headers": raw}, receive, send)
        assert sent[1]["body"] == b""  # nothing is echoed
        return int(sent[0]["status"])


def test_a_verified_request_is_one_row_however_often_it_comes(world: World) -> None:
    shop = Shop(world)
    assert [shop.post(standard(), BODY[:7], BODY[7:]) for _ in range(3)] == [202, 202, 202]
    ((kind, key, payload),) = world.sql("SELECT kind, idempotency_key, payload FROM live")
    assert (kind, key, payload) == ("on_stripe", "stripe:on_stripe:msg_1", {"id": "msg_1", "body": json.loads(BODY)})
    assert [each.outcome for each in shop.events if isinstance(each, WebhookReceived)] == [
        "enqueued",
        "duplicate",
        "duplicate",
    ]


def test_the_same_id_with_other_content_is_acknowledged_told_and_the_first_one_stands(world: World) -> None:
    shop = Shop(world)
    other = BODY.replace(b"42", b"43")
    assert [shop.post(standard()), shop.post(standard(other), other)] == [202, 202]
    assert [type(each) for each in shop.events if isinstance(each, WebhookDiffers)] == [WebhookDiffers]
    assert world.sql("SELECT payload -> 'body' ->> 'amount' FROM live") == [("42",)]


@pytest.mark.parametrize(
    ("body", "id", "status", "says"),
    [
        (BODY, "i" * 600, 401, "the id of the request has 600 characters, the limit is 200"),
        (BODY, "a\u200bb", 401, "the id of the request is not printable text"),
        (b'{"n": 1e400}', "msg_1", 400, "the body has a number that is too large"),
        (b'{"n": %s}' % (b"9" * 5000), "msg_1", 400, "the body has a number that is too large"),
        (b"hello", "msg_1", 400, "the body is not JSON"),
    ],
)
def test_what_is_wrong_with_a_request_is_told(world: World, body: bytes, id: str, status: int, says: str) -> None:
    shop = Shop(world)
    assert shop.post(standard(body, id=id), body) == status
    assert [each.reason for each in shop.events if isinstance(each, WebhookRefused)] == [says]


NOT_UTF8 = b'{"id": "evt_1", "name": "\xff"}'
DEEP = b'{"id": "evt_1", "deep": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"


@pytest.mark.parametrize("body", [NOT_UTF8, DEEP])
def test_a_signed_body_that_cannot_be_read_is_refused(world: World, body: bytes) -> None:
    assert Shop(world, HmacSignature("s", header="X-Sig")).post({"x-sig": hexed("s", body)}, body) == 400
    assert Shop(world, StripeSignature("s")).post(stripe(body), body) == 401  # its id is in the body
    assert world.count("live") == 0


def test_forged_old_and_malformed_requests_are_refused_and_leave_nothing(world: World) -> None:
    shop = Shop(world)
    forged = {**standard(), "webhook-signature": "v1,AAAA"}
    assert shop.post(forged) == 401
    assert shop.post(standard(), BODY + b" ") == 401  # the raw bytes count, not what they mean
    assert shop.post(standard(at=time.time() - 301)) == 401
    assert shop.post(standard(at=time.time() + 301)) == 401
    assert shop.post({}) == 401
    assert shop.post(standard(), method="GET") == 405
    assert shop.post(standard(), b"x" * 1_048_577) == 413
    too_large = b'{"n": "%s"}' % (b"x" * (1_048_576 - 9))  # alone it would do, with its id it is no row
    assert shop.post(standard(too_large), too_large) == 413
    deep = b"[" * 2_000 + b"]" * 2_000
    assert shop.post(standard(deep), deep) == 400
    no_json = b"hello"
    assert shop.post(standard(no_json), no_json) == 400
    no_object = b"[1]"
    assert shop.post(standard(no_object), no_object) == 400  # the handler cannot take it
    assert world.sql("SELECT count(*) FROM live") == [(0,)]
    assert len([each for each in shop.events if isinstance(each, WebhookRefused)]) == 11


def test_a_database_that_is_away_is_answered_so_that_the_provider_comes_again(world: World) -> None:
    shop = Shop(world, url="postgresql://nobody@127.0.0.1:1/none?connect_timeout=2")
    assert shop.post(standard()) == 503


def test_a_pool_lends_connections(world: World) -> None:
    lent = []

    def lend() -> Any:
        lent.append(1)
        return _Opened(world.url)

    shop = Shop(world, connections=lend)
    assert shop.post(standard()) == 202
    assert lent == [1]
    assert world.sql("SELECT count(*) FROM live") == [(1,)]


class _Opened:
    def __init__(self, url: str) -> None:
        self._url = url
        self._conn: Any = None

    async def __aenter__(self) -> Any:
        self._conn = await psycopg.AsyncConnection.connect(self._url)
        return self._conn

    async def __aexit__(self, *_: Any) -> None:
        await self._conn.close()


def test_stripe_is_verified_by_its_own_rules() -> None:
    verifier, now = StripeSignature(["old", "s"]), time.time()
    assert verifier.verify(stripe(), BODY, now) == "evt_1"
    for headers, body in (
        (stripe(by="other"), BODY),
        (stripe(at=now - 301), BODY),
        (stripe(), BODY + b" "),
        ({"stripe-signature": "t=,v1="}, BODY),
        ({}, BODY),
        (stripe(b"[]"), b"[]"),
        (stripe(b"{}"), b"{}"),
    ):
        with pytest.raises(Forged):
            verifier.verify(headers, body, now)


def test_github_is_verified_by_its_own_rules() -> None:
    verifier = GitHubSignature("s")
    good = {"x-hub-signature-256": "sha256=" + hexed("s", BODY), "x-github-delivery": "guid"}
    assert verifier.verify(good, BODY, 0.0) == "guid"
    for wrong in (
        {**good, "x-hub-signature-256": "sha256=" + hexed("t", BODY)},
        {**good, "x-hub-signature-256": hexed("s", BODY)},
        {"x-hub-signature-256": good["x-hub-signature-256"]},
        {},
    ):
        with pytest.raises(Forged):
            verifier.verify(wrong, BODY, 0.0)


def test_any_other_hmac_is_verified_by_the_header_that_was_named() -> None:
    verifier = HmacSignature("s", "X-Signature", id_header="X-Id")
    good = {"x-signature": hexed("s", BODY), "x-id": "7"}
    assert verifier.verify(good, BODY, 0.0) == "7"
    bare = HmacSignature("s", "X-Signature")
    assert bare.verify(good, BODY, 0.0) == hashlib.sha256(BODY).hexdigest()
    for wrong in ({"x-id": "7"}, {"x-signature": "", "x-id": "7"}, {"x-signature": hexed("s", BODY)}):
        with pytest.raises(Forged):
            verifier.verify(wrong, BODY, 0.0)
    with pytest.raises(BadSettings, match="digest"):
        HmacSignature("s", "X-Signature", digest="md5")  # type: ignore[arg-type]


def test_a_verifier_without_a_secret_is_refused_and_shows_none() -> None:
    for make in (GitHubSignature, StripeSignature, lambda s: HmacSignature(s, "X"), StandardSignature):
        for empty in ("", [], [""]):
            with pytest.raises(BadSettings):
                make(empty)
    with pytest.raises(BadSettings, match="bytes"):
        StandardSignature("whsec_AAAA")
    assert SECRET not in repr(StandardSignature(SECRET))


@pytest.mark.parametrize("path", ["/in/stripe", "/in/stripe/"])
def test_as_a_route_and_a_mount_of_starlette_it_is_reached_with_and_without_a_slash(world: World, path: str) -> None:
    shop = Shop(world)
    site = Starlette(routes=[Route("/in/stripe", shop.app), Mount("/in/stripe", shop.app)])
    asked = TestClient(site, follow_redirects=False).post(path, content=BODY, headers=standard())
    assert (asked.status_code, world.count("live")) == (202, 1)
