"""What no outbox, broker or address can be is refused where it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.app.inbox import Inbox
from tenure.errors import BadSettings
from tenure.shapes.outbox import Http, JetStream, Outbox, RabbitMQ, RedisStream


@pytest.mark.parametrize("to", ["nats://127.0.0.1:4222", JetStream, None])
def test_an_outbox_to_what_is_no_transport_is_refused_in_a_sentence(to: Any) -> None:
    with pytest.raises(BadSettings):
        Outbox(Inbox(), to=to, source="/shop")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Http("billing"),
        lambda: Http("ftp://billing.internal/x"),
        lambda: Http("http://127.0.0.1:9/x", foo=3),
        lambda: Http("http://127.0.0.1:9/x", headers={"a": 5}),
        lambda: Http("http://127.0.0.1:9/x", headers={"a": "c\r\nx: y"}),
        lambda: RedisStream("http://127.0.0.1:1", stream="shop"),
        lambda: RedisStream("redis://127.0.0.1:1", stream=7),  # type: ignore[arg-type]
        lambda: RedisStream("redis://127.0.0.1:1", stream=""),
        lambda: RabbitMQ("amqp://127.0.0.1:abc", exchange="shop"),
        lambda: RabbitMQ("http://127.0.0.1", exchange="shop"),
        lambda: RabbitMQ("amqp://127.0.0.1", exchange=""),
        lambda: JetStream(5, stream="SHOP", subject="shop"),  # type: ignore[arg-type]
        lambda: JetStream("nats://127.0.0.1", stream="SH OP", subject="shop"),
    ],
)
def test_an_address_that_no_broker_can_have_is_refused_and_not_said_to_be_away_for_ever(
    make: Callable[[], object],
) -> None:
    with pytest.raises(BadSettings):
        make()


def test_the_refusal_of_an_address_names_it_without_its_password() -> None:
    with pytest.raises(BadSettings, match="must begin with amqp") as refused:
        RabbitMQ("http://shop:s3cret@127.0.0.1", exchange="shop")
    assert "127.0.0.1" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_second_outbox_of_one_name_in_an_inbox_is_refused_by_that_name() -> None:
    inbox, to = Inbox(), Http("http://127.0.0.1:9/x")
    Outbox(inbox, to=to, source="/shop")
    with pytest.raises(BadSettings, match=r"this inbox has an Outbox named 'shop' already: .* its own name="):
        Outbox(inbox, to=to, source="/shop")
    assert len(inbox.lifespans) == 1
    Outbox(inbox, to=to, source="/shop", name="billing")
