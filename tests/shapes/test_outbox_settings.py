"""What no outbox, broker or address can be is refused where it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.app.inbox import Inbox
from tenure.errors import BadSettings, InvalidPayload
from tenure.shapes.outbox import Answer, Http, JetStream, Message, Outbox, RabbitMQ, RedisStream, Sent


@pytest.mark.parametrize("to", ["nats://127.0.0.1:4222", JetStream, None])
def test_an_outbox_to_what_is_no_transport_is_refused_in_a_sentence(to: Any) -> None:
    with pytest.raises(BadSettings):
        Outbox(Inbox(), to=to, source="/shop")


class Own:
    """A transport of one's own, as the guide has it."""

    async def open(self, lease_seconds: float) -> None: ...

    async def send(self, message: Message) -> Answer:  # noqa: ARG002
        return Sent()

    async def close(self) -> None: ...


def test_a_transport_of_ones_own_needs_three_methods_and_takes_a_megabyte_unless_it_says_otherwise() -> None:
    publish: Any = Outbox(Inbox(), to=Own(), source="/shop").publish
    with pytest.raises(InvalidPayload, match="has 1000002 bytes, the broker takes 1000000"):
        publish(None, "order.paid", "x" * 1_000_000)
    own = Own()
    own.bytes_max = 10  # type: ignore[attr-defined]
    publish = Outbox(Inbox(), to=own, source="/shop").publish
    with pytest.raises(InvalidPayload, match="has 12 bytes, the broker takes 10"):
        publish(None, "order.paid", "x" * 10)


def test_what_a_transport_lacks_is_named() -> None:
    class Half:
        async def send(self, message: Message) -> Answer:  # noqa: ARG002
            return Sent()

    lacking: Any = Half()
    with pytest.raises(BadSettings, match=r"to= must be a transport, .* of type Half, which has no open and no close"):
        Outbox(Inbox(), to=lacking, source="/shop")
    lacking = Own()
    lacking.bytes_max = "1 MB"
    with pytest.raises(BadSettings, match="bytes_max='1 MB' of Own must be a whole number of bytes, 1 or more"):
        Outbox(Inbox(), to=lacking, source="/shop")


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
