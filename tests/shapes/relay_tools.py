"""Streams to publish to, and what stands in them: the same questions for every broker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import aio_pika
import confluent_kafka
import nats
import redis

T = TypeVar("T")


class Found(NamedTuple):
    """An event as a consumer reads it."""

    id: str
    key: str | None
    sequence: int
    body: bytes
    attributes: dict[str, str]


def now(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end."""
    return asyncio.run(asyncio.wait_for(work, 60))


def found(headers: dict[str, str], body: bytes, prefix: str) -> Found:
    """Of headers in binary mode."""
    said = {
        k.lower().removeprefix(prefix.lower()): unquote(v)
        for k, v in headers.items()
        if k.lower().startswith(prefix.lower())
    }
    return Found(said["id"], said.get("subject"), int(said["sequence"]), body, said)


async def make_stream(url: str, window_seconds: float = 120.0, **more: Any) -> None:
    """The stream SHOP for shop.>."""
    client = await nats.connect(url)
    await client.jetstream().add_stream(name="SHOP", subjects=["shop.>"], duplicate_window=window_seconds, **more)
    await client.close()


async def change_stream(url: str, **changes: Any) -> None:
    """Set the stream SHOP to something else."""
    client = await nats.connect(url)
    js = client.jetstream()
    await js.update_stream((await js.stream_info("SHOP")).config, **changes)
    await client.close()


async def in_stream(url: str) -> list[Found]:
    """Every event of the stream SHOP, in order."""
    client = await nats.connect(url)
    js = client.jetstream()
    state = (await js.stream_info("SHOP")).state
    every = [await js.get_msg("SHOP", n) for n in range(max(1, state.first_seq), state.last_seq + 1)]
    await client.close()
    return [found(dict(each.headers or {}), each.data or b"", "ce-") for each in every]


def in_redis(url: str) -> list[Found]:
    """Every event of the stream shop, in order."""
    with redis.Redis.from_url(url) as client:
        entries: Any = client.xrange("shop")
    texts = [({k.decode(): v for k, v in fields.items()}) for _, fields in entries]
    return [found({k: v.decode() for k, v in each.items() if k != "data"}, each["data"], "ce_") for each in texts]


async def make_exchange(url: str, *, queue: bool = True) -> None:
    """The exchange shop, and a durable queue that takes everything."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange("shop", aio_pika.ExchangeType.TOPIC, durable=True)
        if queue:
            await (await channel.declare_queue("all", durable=True)).bind(exchange, "#")


async def make_full_exchange(url: str) -> None:
    """The exchange full, whose only queue takes one event."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange("full", aio_pika.ExchangeType.TOPIC, durable=True)
        least: Any = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await (await channel.declare_queue("one", durable=True, arguments=least)).bind(exchange, "#")


async def in_rabbitmq(url: str) -> list[Found]:
    """Every event of the queue, in order; they stay there."""
    every: list[Found] = []
    async with await aio_pika.connect(url) as connection:
        queue = await (await connection.channel()).get_queue("all")
        while (each := await queue.get(fail=False)) is not None:
            said = {name: str(value) for name, value in each.headers.items()}
            every.append(found(said, each.body, "cloudEvents:"))
    return every


def in_topic(servers: str) -> list[Found]:
    """Every event of the topic shop that was committed; those of a key in order."""
    config = {"bootstrap.servers": servers, "group.id": "judge", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer({**config, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    partitions = consumer.list_topics("shop", 20).topics["shop"].partitions
    consumer.assign([confluent_kafka.TopicPartition("shop", n, 0) for n in partitions])
    every, silent = list[Found](), 0
    while silent < 4:
        each = consumer.poll(0.5)
        if each is None or each.error():
            silent += 1
            continue
        headers: Any = each.headers() or []
        said = {name: value.decode() for name, value in headers}
        every.append(found(said, each.value() or b"", "ce_"))
    consumer.close()
    return every
