"""A worker carries every job to exactly one end, whatever its handler does."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest

from crew import eventually, working
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import BadSettings, Cancelled, InvalidPayload, RolledBack, StaleLease, telling_line
from tenure.events import (
    Bus,
    HandlerOverran,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobReleased,
    JobRetried,
    LeaseAcquired,
)
from tenure.model.backoff import Fixed
from tenure.model.outcome import Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze
from tenure.model.rows import Claimed
from tenure.postgres.handler_pool import HandlerPool
from tenure.verbs import questions
from tenure.worker.attempt import Attempt, State
from tenure.worker.config import Terms
from tenure.worker.held import HeldAttempts
from tenure.worker.news import News
from tenure.worker.pools import Pools
from tenure.worker.settler import batches
from tenure.worker.shared import Shared
from world import World

pytestmark = pytest.mark.one_server


def status(world: World, id: UUID) -> str:
    return world.row(id).status


def test_an_async_and_a_plain_handler_get_typed_fields_and_complete(world: World) -> None:
    inbox = Inbox()
    got: list[Any] = []

    @inbox.handler("later", key="order:{order_id}")
    async def later(job: Job, order_id: int, tags: list[str] = []) -> None:  # noqa: B006
        got.append((job.key, order_id, tags, job.attempt, threading.current_thread().name))

    @inbox.handler("plain")
    def plain(amount: float) -> None:
        got.append((amount, threading.current_thread().name))

    with working(world, inbox) as hired:
        first = later.enqueue(world.conn, order_id=7)
        second = plain.enqueue(world.conn, amount=1.5)
        hired.saw(JobCompleted, 2)
    assert {status(world, first.id), status(world, second.id)} == {"completed"}
    by_kind = sorted(got, key=len)
    assert by_kind[0][0] == 1.5
    assert by_kind[0][1].startswith("tenure-handler")
    assert by_kind[1][:4] == ("order:7", 7, [], 1)


@dataclasses.dataclass
class Order:
    id: int
    note: str = ""


class Parcel(msgspec.Struct):
    weight: float


class Shaped:
    """What pydantic's models look like from outside."""

    def __init__(self, n: int) -> None:
        self.n = n

    @classmethod
    def model_validate_json(cls, text: str) -> Shaped:
        return cls(**msgspec.json.decode(text))

    @classmethod
    def model_validate(cls, value: Any) -> Shaped:
        return cls(**value)

    def model_dump(self, mode: str = "json") -> dict[str, int]:  # noqa: ARG002
        return {"n": self.n}


@pytest.mark.parametrize("value", [Order(3, "x"), Parcel(1.5), Shaped(4)], ids=lambda value: type(value).__name__)
def test_a_payload_type_arrives_as_that_type(world: World, value: Any) -> None:
    inbox = Inbox()
    got: list[Any] = []

    @inbox.handler("typed", payload=type(value))
    async def typed(job: Job, payload: Any) -> None:
        got.append(payload)

    with working(world, inbox) as hired:
        typed.enqueue(world.conn, value)
        hired.saw(JobCompleted)
    assert type(got[0]) is type(value)
    assert msgspec.to_builtins(vars(got[0]) if isinstance(value, Shaped) else got[0]) == msgspec.to_builtins(
        vars(value) if isinstance(value, Shaped) else value
    )


def test_a_handler_stays_a_function() -> None:
    inbox = Inbox()

    @inbox.handler("double")
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    assert double(4) == 8
    assert double.__wrapped__.__name__ == "double"  # type: ignore[attr-defined]
    assert double.__doc__ == "Twice."


@pytest.mark.parametrize(
    ("send", "says"),
    [
        (lambda handler, conn: handler.enqueue(conn), "order_id"),
        (lambda handler, conn: handler.enqueue(conn, order_id="seven"), "int"),
        (lambda handler, conn: handler.enqueue(conn, order_id=1, extra=2), "does not take 'extra'"),
        (lambda handler, conn: handler.enqueue(conn, 1, 2), "sent with 2 values in order: enqueue"),
        (lambda handler, conn: handler.enqueue(conn, 1, order_id=2), "two values of 'order_id'"),
        (lambda handler, _conn: handler.using(colour="red"), "unknown option 'colour'"),
    ],
)
def test_what_a_handler_could_not_be_called_with_is_refused_where_it_is_sent(
    world: World, send: Any, says: str
) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("strict", key="order:{order_id}")
    async def strict(job: Job, order_id: int) -> None: ...

    with pytest.raises((InvalidPayload, BadSettings), match=says):
        send(strict, world.conn)
    assert world.sql("SELECT count(*) FROM inbox") == [(0,)]


def test_an_option_that_no_handler_has_is_refused_with_those_there_are() -> None:
    misspelt: dict[str, Any] = {"oredred": True}
    with pytest.raises(BadSettings) as refused:
        Inbox().handler("mail", key="k", **misspelt)
    assert str(refused.value) == (
        "handler 'mail' has the unknown option 'oredred': choose from key, queue, priority, ordered, hold, "
        "max_attempts, lease_seconds, timeout_seconds, backoff, late_completion, payload, pool, encrypt, "
        "keep_payload, result, unique, limits"
    )


ENDS = {
    "completed": (Completed(), "completed"),
    "retry": (Retry("later please", after_seconds=3600), "pending"),
    "snooze": (Snooze(3600), "pending"),
    "fail": (Fail("no such order"), "failed"),
    "dead_letter": (DeadLetter("poison"), "dead_letter"),
    "anything else": ({"a": 1}, "completed"),
    "the class of what it is anyway": (Completed, "completed"),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_outcome_is_a_value(world: World, name: str) -> None:
    inbox = Inbox()
    outcome, expected = ENDS[name]

    @inbox.handler("ends")
    async def ends(job: Job) -> Any:
        return outcome

    with working(world, inbox) as hired:
        id = ends.enqueue(world.conn).id
        eventually(lambda: [*hired.of(JobCompleted), *hired.of(JobRetried)])
        row = world.row(id)
    assert row.status == expected
    assert row.attempts == (0 if name == "snooze" else 1)


class Late(Snooze):
    """An outcome of the application's own."""


class Broken(Fail):
    """One that forgot its error."""

    def __init__(self) -> None: ...


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even its text can be had")

    __repr__ = __str__


NO_OUTCOMES = {
    "an exception for its error": (Fail(ValueError("no such order")), "failed", "no such order"),  # type: ignore[arg-type]
    "an error without words": (DeadLetter(RuntimeError), "dead_letter", "RuntimeError"),  # type: ignore[arg-type]
    "time that is over": (Snooze(-1), "pending", "Snooze, which is not an outcome: seconds=-1 must be"),
    "no number": (Retry("x", after_seconds="soon"), "pending", "after_seconds=soon must be"),  # type: ignore[arg-type]
    "a timedelta": (Snooze(timedelta(hours=1)), "pending", "seconds=1:00:00 must be"),  # type: ignore[arg-type]
    "not a number": (Snooze(float("nan")), "pending", "seconds=nan must be"),
    "for ever": (Retry("x", after_seconds=float("inf")), "pending", "after_seconds=inf must be"),
    "a subclass": (Late(3600, "in an hour"), "pending", "in an hour"),
    "half an outcome": (Broken(), "pending", "Broken, which is not an outcome"),
    "a class": (Retry, "pending", "returned the class Retry, which is not an outcome: write `return Retry(...)`"),
    "a class that wants more": (Fail, "pending", "write `return Fail(...)`"),
    "a class of its own": (Late, "pending", "write `return Late(...)`"),
    "an exception": (
        ValueError("no ink"),
        "pending",
        "returned ValueError('no ink'), which is not an outcome: raise it",
    ),
    "an exception class": (ValueError, "pending", "returned the class ValueError, which is not an outcome: raise it"),
    "an exception without words": (Unspeakable(), "pending", "returned Unspeakable"),
}


@pytest.mark.parametrize("name", NO_OUTCOMES)
def test_an_outcome_that_is_none_ends_its_own_attempt_alone(world: World, name: str) -> None:
    inbox = Inbox()
    outcome, expected, says = NO_OUTCOMES[name]

    @inbox.handler("ends", backoff=Fixed(3600))
    async def ends(job: Job) -> Any:
        return outcome

    @inbox.handler("good")
    async def good(job: Job) -> None: ...

    with working(world, inbox) as hired:
        id = ends.enqueue(world.conn).id
        eventually(lambda: [*hired.of(JobRetried)])
        good.enqueue(world.conn)
        hired.saw(JobCompleted)
    row = world.row(id)
    assert row.status == expected
    assert says in (row.last_error or "")


def test_a_job_that_no_statement_can_be_made_for_fails_alone(world: World) -> None:
    ids = [world.enqueue("work") for _ in range(3)]
    attempts = [Attempt(Job(claimed, schema=world.schema)) for claimed in world.run(verbs.claim("w", 3))]
    for attempt in attempts:
        attempt.handler_returns(Snooze(-1 if attempt.job.id == ids[1] else 60))
    made = list(batches(attempts))
    assert [statement.name for _, statement in made].count("retry") == 1
    for _, statement in made:
        world.run(statement)
    assert "must be between 0" in (world.row(ids[1]).last_error or "")
    assert [world.row(id).attempts for id in ids] == [0, 1, 0]


def test_release_gives_a_row_back_without_cost_and_it_runs_again(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("again")
    async def again(job: Job) -> Release | None:
        return Release() if job.token == 1 else None

    with working(world, inbox) as hired:
        id = again.enqueue(world.conn).id
        hired.saw(JobCompleted)
    assert (world.row(id).attempts, world.row(id).lease_generation) == (1, 2)


RAISED = [
    ValueError("plain"),
    Unspeakable(),
    ValueError("NUL \x00 and surrogate \ud800"),
    ValueError("x" * 10_000_000),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    StopIteration(),
    RecursionError(),
    MemoryError(),
    ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    GeneratorExit(),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_whatever_is_raised_is_a_retry_and_the_worker_goes_on(world: World, error: BaseException, pool: str) -> None:
    inbox = Inbox()

    if pool == "loop":

        @inbox.handler("raises", backoff=Fixed(3600))
        async def raises(job: Job) -> None:
            raise error
    else:

        @inbox.handler("raises", backoff=Fixed(3600))
        def raises(job: Job) -> None:
            raise error

    @inbox.handler("good")
    async def good(job: Job) -> None: ...

    with working(world, inbox) as hired:
        id = world.enqueue("raises")
        hired.saw(JobRetried)
        good.enqueue(world.conn)
        hired.saw(JobCompleted)
    row = world.row(id)
    assert (row.status, row.attempts) == ("pending", 1)
    assert row.last_error
    if type(error) is ValueError and str(error) == "plain":
        assert "Traceback" in row.last_error
        assert "ValueError: plain" in row.last_error


def test_a_stale_lease_is_never_a_failure_of_the_job(world: World) -> None:
    inbox = Inbox()
    seen: list[int] = []

    @inbox.handler("taken")
    async def taken(job: Job) -> None:
        seen.append(job.token)
        if job.token == 1:
            world.expire(job.lease)
            world.run(verbs.sweep(), world.connect())
            raise StaleLease(job.lease, "test", "token_mismatch", 2)

    with working(world, inbox) as hired:
        id = taken.enqueue(world.conn).id
        hired.saw(JobCompleted)
    assert seen == [1, 2]
    assert not hired.of(JobRetried)
    assert status(world, id) == "completed"


def test_an_undecodable_payload_is_a_dead_letter_and_takes_nobody_with_it(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("strict")
    async def strict(job: Job, order_id: int) -> None: ...

    with working(world, inbox) as hired:
        bad = [world.enqueue("strict", payload) for payload in ({}, {"order_id": "x"}, [1], "text", None)]
        good = world.enqueue("strict", {"order_id": 1})
        hired.saw(JobDeadLettered, len(bad))
        hired.saw(JobCompleted)
    assert {status(world, id) for id in bad} == {"dead_letter"}
    assert status(world, good) == "completed"
    assert "does not fit" in (world.row(bad[0]).last_error or "")


def test_an_unknown_kind_is_given_back_without_cost(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("known")
    async def known(job: Job) -> None: ...

    with working(world, inbox) as hired:
        id = world.enqueue("of tomorrow's release")
        (event,) = hired.saw(JobReleased)
    assert "no handler for kind" in event.error
    row = world.row(id)
    assert (row.status, row.attempts) == ("pending", 0)


def test_a_handler_in_a_process_completes_and_its_exception_is_kept(world: World) -> None:
    from apps import crunch

    with working(world, crunch.inbox) as hired:
        good = crunch.crunch.enqueue(world.conn, n=10)
        bad = crunch.crunch.enqueue(world.conn, n=-1)
        hired.saw(JobCompleted)
        hired.saw(JobRetried)
    assert status(world, good.id) == "completed"
    assert "n is negative" in (world.row(bad.id).last_error or "")


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_handler_that_runs_too_long_is_retried_and_keeps_only_its_slot(world: World, pool: str) -> None:
    inbox = Inbox()
    go_on = threading.Event()

    if pool == "loop":

        @inbox.handler("slow", timeout_seconds=0.2, backoff=Fixed(3600))
        async def slow(job: Job) -> None:
            await asyncio.sleep(3600)
    else:

        @inbox.handler("slow", timeout_seconds=0.2, backoff=Fixed(3600))
        def slow(job: Job) -> None:
            go_on.wait(90)

    with working(world, inbox, slots=2) as hired:
        id = world.enqueue("slow")
        hired.saw(HandlerOverran)
        eventually(lambda: status(world, id) == "pending")
        if pool == "thread":
            assert hired.worker.held.slots_used == 1
        go_on.set()
        eventually(lambda: hired.worker.held.slots_used == 0)
    assert "timed out after 0.2 s" in (world.row(id).last_error or "")


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_running_job_can_be_cancelled(world: World, pool: str) -> None:
    inbox = Inbox()

    if pool == "loop":

        @inbox.handler("long")
        async def long(job: Job) -> None:
            await asyncio.sleep(3600)
    else:

        @inbox.handler("long")
        def long(job: Job) -> None:
            while True:
                job.check()
                time.sleep(0.01)

    with working(world, inbox) as hired:
        id = world.enqueue("long")
        hired.saw(LeaseAcquired)
        eventually(lambda: status(world, id) == "processing")
        assert world.run(verbs.cancel([id], reason="sent by mistake")) == {id: "asked"}
        hired.saw(JobCancelled)
    assert (status(world, id), world.row(id).last_error) == ("cancelled", "sent by mistake")


def test_a_job_asks_for_its_own_cancellation_by_raising_cancelled(world: World) -> None:
    error = Cancelled(UUID(int=1))
    assert "asked to cancel" in str(error)


def test_the_fenced_block_completes_the_job_with_its_writes(world: World) -> None:
    world.sql("CREATE TABLE receipts (order_id int, fence bigint)")
    inbox = Inbox()

    @inbox.handler("receipt")
    async def receipt(job: Job, order_id: int) -> None:
        async with job.fenced() as tx:
            if await job.once(tx, "receipt"):
                await tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (%s, %s)', [order_id, job.fence])

    @inbox.handler("plain_receipt")
    def plain_receipt(job: Job, order_id: int) -> None:
        with job.fenced() as tx:
            tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (%s, %s)', [order_id, job.fence])

    with working(world, inbox) as hired:
        first, second = receipt.enqueue(world.conn, order_id=1), plain_receipt.enqueue(world.conn, order_id=2)
        hired.saw(JobCompleted, 2)
    assert {status(world, first.id), status(world, second.id)} == {"completed"}
    assert [order for order, _ in world.sql("SELECT * FROM receipts ORDER BY 1")] == [1, 2]


def test_an_error_inside_the_fenced_block_leaves_nothing_and_is_a_retry(world: World) -> None:
    world.sql("CREATE TABLE receipts (order_id int)")
    inbox = Inbox()

    @inbox.handler("receipt", backoff=Fixed(3600))
    async def receipt(job: Job) -> None:
        async with job.fenced() as tx:
            await tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (1)')
            raise ValueError("out of ink")

    with working(world, inbox) as hired:
        id = receipt.enqueue(world.conn).id
        hired.saw(JobRetried)
    assert world.sql("SELECT * FROM receipts") == []
    assert status(world, id) == "pending"


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_fenced_block_that_rolls_back_completes_nothing_and_is_a_retry(world: World, pool: str) -> None:
    """Negative control: psycopg swallows its own Rollback, and a handler that returns completes its row."""
    world.sql("CREATE TABLE receipts (order_id int)")
    inbox = Inbox()
    write = f'INSERT INTO "{world.schema}".receipts VALUES (1)'

    if pool == "loop":

        @inbox.handler("receipt", backoff=Fixed(3600))
        async def receipt(job: Job) -> None:
            async with job.fenced() as tx:
                await tx.execute(write)
                raise psycopg.Rollback
    else:

        @inbox.handler("receipt", backoff=Fixed(3600))
        def receipt(job: Job) -> None:
            with job.fenced() as tx:
                tx.execute(write)
                raise psycopg.Rollback

    with working(world, inbox) as hired:
        id = world.enqueue("receipt")
        eventually(lambda: [*hired.of(JobRetried), *hired.of(JobCompleted)])
    row = world.row(id)
    assert world.sql("SELECT * FROM receipts") == []
    assert (row.status, row.attempts) == ("pending", 1)
    assert telling_line(row.last_error).startswith("tenure.errors.RolledBack: ")
    assert "raise psycopg.Rollback" in (row.last_error or "")  # the line that did it


def test_a_handler_that_rolls_back_on_purpose_says_itself_how_its_attempt_ends(world: World) -> None:
    world.sql("CREATE TABLE receipts (order_id int)")
    inbox = Inbox()

    @inbox.handler("receipt")
    async def receipt(job: Job) -> Outcome:
        try:
            async with job.fenced() as tx:
                await tx.execute(f'INSERT INTO "{world.schema}".receipts VALUES (1)')
                raise psycopg.Rollback
        except RolledBack:
            return Fail("no paper")

    with working(world, inbox) as hired:
        id = receipt.enqueue(world.conn).id
        hired.saw(JobFailed)
    assert world.sql("SELECT * FROM receipts") == []
    assert (status(world, id), world.row(id).last_error) == ("failed", "no paper")


def test_more_urgent_rows_run_first_and_every_queue_gets_its_share(world: World) -> None:
    inbox = Inbox()
    ran: list[tuple[str, int]] = []

    @inbox.handler("work")
    async def work(job: Job, n: int) -> None:
        ran.append((job.queue, n))

    for n in range(100):
        world.enqueue("work", {"n": n}, queue="a", priority=n % 2)
        world.enqueue("work", {"n": n}, queue="b")
    with working(world, inbox, queues={"a": 9.0, "b": 1.0}, slots=1) as hired:
        hired.saw(JobCompleted, 200)
    of_a = [n for queue, n in ran if queue == "a"]
    assert [n % 2 for n in of_a] == [1] * 50 + [0] * 50
    a_in_first_half = sum(1 for queue, _ in ran[:100] if queue == "a")
    assert 65 <= a_in_first_half <= 99


def test_no_more_than_the_slots_are_claimed(world: World) -> None:
    inbox = Inbox()
    gate = asyncio.Event()
    running: list[UUID] = []

    @inbox.handler("gated")
    async def gated(job: Job) -> None:
        running.append(job.id)
        await gate.wait()

    for _ in range(10):
        world.enqueue("gated")
    with working(world, inbox, slots=3) as hired:
        eventually(lambda: len(running) == 3)
        assert world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(3,)]
        hired.worker._loop.call_soon_threadsafe(gate.set)  # type: ignore[union-attr]
        hired.saw(JobCompleted, 10)
    assert world.run(questions.depth()) == []


def test_a_row_that_somebody_has_locked_does_not_hold_up_the_others(world: World) -> None:
    inbox = Inbox()
    gate = asyncio.Event()

    @inbox.handler("gated")
    async def gated(job: Job) -> None:
        await gate.wait()

    ids = [world.enqueue("gated") for _ in range(6)]
    with working(world, inbox) as hired:
        eventually(lambda: hired.worker.held.slots_used == 6)
        other = world.connect()
        with other.transaction():
            other.execute(f'SELECT id FROM "{world.schema}".live WHERE id = %s FOR UPDATE', [ids[0]])
            hired.worker._loop.call_soon_threadsafe(gate.set)  # type: ignore[union-attr]
            hired.saw(JobCompleted, 5)
            assert world.row(ids[0]).status == "processing"
        hired.saw(JobCompleted, 6)


@pytest.mark.parametrize("pool", ["loop", "thread"])
@pytest.mark.parametrize("step", ["_begin", "_set_timer"])
def test_a_job_that_cannot_be_started_keeps_no_slot(
    world: World, monkeypatch: pytest.MonkeyPatch, pool: str, step: str
) -> None:
    inbox = Inbox()

    async def on_loop(job: Job) -> None: ...

    def in_thread(job: Job) -> None: ...

    inbox.handler("limited", timeout_seconds=60, backoff=Fixed(3600))(on_loop if pool == "loop" else in_thread)

    def fails(_pools: Pools, _job: Job) -> None:
        raise OSError("nothing left to start it with")

    monkeypatch.setattr(Pools, step, fails)
    with working(world, inbox) as hired:
        id = world.enqueue("limited")
        hired.saw(JobRetried)
        eventually(lambda: hired.worker.held.slots_used == 0)
    assert "nothing left to start it with" in (world.row(id).last_error or "")


def test_time_limits_need_no_thread_each(world: World) -> None:
    inbox = Inbox()
    gate = threading.Event()

    @inbox.handler("limited", timeout_seconds=3600)
    def limited(job: Job) -> None:
        gate.wait(90)

    with working(world, inbox) as hired:
        for _ in range(5):
            world.enqueue("limited")
        eventually(lambda: sum(each.timer is not None for each in hired.worker.held.all()) == 5)
        timers = [each.timer for each in hired.worker.held.all()]
        ours = [thread for thread in threading.enumerate() if not thread.name.startswith("pytest_timeout")]
        assert not [thread for thread in ours if isinstance(thread, threading.Timer)]
        gate.set()
        hired.saw(JobCompleted, 5)
        eventually(lambda: all(timer.cancelled() for timer in timers))


def stage(world: World) -> tuple[Pools, Claimed, HeldAttempts, News]:
    """Pools of a worker that does not run, a claimed row, and where they tell what became of it."""
    world.enqueue("work")
    (claimed,) = world.run(verbs.claim("w", 1))
    held, news = HeldAttempts(Bus()), News()
    pools = Pools(Shared(Terms(world.url), Bus(), _unexpected, _unexpected), held, news, HandlerPool(world.url))
    pools.open(asyncio.new_event_loop())
    return pools, claimed, held, news


def _unexpected(*said: object) -> None:
    pytest.fail(f"nobody stops this worker: {said}")


def ends(news: News) -> list[str]:
    """The outcomes that were sent to the database so far."""
    ended: list[Attempt] = []
    news.take(0, ended.extend)
    return [type(each.outcome).__name__ for each in ended]


def test_of_the_handler_and_its_time_limit_exactly_one_settles_the_row(world: World) -> None:
    pools, claimed, held, news = stage(world)
    finish = threading.Thread(target=lambda: pools._end(attempt, Completed()))

    class Slow(Attempt):
        """Its handler returns at the very moment its time limit looks whether it has."""

        __slots__ = ("_state",)

        @property
        def state(self) -> State:
            was: State = self._state
            if threading.current_thread() is not finish and finish.ident is None and armed:
                finish.start()
                finish.join(0.3)
            return was

        @state.setter
        def state(self, state: State) -> None:
            self._state = state

    armed = False
    attempt = Slow(Job(claimed))
    held.take([attempt])
    armed = True
    assert pools.let_go(attempt, Retry("timed out"))
    finish.join()
    assert ends(news) == ["Retry"]
    assert attempt.state is State.RETURNED
    assert held.slots_used == 1, "the slot is free when the database has answered"


def test_a_handler_that_returns_after_its_row_was_settled_frees_its_slot(world: World) -> None:
    pools, claimed, held, news = stage(world)
    attempt = Attempt(Job(claimed))
    held.take([attempt])
    assert pools.let_go(attempt, Retry("timed out"))
    attempt.settle()
    assert (attempt.state, held.slots_used) == (State.ABANDONED, 1)
    pools._end(attempt, Completed())
    assert (attempt.state, held.slots_used) == (State.OVER, 0)
    assert ends(news) == ["Retry"], "what it returned is told to nobody"


def test_a_job_that_comes_after_the_loop_is_closed_is_given_back(world: World) -> None:
    pools, claimed, _, news = stage(world)
    assert pools._loop is not None
    pools._loop.close()
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    pools.start([Attempt(Job(claimed), work)])
    assert ends(news) == ["Snooze"]
