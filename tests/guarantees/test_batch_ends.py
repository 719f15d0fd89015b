"""Batches: sent in the caller's transaction, closed at its commit, followed once; and names that can be used again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from crew import working
from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from guarantees.test_notes import Listener
from tenure import postgres, verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import BadSettings, IdempotencyConflict, InvalidPayload
from tenure.events import JobCompleted
from tenure.model.ended import BatchEnd
from tenure.model.outcome import Fail
from tenure.model.rows import NewRow
from tenure.postgres import run
from tenure.verbs import batches
from world import World


class Shop:
    """An inbox with parts, and reports that note what they were told."""

    def __init__(self, world: World) -> None:
        self.inbox = Inbox(schema=world.schema)
        self.told: list[BatchEnd | None] = []
        self.ran: list[int] = []

        @self.inbox.handler("part")
        async def part(n: int) -> Fail | None:
            self.ran.append(n)
            return Fail("seven") if n == 7 else None

        @self.inbox.handler("report")
        async def report(job: Job, day: int = 0) -> None:
            self.told.append(job.batch)

        self.part, self.report = part, report


@pytest.fixture
def shop(world: World) -> Shop:
    """A shop in this world."""
    return Shop(world)


def test_what_follows_runs_once_and_is_told_how_it_went(world: World, shop: Shop) -> None:
    with shop.inbox.batch(world.conn, then=shop.report, name="nightly") as batch:
        for n in range(20):
            batch.add(shop.part, n=n)
    assert batch.id is not None
    world.run(verbs.cancel(batch.ids[:2]))
    with working(world, shop.inbox) as hired:
        hired.saw(JobCompleted, 18)
    assert sorted(shop.ran) == list(range(2, 20))
    assert shop.told == [BatchEnd(batch.id, 20, 1, 2)]
    found = world.run(batches.group(batch.id))
    assert found is not None
    assert (found.name, found.then_row) == ("nightly", batch.then_id)


def test_a_batch_is_sent_with_the_callers_transaction_or_not_at_all(world: World, shop: Shop) -> None:
    conn = user_connection(world, autocommit=False)
    with shop.inbox.batch(conn, then=shop.report) as batch:
        batch.add(shop.part, n=1)
    assert world.count("live") == 0
    conn.rollback()
    assert (world.count("live"), world.count("groups")) == (0, 0)
    with pytest.raises(ZeroDivisionError), shop.inbox.batch(world.conn, then=shop.report) as other:
        other.add(shop.part, n=1 // 0)
    assert world.count("live") == 0


def test_on_a_connection_in_autocommit_nothing_is_sent_by_halves(world: World, shop: Shop) -> None:
    world.sql("ALTER TABLE groups ADD CONSTRAINT never CHECK (name <> 'refused')")
    batch = shop.inbox.batch(world.conn, then=shop.report, name="refused")
    batch.add(shop.part, n=1)
    with pytest.raises(psycopg.errors.CheckViolation, match="never"), batch:
        pass
    assert world.count("live") == 0


def test_the_same_with_await_and_an_empty_batch_ends_at_once(world: World, shop: Shop) -> None:
    async def send() -> Any:
        async with await postgres.connect_async(world.url, schema=world.schema) as conn:
            async with shop.inbox.batch(conn, then=shop.report.row(day=3)) as batch:
                pass
            return batch

    batch = asyncio.run(send())
    with working(world, shop.inbox) as hired:
        hired.saw(JobCompleted)
    assert shop.told == [BatchEnd(batch.id, 0, 0, 0)]


def test_a_batch_may_follow_a_batch_and_an_empty_one_is_passed_over(world: World, shop: Shop) -> None:
    inbox = shop.inbox
    last = inbox.batch(world.conn, then=shop.report)
    last.add(shop.part, n=100)
    nothing = inbox.batch(world.conn, then=last)
    with inbox.batch(world.conn, then=nothing) as first:
        for n in range(10, 13):
            first.add(shop.part, n=n)
    assert last.id is not None
    with working(world, inbox) as hired:
        hired.saw(JobCompleted, 5)
    assert sorted(shop.ran[:3]) == [10, 11, 12]
    assert shop.ran[3] == 100
    assert shop.told == [BatchEnd(last.id, 1, 0, 0)]


def test_what_cannot_be_is_said_in_a_sentence(world: World, shop: Shop) -> None:
    inbox = shop.inbox
    with inbox.batch(world.conn) as batch:
        batch.add(shop.part, n=1)
    with pytest.raises(InvalidPayload, match="is closed"):
        batch.add(shop.part, n=2)
    with pytest.raises(InvalidPayload, match="was sent already"), batch:
        pass
    with (
        pytest.raises(InvalidPayload, match=r"sent already: fill the one that follows"),
        inbox.batch(world.conn, then=batch),
    ):
        pass
    with pytest.raises(BadSettings, match="must be a handler"):
        inbox.batch(world.conn, then="report")  # type: ignore[arg-type]
    with pytest.raises(BadSettings, match="takes a handler first"):
        inbox.batch(world.conn).add("part", n=1)  # type: ignore[arg-type]
    with (
        pytest.raises(InvalidPayload, match="leave it out"),
        inbox.batch(world.conn, then=shop.report.using(idempotency_key="k")),
    ):
        pass
    with pytest.raises(InvalidPayload, match="counts new rows"), inbox.batch(world.conn) as keyed:
        keyed.add(shop.part.using(idempotency_key="k"), n=1)


@pytest.mark.parametrize("when", [{"delay_seconds": 20}, {"at": datetime.now(UTC) + timedelta(days=1)}])
def test_what_follows_a_batch_has_no_time_of_its_own(world: World, shop: Shop, when: dict[str, Any]) -> None:
    later, name = shop.report.using(priority=50, **when), next(iter(when))
    upload = shop.inbox.batch(world.conn)
    upload.add(later)
    for then in (later, later.row(day=1), upload):
        with (
            pytest.raises(
                InvalidPayload, match=f"what follows a batch has {name}=.* and is due when the batch has ended"
            ),
            shop.inbox.batch(world.conn, then=then) as batch,
        ):
            batch.add(shop.part, n=1)
    assert world.count("live") == 0
    with shop.inbox.batch(world.conn, then=shop.report.using(priority=50, delay_seconds=0)) as batch:
        batch.add(later)
    assert batch.then_id is not None
    assert world.row(batch.then_id).priority == 50


def test_an_empty_batch_of_a_chain_is_passed_over_and_knows_what_follows_it(world: World, shop: Shop) -> None:
    none = shop.inbox.batch(world.conn, then=shop.report)
    nor_here = shop.inbox.batch(world.conn, then=none)
    with shop.inbox.batch(world.conn, then=nor_here) as first:
        first.add(shop.part, n=1)
    assert first.then_id is not None
    assert none.then_id == nor_here.then_id == first.then_id
    assert (none.id, none.ids) == (None, [])


def test_a_job_that_follows_nothing_has_no_batch(world: World) -> None:
    world.enqueue(headers={"tenure-batch": "many"})
    assert Job(world.claim_one()).batch is None


# -- names that can be used again


def _again(world: World, payload: Any = None, conn: Any = None, name: str = "order:1") -> Any:
    return world.run(verbs.enqueue(NewRow("k", payload or {}, idempotency_key=name, again="after_end")), conn)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", 5, "x" * 129, "é" * 65])
def test_a_name_that_no_batch_can_have_is_refused_and_the_transaction_goes_on(
    world: World, shop: Shop, name: Any
) -> None:
    with world.connect() as conn, conn.transaction():
        conn.execute("SELECT 1")
        with pytest.raises(InvalidPayload, match="name"), shop.inbox.batch(conn, then=shop.report, name=name):
            raise AssertionError("its rows were asked for")
        with pytest.raises(InvalidPayload, match="name"):
            run(conn, batches.open_group([], name=name), world.schema)
        conn.execute("SELECT 1")
    assert world.count("live") == 0


def test_a_name_is_free_again_when_its_row_has_ended(world: World) -> None:
    first = _again(world)
    assert first.outcome == "enqueued"
    assert _again(world) == (first.id, "duplicate")
    with pytest.raises(IdempotencyConflict):
        _again(world, {"n": 1})
    job = world.claim_one()
    assert _again(world) == (first.id, "duplicate")
    world.complete(job.lease)
    second = _again(world, {"n": 1})
    assert second.outcome == "enqueued"
    assert second.id != first.id
    assert _again(world, {"n": 1}) == (second.id, "duplicate")
    world.fail(world.claim_one().lease)
    assert _again(world).outcome == "enqueued"
    assert world.enqueued("k", idempotency_key="order:1").outcome == "duplicate"


def test_a_name_is_free_or_taken_whatever_became_of_the_others(world: World) -> None:
    names = ["order:1", "order:2", "order:3"]
    before = {name: _again(world, {"for": name}, name=name).id for name in names}
    for name in names:
        assert _again(world, {"for": name}, name=name) == (before[name], "duplicate")
    world.complete(world.claim_one().lease)
    ended = next(name for name in names if world.status(before[name]) == "completed")
    assert _again(world, {"for": ended}, name=ended).outcome == "enqueued"
    for name in set(names) - {ended}:
        assert _again(world, {"for": name}, name=name) == (before[name], "duplicate")


def test_a_name_is_used_again_now_also_late_in_a_transaction(world: World) -> None:
    _again(world)
    world.complete(world.claim_one().lease)
    with world.conn.transaction():
        world.sql("SELECT pg_sleep(0.3)")
        _again(world)
        times = (
            "SELECT k.created_at - now(), i.available_at - now() FROM idempotency AS k, live AS i WHERE i.id = k.row_id"
        )
        ((named, due),) = world.sql(times)
        assert min(named, due).total_seconds() > 0.2


def test_a_row_whose_name_is_used_again_wakes_a_worker_that_waits(world: World) -> None:
    def sent_after_an_end() -> None:
        world.complete(world.claim_one().lease)
        assert _again(world).outcome == "enqueued"

    _again(world)
    listener = Listener(world)
    sent_after_an_end()
    assert len(listener.notes()) == 1
    world.sql("SELECT set_config('tenure_inbox.notify', 'off', false)")
    sent_after_an_end()
    assert listener.notes() == [], "who says that nobody be told"
    world.sql("SELECT set_config('tenure_inbox.notify', '', false)")
    world.sql("UPDATE workers SET waiting = false")
    sent_after_an_end()
    assert listener.notes() == [], "nobody waits"


def test_of_two_who_use_a_name_again_at_once_one_row_comes(world: World) -> None:
    for _ in range(5):
        _again(world)
        world.complete(world.claim_one().lease)
        conns = [world.connect() for _ in range(6)]
        answers = together(6, lambda n, conns=conns: _again(world, None, conns[n]))  # type: ignore[misc]
        assert sorted(answer.outcome for answer in answers) == ["duplicate"] * 5 + ["enqueued"]
        assert len({answer.id for answer in answers}) == 1
        world.complete(world.claim_one().lease)
        for conn in conns:
            conn.close()


def test_who_comes_second_waits_for_the_first(world: World) -> None:
    _again(world)
    world.complete(world.claim_one().lease)
    other = world.connect()
    with world.conn.transaction():
        first = _again(world)
        second = Beside(lambda: _again(world, None, other))
        waits_for_a_lock(world, other)
    assert second.result() == (first.id, "duplicate")


def test_again_is_about_a_key_of_one_row(world: World) -> None:
    for row in (NewRow("k", again="after_end"), NewRow("k", idempotency_key="k", again="now")):  # type: ignore[arg-type]
        with pytest.raises(InvalidPayload, match="again="):
            verbs.enqueue(row)
    with pytest.raises(InvalidPayload, match="one by one"):
        verbs.enqueue_many([NewRow("k", idempotency_key="k", again="after_end")])
