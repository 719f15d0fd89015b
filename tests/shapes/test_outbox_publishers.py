"""Marks of a key are compared inside one outbox of one inbox; what others publish stands beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nats
import psycopg
import pytest
import redis

from brokers import Broker, nats_server, redis_server
from crew import working
from pairs import Pair
from shapes.relay_tools import in_redis, in_stream, make_stream, now
from shapes.test_transports import message, sent
from tenure.app.inbox import Inbox
from tenure.events import MessagePublished
from tenure.shapes.outbox import Duplicate, Fenced, JetStream, Kafka, Outbox, RedisStream, Sent
from tenure.shapes.outbox.jetstream import PUBLISHERS_MAX
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture(scope="module", params=["nats", "redis"])
def broker(request: Any) -> Iterator[Broker]:
    with nats_server() if request.param == "nats" else redis_server() as found:
        if request.param == "nats":
            now(make_stream(found.url))
        yield found


def to(broker: Broker) -> Any:
    if broker.url.startswith("nats"):
        return JetStream(broker.url, stream="SHOP", subject="shop")
    return RedisStream(broker.url, stream="shop")


def published(world: World, broker: Broker, source: str, data: Any, key: str) -> None:
    """By a worker of its own, with an outbox named shop."""
    inbox = Inbox(schema=world.schema)
    Outbox(inbox, to=to(broker), source=source, name="shop").publish(world.conn, "order.paid", data, key=key)
    with working(world, inbox) as hired:
        hired.saw(MessagePublished)


def in_broker(broker: Broker, key: str) -> list[Any]:
    every = now(in_stream(broker.url)) if broker.url.startswith("nats") else in_redis(broker.url)
    return [json.loads(each.body) for each in every if each.key == key]


def newer_and_older(pair: Pair) -> tuple[World, World]:
    """Whose fences are higher, and whose are lower."""
    fences = [int(world.sql("SELECT next_fence()")[0][0]) for world in pair]
    return (pair.a, pair.b) if fences[0] > fences[1] else (pair.b, pair.a)


@pytest.mark.parametrize("sources", [("/billing", "/shop"), ("/shop", "/shop")])
def test_two_databases_that_publish_a_key_of_the_same_name_do_not_keep_each_other_from_it(
    pair: Pair, broker: Broker, sources: tuple[str, str]
) -> None:
    newer, older = newer_and_older(pair)
    newer.sql("SELECT next_fence() FROM generate_series(1, 1000)")
    key = f"order:{len(set(sources))}"
    published(newer, broker, sources[0], "newer", key)
    published(older, broker, sources[1], "older", key)
    published(newer, broker, sources[0], "newer again", key)
    assert in_broker(broker, key) == ["newer", "older", "newer again"]


def test_a_database_whose_epoch_has_risen_goes_on(world: World, broker: Broker) -> None:
    published(world, broker, "/shop", 1, "risen")
    with psycopg.connect(world.url) as conn:
        conn.execute(f'UPDATE "{world.schema}".incarnation SET started_at = NULL, timeline = timeline + 1'.encode())
    published(world, broker, "/shop", 2, "risen")
    assert in_broker(broker, "risen") == [1, 2]


def test_a_late_relay_is_fenced_though_another_publisher_wrote_last(broker: Broker) -> None:
    new, other = message("n1", "late", fence=6), message("o1", "late", fence=2)
    ours, theirs = replace(new, publisher="a1"), replace(other, publisher="b2")
    late = replace(message("n0", "late", fence=5, seq=9), publisher="a1")
    assert sent(to(broker), ours, theirs) == [Sent(), Sent()]
    (answer,) = sent(to(broker), late)
    assert isinstance(answer, Fenced)
    again = replace(ours, fence=7)
    assert sent(to(broker), again) == [Duplicate()]


def test_what_0_1_0_has_stored_stops_nobody(broker: Broker) -> None:
    async def write() -> None:
        client = await nats.connect(broker.url)
        said = {"Tenure-Mark": f"{2**62} 1", "ce-id": "old", "ce-subject": "old", "ce-sequence": "1"}
        await client.jetstream().publish("shop.old", b"0", headers=said)
        await client.close()

    if broker.url.startswith("nats"):
        now(write())
    else:
        with redis.Redis.from_url(broker.url) as client:
            client.set("{shop}:mark:old", f"{2**62:019d}-{1:019d}")
    assert sent(to(broker), message("new", "old")) == [Sent()]


def test_a_message_carries_the_marks_of_those_that_wrote_last() -> None:
    with nats_server() as found:
        now(make_stream(found.url))
        names = [f"{n:x}" for n in range(PUBLISHERS_MAX + 1)]
        every = [replace(message(f"m{name}", fence=9), publisher=name) for name in names]
        assert sent(to(found), *every) == [Sent()] * len(every)
        late = [replace(each, once=f"late {each.once}", fence=8) for each in every[-2:]]
        assert all(isinstance(each, Fenced) for each in sent(to(found), *late))


def test_producers_of_two_publishers_have_transactional_ids_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, ids = Kafka("127.0.0.1:1", topic="shop"), list[str]()

    class Producer:
        def __init__(self, config: dict[str, Any]) -> None:
            ids.append(config["transactional.id"])

        def init_transactions(self, _seconds: float) -> None: ...

    monkeypatch.setattr(kafka._kafka, "Producer", Producer)
    for bucket in (("a1", 3), ("b2", 3), ("a1", 3)):
        kafka._producer_of(bucket)
    assert ids == ["tenure-shop-a1-3", "tenure-shop-b2-3"]
