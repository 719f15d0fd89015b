"""Kafka: idempotent producers; for keys, transactions whose id a newer relay takes over, which fences the older."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .cloudevent import headers
from .transport import Answer, Away, Fenced, Message, Refused, Sent, brief, needs

PRODUCERS_MAX = 32  # with a transactional id, open at once
CALL_SECONDS = 8.0
Bucket = tuple[str, int]  # of a publisher


class Kafka:
    """`Kafka("127.0.0.1:9092", topic="shop")`: the record's key is the event's key, so that its partition is one.

    With `fenced` (the default) events with a key are sent in transactions, one transactional id for each
    bucket of keys of a publisher;
    consumers read with isolation.level=read_committed. Across relays an event may be there twice: ce_id says so.
    """

    def __init__(
        self,
        servers: str,
        *,
        topic: str,
        fenced: bool = True,
        bytes_max: int = 1_000_000,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._kafka = needs("confluent_kafka", "kafka")
        self._config = {"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 2, **(options or {})}
        self._topic, self._fenced, self.bytes_max = topic, fenced, bytes_max
        self._plain: Any = None
        self._by_bucket: OrderedDict[Bucket, Any] = OrderedDict()
        self._locks: dict[Bucket, asyncio.Lock] = {}
        self._threads: ThreadPoolExecutor | None = None

    async def open(self, lease_seconds: float) -> None:  # noqa: ARG002
        """Connect, and see that the topic is there."""
        await self.close()
        self._threads = ThreadPoolExecutor(8, "tenure-kafka")
        self._plain = self._kafka.Producer({**self._config, "delivery.timeout.ms": int(CALL_SECONDS * 1000)})
        try:
            known = await self._call(self._plain.list_topics, self._topic, 3.0)
        except self._kafka.KafkaException as error:
            raise ConnectionError(brief(error)) from None
        if known.topics[self._topic].error is not None:
            raise ConnectionError(f"there is no topic {self._topic!r}: make it, nothing is made unasked")

    async def close(self) -> None:
        """Leave; a transaction that is open is aborted by the broker."""
        self._by_bucket.clear()
        self._plain = None
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    async def _call(self, function: Any, *args: Any) -> Any:
        if self._threads is None:
            raise ConnectionError("the connection is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    async def send(self, message: Message) -> Answer:
        """Wait until the broker has it, and with a key until its transaction is committed."""
        if message.key is None or not self._fenced:
            return await self._call(self._deliver, self._plain, message) if self._plain else Away("closed")
        bucket = message.publisher, message.bucket
        lock = self._locks.setdefault(bucket, asyncio.Lock())
        async with lock:
            answer: Answer = await self._call(self._transact, message)
            if not isinstance(answer, Sent):
                self._by_bucket.pop(bucket, None)
            return answer

    def _deliver(self, producer: Any, message: Message) -> Answer:
        """One record, and its delivery report."""
        told: list[Any] = []
        said = [(name, value.encode()) for name, value in headers(message.attributes, "ce_").items()]
        key = None if message.key is None else message.key.encode()
        try:
            producer.produce(
                self._topic, message.body, key, headers=said, on_delivery=lambda error, _: told.append(error)
            )
        except (self._kafka.KafkaException, BufferError) as error:
            return self._answer_to(error)
        by = time.monotonic() + CALL_SECONDS
        while not told and time.monotonic() < by:
            producer.poll(0.02)
        if not told:
            return Away(f"no delivery report within {CALL_SECONDS:g} s")
        return Sent() if told[0] is None else self._answer_to(self._kafka.KafkaException(told[0]))

    def _transact(self, message: Message) -> Answer:
        try:
            producer = self._producer_of((message.publisher, message.bucket))
            producer.begin_transaction()
            answer = self._deliver(producer, message)
            if isinstance(answer, Sent):
                producer.commit_transaction(CALL_SECONDS)
            else:
                producer.abort_transaction(CALL_SECONDS)
            return answer
        except self._kafka.KafkaException as error:
            return self._answer_to(error)

    def _producer_of(self, bucket: Bucket) -> Any:
        """Its first transaction takes the id over: an older producer with the same id is fenced from then on."""
        found = self._by_bucket.get(bucket)
        if found is None:
            id = f"tenure-{self._topic}-{bucket[0]}-{bucket[1]}"
            found = self._kafka.Producer({**self._config, "transactional.id": id})
            found.init_transactions(CALL_SECONDS)
            self._by_bucket[bucket] = found
            if len(self._by_bucket) > PRODUCERS_MAX:
                self._by_bucket.popitem(last=False)
        self._by_bucket.move_to_end(bucket)
        return found

    def _answer_to(self, error: Any) -> Answer:
        code = error.args[0].code() if error.args and hasattr(error.args[0], "code") else None
        known = self._kafka.KafkaError
        if code in (known._FENCED, known.INVALID_PRODUCER_EPOCH, known.PRODUCER_FENCED):
            return Fenced(brief(error))
        if code in (known.MSG_SIZE_TOO_LARGE, known.INVALID_MSG, known.INVALID_RECORD):
            return Refused(brief(error))
        return Away(brief(error))
