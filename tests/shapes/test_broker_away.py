"""A broker that is away costs no attempt, however its client says so; what is wrong with one event stays with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from nats.js.api import DiscardPolicy

from brokers import Broker, free_port, nats_server, rabbitmq_server, redis_server
from crew import eventually, working
from shapes.relay_tools import change_stream, in_redis, in_stream, make_exchange, make_full_exchange, make_stream, now
from shapes.test_transports import message, sent
from tenure.app.inbox import Inbox
from tenure.errors import BadSettings
from tenure.events import BrokerAway, BrokerBack, JobCompleted, JobRetried, MessageRefused
from tenure.shapes.outbox import (
    Answer,
    Away,
    Http,
    JetStream,
    Kafka,
    Message,
    Outbox,
    RabbitMQ,
    RedisStream,
    Refused,
    Sent,
    relay,
)
from tenure.verbs import questions
from tenure.verbs.outboxes import away_of
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture(scope="module")
def redis_broker() -> Iterator[Broker]:
    with redis_server() as broker:
        yield broker


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Broker]:
    with rabbitmq_server("max_message_size = 2000") as broker:
        now(make_exchange(broker.url))
        yield broker


def shop(world: World, to: Any) -> tuple[Inbox, Outbox]:
    inbox = Inbox(schema=world.schema)
    return inbox, Outbox(inbox, to=to, source="/shop")


# -- with a worker


def test_a_redis_that_comes_late_gets_its_event_in_the_first_attempt(world: World) -> None:
    with redis_server() as broker:
        broker.kill()
        inbox, outbox = shop(world, RedisStream(broker.url, stream="shop"))
        row = outbox.publish(world.conn, "order.paid", {}, key="order:1")
        with working(world, inbox) as hired:
            assert len(hired.saw(BrokerAway, 3)) == 3, "at the start, and at each probe"
            broker.start()
            hired.saw(BrokerBack)
            hired.saw(JobCompleted)
        assert [each.id for each in in_redis(broker.url)] == [str(row.id)]
        assert world.row(row.id).attempts == 1


def test_a_redis_that_stands_still_costs_no_attempt(world: World) -> None:
    with redis_server() as broker:
        inbox, outbox = shop(world, RedisStream(broker.url, stream="shop", socket_timeout=0.5, retry=None))
        with working(world, inbox) as hired:
            with broker.frozen():
                row = outbox.publish(world.conn, "order.paid", {}, key="order:1")
                hired.saw(BrokerAway, 3)
            hired.saw(JobCompleted)
        assert world.row(row.id).attempts == 1


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("jetstream: disabled", "JetStream is not up"),
        ("authorization { user: a, password: changed }", "Authorization Violation"),
    ],
)
def test_a_nats_that_refuses_the_login_or_lacks_jetstream_is_away(world: World, config: str, says: str) -> None:
    with nats_server() as broker:
        now(make_stream(broker.url))
        inbox, outbox = shop(world, JetStream(broker.url, stream="SHOP", subject="shop"))
        with working(world, inbox) as hired:
            broker.kill()
            right = broker.command
            (broker.folder / "other.conf").write_text(config)
            broker.command = [*right[:5], "-c", str(broker.folder / "other.conf")]
            broker.start()
            row = outbox.publish(world.conn, "order.paid", {}, key="order:1")
            eventually(lambda: [each for each in hired.of(BrokerAway) if says in each.error])
            broker.kill()
            broker.command = right
            broker.start()
            hired.saw(JobCompleted)
        assert [each.id for each in now(in_stream(broker.url))] == [str(row.id)]
        assert world.row(row.id).attempts == 1


def test_an_event_too_large_for_nats_is_refused_and_stops_no_other(world: World, tmp_path: Path) -> None:
    (tmp_path / "small.conf").write_text("max_payload: 65536")
    with nats_server("-c", str(tmp_path / "small.conf")) as broker:
        now(make_stream(broker.url))
        inbox, outbox = shop(world, JetStream(broker.url, stream="SHOP", subject="shop"))
        large = outbox.publish(world.conn, "order.paid", "x" * 65_400, key="order:1")
        with working(world, inbox) as hired:
            refused = hired.saw(MessageRefused)[0]
            other = outbox.publish(world.conn, "order.paid", {}, key="order:2")
            hired.saw(JobCompleted)
            assert not hired.of(BrokerAway)
        assert refused.job_id == large.id
        assert re.search("its headers have [0-9]+ bytes and its body 65402, the server takes 65536", refused.error)
        assert [each.id for each in now(in_stream(broker.url))] == [str(other.id)]
        assert world.row(large.id).attempts >= 1


def test_what_is_told_of_a_broker_follows_it_though_nothing_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.1)
    with nats_server() as broker:
        broker.kill()
        inbox, _ = shop(world, JetStream(broker.url, stream="SHOP", subject="shop"))
        with working(world, inbox, heartbeat_seconds=3600, ttl_seconds=86_400):
            _told(world, "no server|Connect call failed|nats:")
            first = _since(world)
            broker.start()
            _told(world, "there is no stream 'SHOP'")
            now(make_stream(broker.url, 5.0))
            _told(world, "set its duplicate window to")
            assert _since(world) == first
            now(change_stream(broker.url, duplicate_window=120.0))
            eventually(lambda: not away_of(world.run(questions.workers())))


def test_a_worker_whose_events_another_has_sent_does_not_say_for_ever_that_the_broker_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.1)
    to = Odd()
    inbox, outbox = shop(world, to)
    with working(world, inbox, heartbeat_seconds=3600, ttl_seconds=86_400) as hired:
        to.lost = [OSError("out of memory")]
        row = outbox.publish(world.conn, "order.paid", {})
        _told(world, "out of memory")
        hired.saw(BrokerAway)
        world.sql("DELETE FROM live WHERE id = %s AND status = 'pending'", row.id)
        eventually(lambda: not away_of(world.run(questions.workers())))


def test_a_broker_that_takes_no_event_is_not_called_back_because_it_can_be_opened(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.1)
    to = Odd()
    inbox, outbox = shop(world, to)
    with working(world, inbox, heartbeat_seconds=3600, ttl_seconds=86_400) as hired:
        to.lost = [OSError("503")] * 2
        row = outbox.publish(world.conn, "order.paid", {}, key="order:1")
        hired.saw(BrokerAway, 2)
        later = "UPDATE live SET available_at = now() + interval '1 hour' WHERE status = 'pending' RETURNING id"
        eventually(lambda: world.sql(later))
        opened = to.opened
        eventually(lambda: to.opened > opened)
        _told(world, "503")
        world.sql("DELETE FROM live WHERE id = %s", row.id)
        eventually(lambda: not away_of(world.run(questions.workers())))
        assert not hired.of(BrokerBack), "nothing was sent"
        to.lost = [OSError("503 still")]
        outbox.publish(world.conn, "order.paid", {}, key="order:1")
        _, second, third = hired.saw(BrokerAway, 3)
        assert third.pause_seconds > 1.5, "the pause goes on doubling"
        assert second.error != third.error
        hired.saw(BrokerBack)


def test_a_client_that_cancels_what_it_opens_ends_neither_the_start_nor_the_watch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.1)
    to = Odd()
    to.away = [asyncio.CancelledError(), asyncio.CancelledError()]
    inbox, _ = shop(world, to)
    with working(world, inbox) as hired:
        hired.saw(BrokerBack)
        assert ["closed while it was opened" in each.error for each in hired.of(BrokerAway)] == [True, True]


def test_the_watch_has_ended_before_the_transport_is_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.1)
    to = Slow()
    to.away = [OSError("away")]
    inbox, _ = shop(world, to)
    with working(world, inbox):
        eventually(lambda: to.opening)
    assert to.did == ["left", "closed"]


def _told(world: World, says: str) -> None:
    """`tenure outbox` gives this reason, by and by."""
    eventually(
        lambda: [
            each for each in away_of(world.run(questions.workers())).get("shop", []) if re.search(says, each.error)
        ]
    )


def _since(world: World) -> str:
    return away_of(world.run(questions.workers()))["shop"][0].since


class Odd:
    """A transport whose client says in its own words that the broker is away, or closes what is under way."""

    bytes_max = 1000

    def __init__(self) -> None:
        self.away: list[BaseException] = []
        self.lost: list[BaseException] = []
        self.opened = 0

    async def open(self, lease_seconds: float) -> None:  # noqa: ARG002
        self.opened += 1
        if self.away:
            raise self.away.pop(0)

    async def send(self, message: Message) -> Answer:  # noqa: ARG002
        if self.lost:
            raise self.lost.pop(0)
        return Sent()

    async def close(self) -> None: ...


class Slow(Odd):
    """A transport that opens without end, once its errors are raised, and needs a moment to leave that."""

    def __init__(self) -> None:
        super().__init__()
        self.opening = False
        self.did: list[str] = []

    async def open(self, lease_seconds: float) -> None:
        await super().open(lease_seconds)
        self.opening = True
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            self.did.append("left")

    async def close(self) -> None:
        self.did.append("closed")


def test_whatever_a_transport_raises_when_it_connects_is_a_broker_that_is_away(world: World) -> None:
    to = Odd()
    inbox, outbox = shop(world, to)
    to.away = [RuntimeError("no session")] * 2
    row = outbox.publish(world.conn, "order.paid", {})
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
        assert [each.error for each in hired.of(BrokerAway)] == ["RuntimeError: no session"] * 2
    assert world.row(row.id).attempts == 1


def test_a_client_that_cancels_what_is_under_way_costs_no_attempt(world: World) -> None:
    to = Odd()
    inbox, outbox = shop(world, to)
    to.lost = [asyncio.CancelledError()]
    row = outbox.publish(world.conn, "order.paid", {})
    with working(world, inbox) as hired:
        assert "closed while it was sent" in hired.saw(BrokerAway)[0].error
        hired.saw(JobCompleted)
    assert world.row(row.id).attempts == 1


def test_an_event_that_fails_by_itself_uses_an_attempt_and_keeps_no_other_waiting(world: World) -> None:
    to = Odd()
    inbox, outbox = shop(world, to)
    to.lost = [ValueError("this event alone")]
    row = outbox.publish(world.conn, "order.paid", {})
    with working(world, inbox) as hired:
        hired.saw(JobRetried)
        outbox.publish(world.conn, "order.paid", {})
        hired.saw(JobCompleted, 2)
        assert not hired.of(BrokerAway)
        assert not hired.of(BrokerBack)
    assert world.row(row.id).attempts == 2


@pytest.mark.parametrize(("answer", "told"), [(None, "NoneType"), (True, "bool"), (Sent, "the class Sent")])
def test_an_answer_that_is_none_confirms_no_event(world: World, answer: Any, told: str) -> None:
    class Forgetful(Odd):
        async def send(self, message: Message) -> Any:
            await super().send(message)
            answers.append(answer if not answers else Sent())
            return answers[-1]

    answers: list[Any] = []
    inbox, outbox = shop(world, Forgetful())
    row = outbox.publish(world.conn, "order.paid", {}, key="order:1")
    with working(world, inbox) as hired:
        (retried,) = hired.saw(JobRetried)
        hired.saw(JobCompleted)
        assert not hired.of(BrokerAway)
    assert f"Forgetful.send answered {told}, and must return Sent(), " in retried.error
    assert world.row(row.id).attempts == 2


# -- what each transport says


def test_without_any_broker_each_transport_says_that_it_is_away() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    for to in (
        JetStream(f"nats://{nowhere}", stream="SHOP", subject="shop"),
        RedisStream(f"redis://{nowhere}", stream="shop"),
        RabbitMQ(f"amqp://{nowhere}/", exchange="shop"),
        Kafka(nowhere, topic="shop"),
    ):
        with pytest.raises(ConnectionError):
            sent(to)
    assert isinstance(sent(Http(f"http://{nowhere}"), message("1"))[0], Away)
    for url in ("http://[::bad/", "nothing"):
        with pytest.raises(BadSettings):
            Http(url)


def test_redis_that_refuses_the_login_or_takes_no_writes_is_away(redis_broker: Broker) -> None:
    def answer(url: str = redis_broker.url) -> Answer:
        return sent(RedisStream(url, stream="shop"), message("1", None))[0]

    with redis.Redis.from_url(redis_broker.url) as client:
        with pytest.raises(ConnectionError, match="Authentication"):
            answer(redis_broker.url.replace("://", "://nobody:wrong@"))
        client.execute_command("ACL", "SETUSER", "weak", "on", ">p", "~other*", "+@all")
        assert "no permissions" in _away(answer(redis_broker.url.replace("://", "://weak:p@")))
        client.config_set("min-replicas-to-write", "1")
        assert "NOREPLICAS" in _away(answer())
        client.config_set("min-replicas-to-write", "0")
        client.execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
        assert "read only replica" in _away(answer())
        client.config_set("replica-serve-stale-data", "no")
        with pytest.raises(ConnectionError, match="MASTER is down"):
            answer()
        client.config_set("replica-serve-stale-data", "yes")
        client.execute_command("REPLICAOF", "NO", "ONE")
    assert answer() == Sent()


def test_redis_whose_stream_is_something_else_is_away_and_a_mark_that_is_one_refuses_its_key(
    redis_broker: Broker,
) -> None:
    with redis.Redis.from_url(redis_broker.url) as client:
        client.set("taken", "a text")
        (answer,) = sent(RedisStream(redis_broker.url, stream="taken"), message("1"))
        assert "'taken' holds something else than a stream: rename or delete it" in _away(answer)
        client.delete("taken")
        client.lpush("{taken}:mark_of::order:7", "not a mark")
        one, other = sent(RedisStream(redis_broker.url, stream="taken"), message("1"), message("2", "order:8"))
        assert isinstance(one, Refused)
        assert other == Sent()


def test_redis_that_denies_a_command_inside_the_script_or_has_no_number_left_is_away(redis_broker: Broker) -> None:
    with redis.Redis.from_url(redis_broker.url) as client:
        client.execute_command("ACL", "SETUSER", "reader", "on", ">p", "~*", "+@all", "-xadd")
        reader = redis_broker.url.replace("://", "://reader:p@")
        assert "can't run this command" in _away(sent(RedisStream(reader, stream="denied"), message("1"))[0])
        client.xadd("over", {"last": 1}, id=f"{2**64 - 1}-{2**64 - 1}")
        assert "exhausted" in _away(sent(RedisStream(redis_broker.url, stream="over"), message("1"))[0])


def test_a_jetstream_that_is_full_or_sealed_is_away_and_one_subject_that_is_full_refuses_its_key() -> None:
    with nats_server() as broker:
        to = JetStream(broker.url, stream="SHOP", subject="shop")
        now(make_stream(broker.url, max_msgs=2, discard=DiscardPolicy.NEW))
        *_, full = sent(to, message("1", "a"), message("2", "b"), message("3", "c"))
        assert "maximum messages exceeded" in _away(full)
        now(change_stream(broker.url, max_msgs=-1, max_msgs_per_subject=1, discard_new_per_subject=True))
        one, other = sent(to, message("4", "a", seq=2), message("5", "d"))
        assert isinstance(one, Refused), one
        assert other == Sent()
        now(change_stream(broker.url, sealed=True))
        assert "sealed" in _away(sent(to, message("6", "e"))[0])


def test_a_queue_of_rabbitmq_that_is_full_is_away_with_its_sentence(rabbit: Broker) -> None:
    now(make_full_exchange(rabbit.url))
    *_, full = sent(RabbitMQ(rabbit.url, exchange="full"), message("1"), message("2"))
    assert _away(full) == "the broker did not accept it (nack): is a queue full?"


def _away(answer: Answer) -> str:
    assert isinstance(answer, Away), answer
    return answer.error


def test_rabbitmq_that_refuses_the_login_or_has_no_such_host_is_away(rabbit: Broker) -> None:
    for url in (rabbit.url.replace("guest:guest", "guest:wrong"), f"{rabbit.url}nohost"):
        with pytest.raises(ConnectionError):
            sent(RabbitMQ(url, exchange="shop"))


def test_an_event_too_large_for_rabbitmq_is_refused(rabbit: Broker) -> None:
    small, large = sent(RabbitMQ(rabbit.url, exchange="shop"), message("1"), message("2", body=b"1" * 5000))
    assert small == Sent()
    assert isinstance(large, Refused), large


def test_an_event_too_large_for_rabbitmq_is_refused_alone_among_those_under_way(rabbit: Broker) -> None:
    """RabbitMQ closes the channel for it, and its client tells all that are under way the same error."""
    small = [message(str(n), body=b"1" * 50) for n in range(100)]
    every = [*small[:50], message("large", body=b"1" * 5000), *small[50:]]

    async def work() -> list[Answer]:
        to = RabbitMQ(rabbit.url, exchange="shop")
        await to.open(20.0)
        try:
            return await asyncio.gather(*(to.send(each) for each in every))
        finally:
            await to.close()

    answers = now(work())
    assert isinstance(answers.pop(50), Refused)
    assert not [each for each in answers if isinstance(each, Refused)]
    assert any(isinstance(each, Away) for each in answers), "the channel was closed under them"
