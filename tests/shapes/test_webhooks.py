"""Webhooks out: sent if the transaction commits, signed for every live secret, and one dead endpoint delays nobody."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest
from click.testing import CliRunner
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from crew import eventually, working
from shapes.receivers import Receiving, receiving
from tenure.app.codec import Codec
from tenure.app.inbox import Inbox
from tenure.cli import tenure
from tenure.errors import BadSettings, InvalidPayload
from tenure.events import (
    DeliveryMade,
    EndpointDisabled,
    EndpointRestored,
    EndpointTripped,
    JobCompleted,
    JobFailed,
    JobRetried,
)
from tenure.model.rows import Lease
from tenure.postgres.runner import run
from tenure.shapes.webhook import ForbiddenUrl, Webhooks, new_secret, new_signing_key, public_key
from tenure.shapes.webhook.delivery import SCHEDULE_SECONDS, after_seconds, judged, retry_after
from tenure.verbs import endpoints
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def receiver() -> Iterator[Receiving]:
    with receiving() as found:
        yield found


def shop(world: World, receiver: Receiving, codec: Codec | None = None) -> tuple[Inbox, Webhooks]:
    inbox = Inbox(schema=world.schema, codec=codec)
    return inbox, Webhooks(inbox, guard=receiver.guard())


def state(world: World, id: UUID) -> endpoints.EndpointRow:
    (found,) = [each for each in run(world.conn, endpoints.endpoints(), world.schema) if each.id == id]
    return found


def verified(secret: str, sent: Any) -> Any:
    return Webhook(secret).verify(sent.body, sent.headers)


def test_a_committed_webhook_reaches_every_endpoint_that_wants_it_and_a_rolled_back_one_none(
    world: World, receiver: Receiving
) -> None:
    inbox, hooks = shop(world, receiver)
    a = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["order.*"])
    b = hooks.add(world.conn, tenant="acme", url=receiver.url("/b"), kinds=["order.paid", "user.made"])
    hooks.add(world.conn, tenant="acme", url=receiver.url("/c"), kinds=["user.*"])
    hooks.add(world.conn, tenant="other", url=receiver.url("/d"), kinds=["*"])
    with psycopg.connect(world.url) as conn:
        sent = hooks.send(conn, "acme", "order.paid", {"order_id": 9182})
        conn.commit()
        hooks.send(conn, "acme", "order.paid", {"order_id": "never"})
        conn.rollback()
    assert sent.sent == 2
    with working(world, inbox) as hired:
        hired.saw(JobCompleted, 2)
        made = hired.saw(DeliveryMade, 2)
    assert {each.status for each in made} == {200}
    assert sorted(each.path for each in receiver.sent) == ["/a", "/b"]
    for endpoint, path in ((a, "/a"), (b, "/b")):
        (got,) = receiver.of(path)
        assert verified(endpoint.secret, got) == {"order_id": 9182}
        assert got.headers["webhook-id"] == str(sent.webhook_id)
        assert got.headers["host"] == receiver.url("")[7:]
        (line,) = run(world.conn, endpoints.deliveries(endpoint.id), world.schema)
        assert (line.status, line.attempt, line.address, line.note) == (200, 1, "127.0.0.1", "said")
    assert a.secret not in repr(a)


def test_on_an_async_connection_everything_is_awaited(world: World, receiver: Receiving) -> None:
    _, hooks = shop(world, receiver)

    async def send() -> tuple[Any, Any]:
        async with await psycopg.AsyncConnection.connect(world.url, autocommit=True) as conn:
            made = await hooks.add(conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
            return made, await hooks.send(conn, "acme", "order.paid", {})

    made, sent = asyncio.run(send())
    assert sent.sent == 1
    assert world.sql("SELECT partition_key, kind, queue FROM live") == [(f"endpoint:{made.id}", "webhook", "webhooks")]


def test_the_public_library_verifies_before_during_and_after_a_rotation(world: World, receiver: Receiving) -> None:
    inbox, hooks = shop(world, receiver)
    first = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])

    def deliver(n: int) -> Any:
        hooks.send(world.conn, "acme", "order.paid", {"n": n})
        return eventually(lambda: found[-1] if len(found := receiver.of("/a")) == n else None)

    with working(world, inbox):
        before = deliver(1)
        second = hooks.rotate(world.conn, first.id, overlap_seconds=3600)
        with pytest.raises(BadSettings, match=r"a rotation is open, two secrets sign until .*: wait until then, or"):
            hooks.rotate(world.conn, first.id)
        during = deliver(2)
        world.sql("UPDATE endpoints SET before_until = clock_timestamp()")
        after = deliver(3)
        hooks.rotate(world.conn, first.id, overlap_seconds=3600)
        last = hooks.rotate(world.conn, str(first.id).upper(), overlap_seconds=0)
        alone = deliver(4)
    assert verified(last.secret, alone) == {"n": 4}
    assert len(alone.headers["webhook-signature"].split(" ")) == 1, "one that has leaked signs no more"
    assert verified(first.secret, before) == {"n": 1}
    assert verified(first.secret, during) == verified(second.secret, during) == {"n": 2}
    assert len(during.headers["webhook-signature"].split(" ")) == 2
    assert verified(second.secret, after) == {"n": 3}
    for secret, sent in ((second.secret, before), (first.secret, after)):
        with pytest.raises(WebhookVerificationError):
            verified(secret, sent)


def test_a_signing_key_signs_as_v1a_and_its_public_half_verifies_while_a_secret_signs_too(
    world: World, receiver: Receiving
) -> None:
    inbox, hooks = shop(world, receiver)
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"], secret=new_signing_key())
    shared = hooks.rotate(world.conn, made.id, secret=new_secret())
    hooks.send(world.conn, "acme", "order.paid", {"n": 1})
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    (got,) = receiver.of("/a")
    found = dict(each.split(",") for each in got.headers["webhook-signature"].split(" "))
    assert sorted(found) == ["v1", "v1a"]
    assert verified(shared.secret, got) == {"n": 1}
    key = Ed25519PublicKey.from_public_bytes(b64decode(public_key(made.secret).removeprefix("whpk_")))
    told = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode()
    key.verify(b64decode(found["v1a"]), told + got.body)
    with pytest.raises(InvalidSignature):
        key.verify(b64decode(found["v1a"]), told + got.body + b" ")


@pytest.mark.parametrize("secret", ["x", "whsec_x", "whsec_AAAA", "whsk_AAAA", "whsk_x", 7])
def test_a_secret_that_cannot_sign_is_refused_when_it_is_given(world: World, receiver: Receiving, secret: Any) -> None:
    _, hooks = shop(world, receiver)
    with pytest.raises(BadSettings, match=r"must (be|have)"):
        hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"], secret=secret)
    assert world.count("endpoints") == 0


def test_every_attempt_sends_the_same_bytes_under_the_same_id(world: World, receiver: Receiving) -> None:
    inbox, hooks = shop(world, receiver)
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    receiver.answers["/a"] = [(500, {}), (302, {"location": receiver.url("/elsewhere")}), (200, {})]
    hooks.send(world.conn, "acme", "order.paid", {"text": "ä", "b": 1, "a": 1.50})
    with working(world, inbox) as hired:
        for n in (1, 2):
            hired.saw(JobRetried, n)
            world.sql("UPDATE live SET available_at = clock_timestamp() - interval '1 second'")
        hired.saw(JobCompleted)
    got = receiver.of("/a")
    assert len({(each.body, each.headers["webhook-id"]) for each in got}) == 1
    assert len(got) == 3
    assert not receiver.of("/elsewhere")  # a redirect is a failure, and never followed
    assert all(verified(made.secret, each) for each in got)
    assert [each.status for each in run(world.conn, endpoints.deliveries(made.id), world.schema)] == [200, 302, 500]
    assert state(world, made.id).failures == 0


def test_five_failures_open_the_circuit_what_waits_is_postponed_and_one_probe_closes_it(
    world: World, receiver: Receiving
) -> None:
    inbox, hooks = shop(world, receiver)
    dead = hooks.add(world.conn, tenant="acme", url=receiver.url("/dead"), kinds=["*"])
    receiver.answers["/dead"] = [(500, {})]
    for n in range(12):
        hooks.send(world.conn, "acme", "order.paid", {"n": n})
    with working(world, inbox) as hired:
        (tripped,) = hired.saw(EndpointTripped)
        eventually(lambda: world.sql("SELECT 1 FROM live WHERE status = 'processing'") == [])
        assert tripped.endpoint == str(dead.id)
        assert len(receiver.of("/dead")) <= 8  # five, and what was on its way
        left = "SELECT count(*) FROM live WHERE attempts = 0 AND available_at < (SELECT open_until FROM endpoints)"
        assert world.sql(left) == [(0,)]
        assert state(world, dead.id).open_until is not None
        receiver.answers["/dead"] = [(200, {})]
        world.sql("UPDATE endpoints SET open_until = clock_timestamp()")
        world.sql("UPDATE live SET available_at = clock_timestamp() WHERE status = 'pending'")
        hired.saw(EndpointRestored)
        eventually(
            lambda: (
                world.sql("UPDATE live SET available_at = clock_timestamp() WHERE status = 'pending'") == []
                and world.sql("SELECT 1 FROM live") == []
            )
        )
    assert state(world, dead.id).failures == 0
    assert len({each.body for each in receiver.of("/dead")}) == 12


def held(world: World, hooks: Webhooks) -> tuple[Lease, UUID]:
    """A delivery that a worker by hand holds."""
    sent = hooks.send(world.conn, "acme", "order.paid", {})
    world.sql(
        "UPDATE live SET status = 'processing', claimed_by = 'A', claimed_at = clock_timestamp(), lease_generation = 1,"
        " fence_token = 7, attempts = 1, claim_id = 1, lease_expires_at = clock_timestamp() + interval '1 minute'"
        f" WHERE payload ->> 'webhook' = '{sent.webhook_id}'"
    )
    ((id,),) = world.sql(f"SELECT id FROM live WHERE payload ->> 'webhook' = '{sent.webhook_id}'")
    return Lease(id, "A", 1, 7, 0.0), sent.webhook_id


def test_an_endpoint_that_says_410_is_disabled_and_its_rows_fail(world: World, receiver: Receiving) -> None:
    inbox, hooks = shop(world, receiver)
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    receiver.answers["/a"] = [(410, {})]
    hooks.send(world.conn, "acme", "order.paid", {})
    with working(world, inbox) as hired:
        hired.saw(EndpointDisabled)
        hired.saw(JobFailed)
    assert (state(world, made.id).state, state(world, made.id).note) == ("disabled", "answered 410: said")
    assert hooks.send(world.conn, "acme", "order.paid", {}).sent == 0


def test_of_an_answer_without_a_body_the_status_is_told(world: World, receiver: Receiving) -> None:
    inbox, hooks = shop(world, receiver)
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/silent"), kinds=["*"])
    receiver.answers["/silent"] = [(500, {}), (410, {})]
    with working(world, inbox) as hired:
        hooks.send(world.conn, "acme", "order.paid", {})
        assert hired.saw(JobRetried)[0].error == "answered 500"
        at = ["--database-url", world.url, "--schema", world.schema]
        shown = CliRunner().invoke(tenure, ["hooks", "show", str(made.id), *at]).output
        assert re.search(r"failed once since .*: answered 500$", shown, re.MULTILINE), shown
        hooks.send(world.conn, "acme", "order.paid", {})
        hired.saw(EndpointDisabled)
    assert state(world, made.id).note == "answered 410"


def test_what_an_endpoint_asks_for_is_honoured_up_to_a_day(world: World, receiver: Receiving) -> None:
    inbox, hooks = shop(world, receiver)
    hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    receiver.answers["/a"] = [(429, {"retry-after": "700"})]
    hooks.send(world.conn, "acme", "order.paid", {})
    with working(world, inbox) as hired:
        hired.saw(EndpointTripped)
        hired.saw(JobRetried)
    ((seconds,),) = world.sql("SELECT date_part('epoch', available_at - clock_timestamp()) FROM live")
    assert 600 < seconds <= 701
    assert retry_after("99999999", 0.0) == 86_400
    assert retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 40.0) == 60
    assert [retry_after(said, 0.0) for said in (None, "soon", "-5", "")] == [0, 0, 0, 0]


def test_a_paused_endpoint_keeps_its_rows_and_an_active_one_gets_them_at_once(
    world: World, receiver: Receiving
) -> None:
    inbox, hooks = shop(world, receiver)
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    hooks.set(world.conn, made.id, "paused")
    hooks.send(world.conn, "acme", "order.paid", {})
    with working(world, inbox) as hired:
        eventually(lambda: world.sql("SELECT 1 FROM live WHERE available_at > clock_timestamp() + interval '50 min'"))
        assert not receiver.sent
        assert hooks.set(world.conn, made.id, "active") == 1
        hired.saw(JobCompleted)
    assert len(receiver.sent) == 1


def test_a_webhook_without_an_endpoint_is_kept_and_can_be_replayed_to_one_that_comes_later(
    world: World, receiver: Receiving
) -> None:
    inbox, hooks = shop(world, receiver)
    early = hooks.send(world.conn, "acme", "order.paid", {"n": 1})
    foreign = hooks.send(world.conn, "other", "order.paid", {"n": 2})
    assert early.sent == 0
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["order.*"])
    ((hour_ago,),) = world.sql("SELECT clock_timestamp() - interval '1 hour'")
    found = run(world.conn, endpoints.kept_webhooks(made.id, hour_ago), world.schema)
    assert found == [early.webhook_id]
    wrongs: list[Any] = [["no id"], [7], str(early.webhook_id)]
    for wrong in wrongs:
        with pytest.raises(BadSettings, match="id"):
            hooks.replay(world.conn, made.id, wrong)
    assert hooks.replay(world.conn, str(made.id), [str(early.webhook_id), foreign.webhook_id]) == 1
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    (got,) = receiver.sent
    assert got.headers["webhook-id"] == str(early.webhook_id)
    hooks.set(world.conn, made.id, "disabled")
    assert hooks.replay(world.conn, made.id, [early.webhook_id]) == 0


def test_with_a_codec_nothing_of_a_secret_or_a_body_stands_in_clear(world: World, receiver: Receiving) -> None:
    inbox, hooks = shop(world, receiver, Codec({"k1": bytes(32)}))
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    hooks.send(world.conn, "acme", "order.paid", {"name": "Ada"})
    assert not world.sql("SELECT 1 FROM endpoints WHERE secret LIKE '%whsec_%'")
    ((kept,),) = world.sql("SELECT body FROM webhooks")
    assert b"Ada" not in bytes(kept)
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    assert verified(made.secret, receiver.sent[0]) == {"name": "Ada"}
    again = hooks.rotate(world.conn, made.id, overlap_seconds=0)
    assert again.secret != made.secret
    assert not world.sql("SELECT 1 FROM endpoints WHERE secret LIKE '%whsec_%' OR secret_before LIKE '%whsec_%'")


def test_a_tenant_has_a_hundred_endpoints_at_most(world: World, receiver: Receiving) -> None:
    _, hooks = shop(world, receiver)
    made = [hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"]) for _ in range(100)]
    with pytest.raises(BadSettings, match="100 endpoints"):
        hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    hooks.add(world.conn, tenant="other", url=receiver.url("/a"), kinds=["*"])
    hooks.set(world.conn, made[0].id, "disabled")
    hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])


def test_what_cannot_be_sent_is_refused_with_a_sentence(world: World, receiver: Receiving) -> None:
    _, hooks = shop(world, receiver)
    with pytest.raises(InvalidPayload, match="the limit is 262144"):
        hooks.send(world.conn, "acme", "order.paid", "x" * 262_144)
    with pytest.raises(InvalidPayload, match="must be JSON"):
        hooks.send(world.conn, "acme", "order.paid", object())
    for endless in (float("nan"), {"n": [float("inf")]}):
        with pytest.raises(InvalidPayload, match="must be JSON"):
            hooks.send(world.conn, "acme", "order.paid", endless)
    hooks.send(world.conn, "acme", "order.paid", {"none": None, "raw": msgspec.Raw(b"1"), "id": UUID(int=1), "n": 1.5})
    with pytest.raises(BadSettings, match="there is no endpoint"):
        hooks.rotate(world.conn, UUID(int=1))
    with pytest.raises(InvalidPayload, match="visible ASCII"):
        hooks.send(world.conn, "acme", "order paid", {})
    with pytest.raises(ForbiddenUrl, match="scheme"):
        hooks.add(world.conn, tenant="acme", url="ftp://acme.example", kinds=["*"])
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    with pytest.raises(ForbiddenUrl):
        hooks.set(world.conn, made.id, "active", url="https://10.0.0.1/")
    for kinds in ([], "order.*", ["a*b"], ["a b"]):
        with pytest.raises(BadSettings):
            hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=kinds)
    with pytest.raises(BadSettings, match="tenant"):
        hooks.add(world.conn, tenant="", url=receiver.url("/a"), kinds=["*"])
    with pytest.raises(BadSettings, match="overlap_seconds"):
        hooks.rotate(world.conn, made.id, overlap_seconds=-1)
    with pytest.raises(BadSettings, match="state"):
        hooks.set(world.conn, made.id, "asleep")  # type: ignore[arg-type]
    for call in ("NULL, 'k', ''", "'t', 'a b', ''", "'t', NULL, ''", "'t', 'k', NULL"):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            world.sql(f"SELECT send_webhook({call}, 'webhooks')")


def test_the_schedule_spans_days_and_an_answer_is_judged_by_its_status() -> None:
    assert sum(SCHEDULE_SECONDS) > 3 * 86_400
    for attempt, planned in enumerate(SCHEDULE_SECONDS, 1):
        assert 0.8 * planned <= after_seconds(attempt) <= 1.2 * planned
    statuses = (200, 204, 299, 300, 301, 400, 404, 410, 500, None)
    assert [judged(status) for status in statuses] == ["ok"] * 3 + ["failed"] * 4 + ["gone"] + ["failed"] * 2
    assert json.dumps(SCHEDULE_SECONDS) == "[5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]"
