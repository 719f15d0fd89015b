"""Unique rows: while one is pending, another like it is a duplicate; once it has begun, the next one is a row."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from crew import eventually
from guarantees.facts import Beside, waits_for_a_lock
from guarantees.test_notes import Listener
from tenure.app.handler import Handler
from tenure.app.inbox import Inbox
from tenure.app.unique import Unique
from tenure.errors import BadSettings, InvalidPayload
from tenure.model.rows import Enqueued, NewRow
from tenure.verbs.lifecycle import claim
from tenure.verbs.sending import enqueue, enqueue_many
from tenure.worker.news import Note
from world import World


def _handler(world: World, unique: Any = "pending", **options: Any) -> Handler[..., ..., Any]:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("reindex", unique=unique, **options)
    def reindex(shop: int = 1, why: str = "") -> None: ...

    return reindex


def test_a_row_like_one_that_is_pending_is_a_duplicate(world: World) -> None:
    reindex = _handler(world)
    first = reindex.enqueue(world.conn, shop=1, why="price")
    assert reindex.enqueue(world.conn, why="price", shop=1) == Enqueued(first.id, "duplicate"), "order does not matter"
    assert reindex.enqueue(world.conn, shop=2, why="price").outcome == "enqueued"
    assert world.count("live") == 2


def test_control_without_unique_each_is_a_row(world: World) -> None:
    reindex = _handler(world, unique=None)
    assert reindex.enqueue(world.conn).id != reindex.enqueue(world.conn).id


def test_once_it_has_begun_the_next_one_is_a_row_of_its_own(world: World) -> None:
    reindex = _handler(world)
    beside = reindex.using(delay_seconds=600).enqueue(world.conn, shop=2)  # pending, under a name of its own
    first = reindex.enqueue(world.conn)
    job = world.claim_one()
    second = reindex.enqueue(world.conn)
    assert (second.outcome, second.id == first.id) == ("enqueued", False), "it may have read what has changed since"
    assert reindex.enqueue(world.conn) == Enqueued(second.id, "duplicate")
    assert reindex.enqueue(world.conn, shop=2) == Enqueued(beside.id, "duplicate")
    world.complete(job.lease)
    world.complete(world.claim_one().lease)
    assert reindex.enqueue(world.conn).outcome == "enqueued"


def test_a_row_that_waits_for_its_retry_is_pending(world: World) -> None:
    reindex = _handler(world)
    first = reindex.enqueue(world.conn)
    world.retry(world.claim_one().lease, delay=600)
    assert reindex.enqueue(world.conn) == Enqueued(first.id, "duplicate")


def test_by_key_the_arguments_may_differ(world: World) -> None:
    reindex = _handler(world, Unique(by="key"), key="shop:{shop}")
    first = reindex.enqueue(world.conn, shop=1, why="price")
    assert reindex.enqueue(world.conn, shop=1, why="name") == Enqueued(first.id, "duplicate")
    assert reindex.enqueue(world.conn, shop=2).outcome == "enqueued"


def test_for_a_time_it_is_unique_whatever_became_of_the_first(world: World) -> None:
    reindex = _handler(world, Unique(seconds=60))
    first = reindex.enqueue(world.conn)
    world.complete(world.claim_one().lease)
    assert reindex.enqueue(world.conn) == Enqueued(first.id, "duplicate")
    world.sql("UPDATE idempotency SET created_at = created_at - interval '61 seconds'")
    reindex.enqueue(world.conn, shop=2)  # sent just now, under a name of its own
    assert reindex.enqueue(world.conn).outcome == "enqueued"


def test_in_a_long_transaction_time_goes_on(world: World) -> None:
    reindex = _handler(world, Unique(seconds=60))
    reindex.enqueue(world.conn)
    world.complete(world.claim_one().lease)
    world.sql("UPDATE idempotency SET created_at = clock_timestamp() - interval '59.9 seconds'")
    with world.conn.transaction():
        world.sql("SELECT pg_sleep(0.3)")
        sent = reindex.enqueue(world.conn)
        assert sent.outcome == "enqueued"
        times = (
            "SELECT k.created_at - now(), i.available_at - now() FROM idempotency AS k, live AS i WHERE i.id = k.row_id"
        )
        ((named, due),) = world.sql(times)
        assert min(named, due).total_seconds() > 0.2


def test_who_finds_a_duplicate_waits_for_nobody_who_found_it_too(world: World) -> None:
    reindex, other = _handler(world), world.connect()
    first = reindex.enqueue(world.conn)
    other.execute("SET lock_timeout = '1s'")
    with world.conn.transaction():
        assert reindex.enqueue(world.conn) == Enqueued(first.id, "duplicate")
        assert reindex.enqueue(other) == Enqueued(first.id, "duplicate")


@pytest.mark.parametrize("ordered", [False, True])
def test_a_row_after_one_that_has_begun_wakes_a_worker_that_waits(world: World, ordered: bool) -> None:
    reindex = _handler(world, key="k", ordered=ordered)
    reindex.enqueue(world.conn)
    world.sql("DELETE FROM live")
    listener = Listener(world)
    reindex.enqueue(world.conn)
    assert [Note(note).ordered for note in listener.notes()] == [ordered]
    world.sql("UPDATE workers SET waiting = false")
    world.sql("DELETE FROM live")
    reindex.enqueue(world.conn)
    assert listener.notes() == []


def test_a_rolled_back_row_makes_no_other_a_duplicate(world: World) -> None:
    reindex = _handler(world)
    with world.conn.transaction(force_rollback=True):
        reindex.enqueue(world.conn)
    assert reindex.enqueue(world.conn).outcome == "enqueued"


@pytest.fixture
def waiting(world: World) -> Iterator[list[threading.Thread]]:
    """Threads that are joined at the end."""
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join(60)


@pytest.mark.parametrize("begun", [False, True], ids=["new", "after one that has begun"])
def test_of_ten_at_once_one_is_sent(world: World, waiting: list[threading.Thread], begun: bool) -> None:
    reindex, answers = _handler(world), list[str]()
    if begun:
        reindex.enqueue(world.conn)
        world.claim_one()
    conns, ready = [world.connect() for _ in range(10)], threading.Barrier(10)

    def send(conn: Any) -> None:
        ready.wait(60)
        answers.append(reindex.enqueue(conn).outcome)

    waiting += [threading.Thread(target=send, args=[conn]) for conn in conns]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join(60)
    assert sorted(answers) == ["duplicate"] * 9 + ["enqueued"]


def test_who_comes_second_after_one_that_has_begun_waits_for_the_first(world: World) -> None:
    reindex, other = _handler(world), world.connect()
    reindex.enqueue(world.conn)
    world.claim_one()
    with world.conn.transaction():
        first = reindex.enqueue(world.conn)
        second = Beside(lambda: reindex.enqueue(other))
        waits_for_a_lock(world, other)
    assert (first.outcome, second.result()) == ("enqueued", Enqueued(first.id, "duplicate"))


def test_a_row_that_took_the_name_meanwhile_and_begins_just_now_is_not_taken_for_a_pending_one(world: World) -> None:
    reindex, mine, claimer, other = _handler(world), world.connect(), world.connect(), world.connect()
    reindex.enqueue(world.conn)
    world.claim_one()
    newer = world.enqueue()
    with claimer.transaction():
        with other.transaction():
            other.execute(b"SELECT FROM idempotency FOR UPDATE")
            sent = Beside(lambda: reindex.enqueue(mine))
            waits_for_a_lock(world, mine)
            assert len(world.run(claim("B", 1), claimer)) == 1
            other.execute(b"UPDATE idempotency SET row_id = %s, created_at = created_at - interval '1 day'", [newer])
        eventually(lambda: sent.done or claimer.info.backend_pid in _blockers(world, mine))
    assert sent.result().outcome == "enqueued"


def _blockers(world: World, conn: Any) -> list[int]:
    """Who keeps this connection waiting."""
    return list(world.sql("SELECT pg_blocking_pids(%s)", conn.info.backend_pid)[0][0])


def test_a_change_is_never_committed_without_a_row_that_begins_after_it(world: World) -> None:
    """The row that makes mine a duplicate must see what I write: it cannot begin before I commit."""
    reindex, mine = _handler(world), world.connect()
    world.sql("CREATE TABLE prices (cents int)")
    first = reindex.enqueue(world.conn)
    with mine.transaction():
        mine.execute("INSERT INTO prices VALUES (42)")
        assert reindex.enqueue(mine) == Enqueued(first.id, "duplicate")
        assert world.claim() == [], "it would read the old prices, and nobody would run after my commit"
    (job,) = world.claim()
    assert (job.id, world.sql("SELECT cents FROM prices")) == (first.id, [(42,)])


def test_a_row_that_begins_while_i_ask_is_not_taken_for_a_pending_one(
    world: World, waiting: list[threading.Thread]
) -> None:
    reindex, claimer, mine, answers = _handler(world), world.connect(), world.connect(), list[Enqueued]()
    first = reindex.enqueue(world.conn)
    with claimer.transaction():
        claimer.execute(b"SELECT 1 FROM live WHERE id = %s FOR UPDATE", [first.id])  # a claim that has not committed
        waiting.append(threading.Thread(target=lambda: answers.append(reindex.enqueue(mine))))
        waiting[0].start()
        pid = mine.info.backend_pid
        eventually(lambda: world.sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'", pid))
        claimer.execute(
            b"UPDATE live SET status = 'processing', claimed_by = 'A', lease_generation = 1, attempts = 1,"
            b" claim_id = 1, claimed_at = clock_timestamp(), fence_token = next_fence(),"
            b" lease_expires_at = clock_timestamp() + interval '1 hour' WHERE id = %s",
            [first.id],
        )
    waiting[0].join(60)
    assert [answer.outcome for answer in answers] == ["enqueued"]


def test_using_may_make_one_call_unique_or_not(world: World) -> None:
    reindex = _handler(world, unique=None)
    unique = reindex.using(unique="pending")
    assert [unique.enqueue(world.conn).outcome for _ in range(2)] == ["enqueued", "duplicate"]
    plain = _handler(world).using(unique=None)
    assert [plain.enqueue(world.conn).outcome for _ in range(2)] == ["enqueued"] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unique": "always"}, "unique='always': write unique='pending', or Unique"),
        ({"unique": Unique(by="key")}, "is unique by key and has no key"),
        ({"unique": "pending", "idempotency_key": "k"}, "leave one out"),
    ],
)
def test_a_mistake_is_one_sentence(world: World, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        _handler(world, unique=None).using(**options)


def test_what_cannot_be_unique_says_so(world: World) -> None:
    with pytest.raises(BadSettings, match="by 'name' is not known"):
        Unique(by="name")  # type: ignore[arg-type]
    with pytest.raises(BadSettings, match="must be between 0 and"):
        Unique(seconds=-1)
    with pytest.raises(InvalidPayload, match="sent one by one"):
        enqueue_many([_handler(world).row()])
    with pytest.raises(InvalidPayload, match="goes with again='after_start'"):
        enqueue(NewRow("k", idempotency_key="k", again_seconds=5))
    inbox = Inbox()
    inbox.handler("a", unique="pending")(lambda: None)
    with pytest.raises(BadSettings, match="which is unique: each tick is sent once"):
        inbox.schedule("nightly", "@daily", inbox["a"])
