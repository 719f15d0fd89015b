"""Each transport against its real broker: confirmed, deduped, fenced where the broker can, and every no a value."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote
from uuid import uuid4

import aio_pika
import confluent_kafka
import pytest

from brokers import Broker, kafka_mock, nats_server, rabbitmq_server, redis_server
from shapes.relay_tools import (
    in_rabbitmq,
    in_redis,
    in_stream,
    in_topic,
    make_exchange,
    make_stream,
    now,
)
from tenure.shapes.outbox import (
    Answer,
    Away,
    Duplicate,
    Fenced,
    Http,
    JetStream,
    Kafka,
    Message,
    RabbitMQ,
    RedisStream,
    Refused,
    Sent,
    Transport,
    Unfit,
)


def message(id: str, key: str | None = "order:7", *, fence: int = 1, seq: int = 1, body: bytes = b"{}") -> Message:
    """An event with as much as a transport looks at."""
    said = {"specversion": "1.0", "id": id, "source": "/shop", "type": "order.paid", "sequence": f"{seq:019d}"}
    return Message({**said, **({} if key is None else {"subject": key})}, body, key, id, fence, seq)


def sent(transport: Transport, *messages: Message, lease_seconds: float = 20.0) -> list[Answer]:
    """What the broker answers, in one session."""

    async def work() -> list[Answer]:
        await transport.open(lease_seconds)
        try:
            return [await transport.send(each) for each in messages]
        finally:
            await transport.close()

    return now(work())


# -- JetStream


@pytest.fixture(scope="module")
def nats_broker() -> Iterator[Broker]:
    with nats_server() as broker:
        now(make_stream(broker.url))
        yield broker


def jetstream(broker: Broker, **more: Any) -> JetStream:
    return JetStream(broker.url, stream="SHOP", subject="shop", **more)


def test_jetstream_confirms_dedupes_and_keeps_order(nats_broker: Broker) -> None:
    key = "a key.with > odd * chars%"
    first, second = message("n1", key), message("n2", key, seq=2, body=json.dumps({"sum": 4200}).encode())
    assert sent(jetstream(nats_broker), first, second) == [Sent(), Sent()]
    assert sent(jetstream(nats_broker), replace(second, fence=2)) == [Duplicate()]
    ours = [each for each in now(in_stream(nats_broker.url)) if each.key == key]
    assert [(each.id, each.sequence) for each in ours] == [("n1", 1), ("n2", 2)]
    assert json.loads(ours[1].body) == {"sum": 4200}
    assert ours[1].attributes["type"] == "order.paid"


def test_jetstream_refuses_a_late_older_message_of_a_key_and_no_other(nats_broker: Broker) -> None:
    late, other = jetstream(nats_broker), jetstream(nats_broker)
    assert sent(other, message("f1", "f", fence=6), message("f2", "f", fence=6, seq=2)) == [Sent(), Sent()]
    (answer,) = sent(late, message("f0", "f", fence=5, seq=9))
    assert isinstance(answer, Fenced)
    assert sent(late, message("f3", "f", fence=7, seq=1)) == [Sent()], "committed late: a small number, a new claim"
    assert sent(late, message("g0", "g", fence=5)) == [Sent()]


def test_a_jetstream_relay_that_remembers_the_last_message_is_refused_when_another_wrote_since(
    nats_broker: Broker,
) -> None:
    async def work() -> tuple[Answer, Answer]:
        old, new = jetstream(nats_broker), jetstream(nats_broker)
        await old.open(20)
        await old.send(message("r1", "r", fence=5))
        await new.open(20)
        await new.send(message("r2", "r", fence=6, seq=2))
        late = await old.send(message("r9", "r", fence=5, seq=9))
        same = await old.send(message("r2", "r", fence=5, seq=2))
        await old.close()
        await new.close()
        return late, same

    late, same = now(work())
    assert isinstance(late, Fenced)
    assert same == Duplicate()


def test_without_the_header_jetstream_has_doubles(nats_broker: Broker) -> None:
    """The control: what dedupes is Nats-Msg-Id."""

    class Careless(JetStream):
        def sent_with(self, message: Message, last: int | None) -> dict[str, str]:
            return {k: v for k, v in super().sent_with(message, last).items() if k != "Nats-Msg-Id"}

    careless = Careless(nats_broker.url, stream="SHOP", subject="shop")
    for _ in range(2):
        assert sent(careless, message("c1", None)) == [Sent()]
        sent(jetstream(nats_broker), message("c2", None))
    ids = [each.id for each in now(in_stream(nats_broker.url))]
    assert (ids.count("c1"), ids.count("c2")) == (2, 1)


def test_jetstream_with_too_short_a_window_is_unfit_and_without_a_stream_it_is_away() -> None:
    with nats_server() as broker:
        with pytest.raises(ConnectionError, match="there is no stream 'SHOP'"):
            sent(jetstream(broker))
        now(make_stream(broker.url, 60.0))
        with pytest.raises(Unfit, match="forgets ids after 60 s, a relay may send again after 100"):
            sent(jetstream(broker))
        assert sent(jetstream(broker), message("w1"), lease_seconds=0.0) == [Sent()]


def test_a_message_too_large_for_jetstream_is_refused() -> None:
    with nats_server() as broker:
        now(make_stream(broker.url, max_msg_size=1000))
        (answer,) = sent(jetstream(broker), message("big", body=b"1" * 5000))
        assert isinstance(answer, Refused)


@pytest.mark.parametrize("key", [None, "order:7", "é" * 256], ids=["no key", "a key", "a long key"])
def test_an_event_that_fits_nats_only_without_its_headers_is_refused_and_the_connection_stands(
    nats_broker: Broker, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server counts headers and body together, and closes the connection for one byte too many."""
    to, most = jetstream(nats_broker, bytes_max=1 << 20), 1 << 20

    def of(size: int) -> Message:
        return message(uuid4().hex, key, fence=size, body=b"1" * size)

    refused, small = sent(to, of(most), message(uuid4().hex, None))
    assert isinstance(refused, Refused), refused
    assert small == Sent()
    said = re.search("its headers have ([0-9]+) bytes and its body 1048576, the server takes 1048576", refused.error)
    assert said, refused
    fits = most - int(said[1])
    over, just = sent(to, of(fits + 1), of(fits))
    assert isinstance(over, Refused), over
    assert just == Sent()
    monkeypatch.setattr(JetStream, "_too_large", lambda *_: None)
    (answer,) = sent(to, of(fits + 1))
    assert isinstance(answer, Away), "the control: the server itself takes no byte more"


# -- Redis


@pytest.fixture(scope="module")
def redis_broker() -> Iterator[Broker]:
    with redis_server() as broker:
        yield broker


def test_redis_confirms_dedupes_and_fences_by_key(redis_broker: Broker) -> None:
    stream = RedisStream(redis_broker.url, stream="shop")
    one, two = message("1", fence=2**62), message("2", fence=2**62, seq=2)
    assert sent(stream, one, two, one, message("3", None)) == [Sent(), Sent(), Duplicate(), Sent()]
    (late,) = sent(stream, message("0", fence=2**62 - 1, seq=5))
    assert isinstance(late, Fenced)
    assert sent(stream, message("4", fence=2**62 + 1, seq=1)) == [Sent()], "committed late: a small number, a new claim"
    assert sent(stream, message("5", "other", fence=1)) == [Sent()]
    assert [each.id for each in in_redis(redis_broker.url)] == ["1", "2", "3", "4", "5"]


def test_redis_that_takes_nothing_is_away(redis_broker: Broker) -> None:
    import redis

    with redis.Redis.from_url(redis_broker.url) as client:
        client.config_set("maxmemory", "1mb")
        (answer,) = sent(RedisStream(redis_broker.url, stream="shop"), message("full", None))
        client.config_set("maxmemory", "0")
    assert isinstance(answer, Away)


# -- RabbitMQ


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Broker]:
    with rabbitmq_server() as broker:
        now(make_exchange(broker.url))
        yield broker


def test_rabbitmq_confirms_and_has_doubles_that_a_consumer_can_tell(rabbit: Broker) -> None:
    to = RabbitMQ(rabbit.url, exchange="shop")
    assert sent(to, message("1"), message("2", seq=2), message("1")) == [Sent(), Sent(), Sent()]
    every = now(in_rabbitmq(rabbit.url))
    assert [each.id for each in every] == ["1", "2", "1"]


def test_rabbitmq_refuses_what_no_queue_takes_and_is_away_without_its_exchange(rabbit: Broker) -> None:
    async def deaf() -> None:
        async with await aio_pika.connect(rabbit.url) as connection:
            await (await connection.channel()).declare_exchange("deaf", aio_pika.ExchangeType.TOPIC)

    now(deaf())
    (answer,) = sent(RabbitMQ(rabbit.url, exchange="deaf"), message("1"))
    assert answer == Refused("no queue of exchange 'deaf' takes the routing key 'order.paid'")
    with pytest.raises(ConnectionError, match="there is no exchange 'nowhere'"):
        sent(RabbitMQ(rabbit.url, exchange="nowhere"), message("1"))


# -- Kafka, as far as the mock of its client goes


def test_kafka_confirms_with_and_without_a_key() -> None:
    """The mock lets an older producer of the same transactional id write: that it is fenced cannot be shown here."""
    with kafka_mock() as servers:
        to = Kafka(servers, topic="shop")
        assert sent(to, message("1"), message("k", None), message("2", fence=2, seq=2)) == [Sent(), Sent(), Sent()]
        every = in_topic(servers)
        assert sorted(each.id for each in every) == ["1", "2", "k"]
        assert [each.id for each in every if each.key] == ["1", "2"]


def test_what_kafka_says_of_a_fenced_producer_or_a_large_record_is_a_value() -> None:
    kafka, known = Kafka("127.0.0.1:1", topic="shop"), confluent_kafka.KafkaError
    for code, kind in (
        (known._FENCED, Fenced),
        (known.INVALID_PRODUCER_EPOCH, Fenced),
        (known.MSG_SIZE_TOO_LARGE, Refused),
        (known._TRANSPORT, Away),
    ):
        assert isinstance(kafka._answer_to(confluent_kafka.KafkaException(known(code))), kind)


# -- HTTP


class Receiver(BaseHTTPRequestHandler):
    """Answers as its path says."""

    got: ClassVar[list[tuple[dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(int(self.path[1:]))
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


def test_http_answers_are_values_and_a_redirect_is_not_followed() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    try:
        kinds: dict[int, type[Any]] = {202: Sent, 409: Duplicate, 412: Fenced, 400: Refused, 403: Refused, 302: Away}
        kinds |= dict.fromkeys((401, 407, 429, 503), Away)
        for status, kind in kinds.items():
            (answer,) = sent(Http(f"{at}/{status}"), message("h1", "ключ 7", fence=9))
            assert isinstance(answer, kind), status
    finally:
        server.shutdown()
    headers, body = Receiver.got[0]
    assert (headers["ce-id"], headers["idempotency-key"], headers["tenure-fence"]) == ("h1", "h1", "9")
    assert unquote(headers["ce-subject"]) == "ключ 7"
    assert body == b"{}"
    assert len(Receiver.got) == len(kinds)
    (gone,) = sent(Http(at), message("h2"))
    assert isinstance(gone, Away)
