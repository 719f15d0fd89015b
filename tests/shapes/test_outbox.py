"""An event is sent if its transaction commits and only then: in order per key, and an outage costs no attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from click.testing import CliRunner

from brokers import Broker, nats_server
from crew import eventually, working
from shapes.relay_tools import in_stream, make_stream, now
from tenure.app.inbox import Inbox
from tenure.cli import tenure
from tenure.errors import BadSettings, InvalidPayload, LifespanFailed
from tenure.events import BrokerAway, BrokerBack, JobCompleted, JobDeadLettered, MessagePublished, MessageRefused
from tenure.model.filter import parse
from tenure.model.rows import Enqueued, Lane
from tenure.operate import Actor
from tenure.shapes.outbox import Answer, Away, Fenced, JetStream, Message, Outbox, Refused, Sent, Unfit, replay
from tenure.verbs import outboxes, questions
from tenure.verbs.statement import Statement
from tenure.worker.config import Terms
from tenure.worker.worker import Worker
from world import World

pytestmark = pytest.mark.one_server


class Told:
    """A transport that answers as it is told, and remembers what it was sent."""

    bytes_max = 1000

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.sent, self.opened = list(answers), list[Message](), 0
        self.unfit = ""

    async def open(self, lease_seconds: float) -> None:  # noqa: ARG002
        self.opened += 1
        if self.unfit:
            raise Unfit(self.unfit)

    async def send(self, message: Message) -> Answer:
        self.sent.append(message)
        return self.answers.pop(0) if self.answers else Sent()

    async def close(self) -> None: ...


def shop(world: World, to: Any) -> tuple[Inbox, Outbox]:
    inbox = Inbox(schema=world.schema)
    return inbox, Outbox(inbox, to=to, source="/shop")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with nats_server() as found:
        now(make_stream(found.url))
        yield found


def test_events_of_committed_transactions_reach_the_broker_in_order_and_others_do_not(
    world: World, broker: Broker
) -> None:
    inbox, outbox = shop(world, JetStream(broker.url, stream="SHOP", subject="shop"))
    with psycopg.connect(world.url) as conn:
        for n in range(5):
            outbox.publish(conn, "order.paid", {"n": n}, key="order:9182")
        conn.commit()
        outbox.publish(conn, "order.paid", {"n": "never"}, key="order:9182")
        conn.rollback()
    free = outbox.publish(world.conn, "shop.opened", {"at": "8:00"})
    with working(world, inbox) as hired:
        published = hired.saw(MessagePublished, 6)
        hired.saw(JobCompleted, 6)
    every = now(in_stream(broker.url))
    keyed = [each for each in every if each.key == "order:9182"]
    assert [json.loads(each.body)["n"] for each in keyed] == [0, 1, 2, 3, 4]
    assert [each.sequence for each in keyed] == sorted(each.sequence for each in keyed)
    (opened,) = [each for each in every if each.id == str(free.id)]
    assert opened.attributes["type"] == "shop.opened"
    assert opened.attributes["source"] == "/shop"
    assert opened.attributes["time"].endswith("Z")
    assert {event.type for event in published} == {"order.paid", "shop.opened"}


def test_on_an_async_connection_publish_is_awaited(world: World) -> None:
    _, outbox = shop(world, Told())

    async def publish() -> Enqueued:
        async with await psycopg.AsyncConnection.connect(world.url) as conn:
            return await outbox.publish(conn, "order.paid", {}, key="k{odd}")

    sent = now(publish())
    assert world.row(sent.id).partition_key == "k{odd}"


def test_from_sql_the_same_row_is_made(world: World) -> None:
    _, outbox = shop(world, Told())
    ours = world.row(outbox.publish(world.conn, "order.paid", {"id": 7}, key="order:7").id)
    ((id,),) = world.sql("SELECT publish('shop', 'order.paid', '{\"id\": 7}', key => 'order:7')")
    theirs = world.row(id)
    for name in ("kind", "queue", "payload", "partition_key", "ordered", "priority", "max_attempts"):
        assert getattr(theirs, name) == getattr(ours, name), name
    assert world.sql("SELECT DISTINCT hold FROM live") == [(True,)]
    ((free,),) = world.sql("SELECT publish('shop', 'order.paid', '{}')")
    assert not world.row(free).ordered
    for wrong in ("publish('shop', '', '{}')", "publish('shop', 'a b', '{}')", "publish('shop', 'a', NULL)"):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            world.sql(f"SELECT {wrong}")


@pytest.mark.parametrize(
    ("type", "data", "says"),
    [
        ("", {}, "visible ASCII"),
        ("order paid", {}, "visible ASCII"),
        ("x" * 201, {}, "visible ASCII"),
        ("order.paid", {"text": "x" * 1000}, "the broker takes 1000: store it"),
        ("order.paid", object(), "must be JSON"),
    ],
)
def test_what_the_broker_could_not_take_is_refused_at_publish(world: World, type: str, data: Any, says: str) -> None:
    _, outbox = shop(world, Told())
    with pytest.raises(InvalidPayload, match=says):
        outbox.publish(world.conn, type, data)
    assert world.count("live") == 0


def test_an_outbox_without_a_source_is_refused() -> None:
    with pytest.raises(BadSettings, match="source"):
        Outbox(Inbox(), to=Told(), source="")


def test_a_refused_event_holds_its_key_and_no_other(world: World) -> None:
    to = Told(*[Refused("no such topic")] * 10)
    inbox, outbox = shop(world, to)
    first = outbox.publish(world.conn, "order.paid", {}, key="order:1")
    world.sql("UPDATE live SET max_attempts = 1")
    second = outbox.publish(world.conn, "order.paid", {}, key="order:1")
    with working(world, inbox) as hired:
        hired.saw(JobDeadLettered)
        assert "no such topic" in hired.saw(MessageRefused)[0].error
        to.answers.clear()
        other = outbox.publish(world.conn, "order.paid", {}, key="order:2")
        hired.saw(JobCompleted)
    assert world.status(first.id) == "dead_letter"
    assert world.status(second.id) == "pending"
    assert world.status(other.id) == "completed"
    assert world.keys_taken() == [("outbox:shop", "order:1")]


def test_outboxes_do_not_hold_each_others_keys(world: World) -> None:
    inbox, outbox = shop(world, Told(*[Away("connection refused")] * 50))
    other = Outbox(inbox, to=Told(), source="/billing")
    outbox.publish(world.conn, "order.paid", {}, key="order:1")
    ours = other.publish(world.conn, "order.billed", {}, key="order:1").id
    ((by_sql,),) = world.sql("SELECT publish('billing', 'order.billed', '{}', key => 'order:1')")
    with working(world, inbox) as hired:
        done = [event.job_id for event in hired.saw(JobCompleted, 2)]
    assert done == [ours, by_sql]
    assert {world.row(id).partition_key for id in done} == {"order:1"}


def test_from_sql_too_large_data_is_refused_in_the_callers_transaction(world: World) -> None:
    most = "jsonb_build_array(repeat('x ', 499996), '\"')"  # 1,000,001 bytes as sent: one too many
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="1000001 bytes, a broker takes 1000000"):
        world.sql(f"SELECT publish('shop', 'big', {most})")
    assert world.count("live") == 0
    world.sql("SELECT publish('shop', 'big', jsonb_build_array(repeat('x ', 499995), '\"'))")
    world.sql("SELECT publish('shop', 'big', (SELECT jsonb_agg(1) FROM generate_series(1, 340000)))")
    assert world.count("live") == 2, "spaces between values are not sent"


def test_while_the_broker_is_away_no_attempt_is_used_up_and_what_waits_is_postponed_at_once(world: World) -> None:
    to = Told(Away("connection refused"))
    inbox, outbox = shop(world, to)
    rows = [outbox.publish(world.conn, "order.paid", {"n": n}, key=f"order:{n}").id for n in range(300)]
    with working(world, inbox, slots=5) as hired:
        away = hired.saw(BrokerAway)[0]
        assert (away.outbox, away.error) == ("shop", "connection refused")
        hired.saw(BrokerBack)
        hired.saw(JobCompleted, 300)
        assert len(hired.of(BrokerAway)) == 1
    assert {world.row(id).attempts for id in rows} == {1}
    assert len(to.sent) <= 300 + 5, "one statement put the others off"


def test_a_worker_starts_without_its_broker_says_since_when_and_sends_when_it_is_back(world: World) -> None:
    with nats_server() as broker:
        now(make_stream(broker.url))
        broker.kill()
        inbox, outbox = shop(world, JetStream(broker.url, stream="SHOP", subject="shop"))
        sent = outbox.publish(world.conn, "order.paid", {}, key="order:1")
        with working(world, inbox) as hired:
            hired.saw(BrokerAway)
            (worker,) = world.run(questions.workers())
            assert worker.metadata["outbox:shop"]["away_since"]
            broker.start()
            hired.saw(BrokerBack)
            hired.saw(JobCompleted)
        assert [each.id for each in now(in_stream(broker.url))] == [str(sent.id)]
        assert world.row(sent.id).attempts == 1


def test_a_fenced_event_is_sent_later_under_a_higher_fence(world: World) -> None:
    to = Told(Fenced("another relay"))
    inbox, outbox = shop(world, to)
    sent = outbox.publish(world.conn, "order.paid", {}, key="order:1")
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    first, second = to.sent
    assert second.mark > first.mark
    assert world.row(sent.id).attempts == 1


def test_a_broker_that_is_unfit_stops_the_worker_with_its_sentence(world: World) -> None:
    to = Told()
    to.unfit = "stream 'SHOP' forgets ids after 60 s"
    inbox, _ = shop(world, to)
    with pytest.raises(LifespanFailed, match="forgets ids after 60 s"):
        Worker(inbox, Terms(world.url, schema=world.schema, queues=inbox.queues)).run()


def test_an_event_of_a_transaction_that_commits_late_is_sent_though_its_number_is_small(
    world: World, broker: Broker
) -> None:
    """A fence by number alone would refuse it for ever: decision 0012."""
    inbox, outbox = shop(world, JetStream(broker.url, stream="SHOP", subject="shop"))
    with psycopg.connect(world.url) as slow:
        late = outbox.publish(slow, "order.paid", {}, key="late:1")
        early = outbox.publish(world.conn, "order.paid", {}, key="late:1")
        with working(world, inbox) as hired:
            hired.saw(JobCompleted)
            slow.commit()
            hired.saw(JobCompleted, 2)
    ours = [each for each in now(in_stream(broker.url)) if each.key == "late:1"]
    assert [each.id for each in ours] == [str(early.id), str(late.id)]
    assert ours[0].sequence > ours[1].sequence


# -- seen from outside


def test_the_command_tells_lag_blocked_keys_and_since_when_a_broker_is_away(world: World) -> None:
    to = Told(*[Away("connection refused")] * 50)
    inbox, outbox = shop(world, to)
    outbox.publish(world.conn, "order.paid", {}, key="order:1")
    with working(world, inbox, heartbeat_seconds=0.2) as hired:
        hired.saw(BrokerAway)
        (shop_,) = eventually(lambda: found if (found := _outboxes(world))[0]["away"] and found[0]["postponed"] else [])
    assert (shop_["outbox"], shop_["pending"], shop_["postponed"], shop_["blocked"]) == ("shop", 1, 1, 0)
    assert shop_["oldest_seconds"] >= 0
    assert shop_["away"][0]["error"] == "connection refused"
    text = CliRunner().invoke(tenure, ["outbox", *_at(world)])
    assert "shop" in text.output


def test_of_an_outbox_that_no_worker_serves_it_is_not_said_that_its_broker_is_reached(world: World) -> None:
    inbox, _ = shop(world, Told())
    world.sql("SELECT publish('nosuch', 'order.paid', '{}')")
    with working(world, inbox):
        served = eventually(lambda: found if len(found := _outboxes(world)) == 2 else [])
        assert [(each["outbox"], each["served"]) for each in served] == [("nosuch", False), ("shop", True)]
        nosuch, shop_ = CliRunner().invoke(tenure, ["outbox", *_at(world)]).output.splitlines()[-2:]
        assert "no worker serves it" in nosuch
        assert "reached" in shop_
    assert [each["served"] for each in _outboxes(world)] == [False, False]


@pytest.mark.parametrize("queue", [None, "apart"])
def test_a_worker_that_does_not_take_the_queue_of_an_outbox_does_not_serve_it(world: World, queue: str | None) -> None:
    inbox = Inbox(schema=world.schema)
    Outbox(inbox, to=Told(), source="/shop", queue=queue)
    with working(world, inbox, queues={"default": 1}):
        (shop_,) = eventually(lambda: _outboxes(world))
        assert not shop_["served"]
        assert "no worker serves it" in CliRunner().invoke(tenure, ["outbox", *_at(world)]).output
        with working(world, inbox):
            eventually(lambda: _outboxes(world)[0]["served"])


def _at(world: World) -> list[str]:
    return ["--database-url", world.url, "--schema", world.schema]


def _outboxes(world: World) -> Any:
    done = CliRunner().invoke(tenure, ["outbox", "--json", *_at(world)])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)["outboxes"]


def test_replay_publishes_completed_events_again_in_order_under_their_id_and_is_audited(world: World) -> None:
    to = Told()
    inbox, outbox = shop(world, to)
    rows = [outbox.publish(world.conn, "order.paid", {"n": n}, key="order:1").id for n in range(5)]
    outbox.publish(world.conn, "order.sent", {}, key="order:1")
    with working(world, inbox) as hired:
        hired.saw(JobCompleted, 6)
        words = ["kind:outbox:shop", "type:order.paid"]
        dry = CliRunner().invoke(tenure, ["outbox", "replay", *words, "--dry-run", "--json", *_at(world)])
        assert json.loads(dry.output)["matched"] == 5, dry.output
        as_one = CliRunner().invoke(tenure, ["outbox", "replay", " ".join(words), "--dry-run", "--json", *_at(world)])
        assert as_one.output == dry.output, "a quoted filter is read like an unquoted one"
        assert world.count("live") == 0
        CliRunner().invoke(tenure, ["outbox", "replay", *words, "--yes", "--reason", "lost index", *_at(world)])
        hired.saw(JobCompleted, 11)
        dry = CliRunner().invoke(tenure, ["outbox", "replay", *words, "--dry-run", "--json", *_at(world)])
        assert json.loads(dry.output)["matched"] == 5, "what a replay has made is no original"
    again = to.sent[6:]
    assert [each.id for each in again] == [str(id) for id in rows]
    assert all(each.once.startswith(f"{each.id}/replay-") for each in again)
    assert [each.once for each in to.sent[:6]] == [each.id for each in to.sent[:6]]
    assert world.sql("SELECT verb, rows, reason FROM audit") == [("replay", 5, "lost index")]


def test_replays_of_one_second_are_told_apart_and_each_has_one_number_for_all_its_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "BATCH", 2)
    to = Told()
    inbox, outbox = shop(world, to)
    for n in range(3):
        outbox.publish(world.conn, "order.paid", {"n": n})
    filter = parse("kind:outbox:shop")
    with working(world, inbox) as hired:
        hired.saw(JobCompleted, 3)
        ids = replay.matching(world.conn, filter, world.schema)
        at = world.run(questions.clock())
        monkeypatch.setattr(replay, "clock", lambda: Statement("clock", {}, lambda _: at))
        for _ in range(2):
            assert replay.replay(world.conn, ids, filter, Actor("ana", "cli"), world.schema)[1] == 3
        hired.saw(JobCompleted, 9)
    assert len({each.once for each in to.sent}) == 9, "the broker would drop a repeat"
    assert len({each.once.partition("/")[2] for each in to.sent[3:]}) == 2


def test_only_completed_events_are_replayed(world: World) -> None:
    _, outbox = shop(world, Told())
    waiting = outbox.publish(world.conn, "order.paid", {}).id
    plain = world.enqueue("send_receipt", {"type": "order.paid"})
    world.complete(world.claim_one().lease)
    assert world.status(plain) == "completed"
    assert world.run(outboxes.replay([waiting, plain], 1)) == []
    assert CliRunner().invoke(tenure, ["outbox", "replay", *_at(world)]).exit_code == 2


def test_only_the_events_that_were_asked_for_are_replayed_and_none_that_is_sealed(world: World) -> None:
    _, outbox = shop(world, Told())
    one, _ = (outbox.publish(world.conn, "order.paid", {}).id for _ in range(2))
    sealed = world.enqueue("outbox:shop", {"$encrypted": "unreadable"}, queue="outbox:shop")
    for job in world.claim(n=3, lanes=[Lane("outbox:shop")]):
        world.complete(job.lease)
    assert len(world.run(outboxes.replay([one, sealed], 1))) == 1
    assert world.sql("SELECT payload ->> 'id' FROM live") == [(str(one),)]


def confirmed(world: World, outbox: Outbox, queue: str) -> UUID:
    """The id of an event that was sent."""
    id = outbox.publish(world.conn, "order.paid", {}).id
    world.complete(world.claim_one(lanes=[Lane(queue)]).lease)
    return id


def test_a_replay_goes_where_the_outbox_sends_from_now(world: World) -> None:
    _, before = shop(world, Told())
    id = confirmed(world, before, "outbox:shop")
    assert len(world.run(outboxes.replay([id], 1))) == 1
    assert world.sql("SELECT queue FROM live") == [("outbox:shop",)], "no worker has declared another"
    inbox = Inbox(schema=world.schema)
    Outbox(inbox, to=Told(), source="/shop", queue="apart")
    with working(world, inbox) as hired:
        world.run(outboxes.replay([id], 2))
        hired.saw(JobCompleted)
    assert world.sql("SELECT queue, payload ->> 'replay' FROM archive WHERE id <> %s", id) == [("apart", "2")]


def test_a_copy_is_replayed_once_its_original_is_no_longer_kept(world: World) -> None:
    _, outbox = shop(world, Told())
    first, other = (confirmed(world, outbox, "outbox:shop") for _ in range(2))
    copies = list[UUID]()
    for n in (1, 2):
        (copy,) = world.run(outboxes.replay([first], n))
        copies.append(copy)
        world.complete(world.claim_one(lanes=[Lane("outbox:shop")]).lease)
    every = [first, other, *copies]
    assert world.run(outboxes.originals(every)) == sorted([first, other])
    assert not world.run(outboxes.replay(copies, 3)), "their original is there"
    world.sql("DELETE FROM archive WHERE id = %s", first)
    assert len(world.run(outboxes.replay(copies[1:], 3))) == 1, "an earlier copy that nobody asked for is in no way"
    world.sql("DELETE FROM live")
    assert world.run(outboxes.originals(every)) == sorted([other, copies[0]]), "of several copies the first"
    assert len(world.run(outboxes.replay(every, 3))) == 2
    kept = "SELECT payload ->> 'id', payload ->> 'replay' FROM live ORDER BY 1"
    assert world.sql(kept) == sorted([(str(first), "3"), (str(other), "3")])
