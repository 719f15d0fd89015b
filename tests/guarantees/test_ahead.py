"""Rows claimed ahead make short handlers quick, and cost nobody anything: none waits where a handler is slow."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import pytest

from crew import Hired, eventually, working
from patience import soon
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import Bus, ClaimAnswered, ExecutionStarted, JobCompleted, JobReleased, LeaseLost
from tenure.model.rows import NewRow
from tenure.verbs import queues
from tenure.worker.ahead import ROWS_FIRST, ROWS_LEAST, ROWS_MAX, WAIT_SECONDS, Ahead
from tenure.worker.attempt import Attempt, Common, State
from tenure.worker.claim_rule import UNORDERED
from tenure.worker.held import HeldAttempts
from world import World

pytestmark = pytest.mark.one_server
SLOTS = 4


def send(world: World, n: int, kind: str = "work", **options: object) -> None:
    world.run(verbs.enqueue_many([NewRow(kind, **options) for _ in range(n)]))  # type: ignore[arg-type]


class Work:
    """An inbox whose handler returns at once, until it is told to take its time; it knows how many run at once."""

    def __init__(self, pool: str = "loop", seconds: float = 0.0) -> None:
        self.inbox, self.seconds, self.most, self._n = Inbox(), seconds, 0, 0
        self.gate = threading.Event()
        self._lock = threading.Lock()
        if pool == "loop":

            @self.inbox.handler("work")
            async def work(job: Job) -> None:
                self._enter(1)
                until = time.monotonic() + self.seconds
                while not self.gate.is_set() and (left := until - time.monotonic()) > 0:
                    await asyncio.sleep(min(0.05, left))
                self._enter(-1)
        else:

            @self.inbox.handler("work")
            def work(job: Job) -> None:
                self._enter(1)
                if self.seconds:
                    self.gate.wait(self.seconds)
                self._enter(-1)

    def _enter(self, n: int) -> None:
        with self._lock:
            self._n += n
            self.most = max(self.most, self._n)


def quick(world: World, hired: Hired, most: int = 100) -> None:
    """Let it learn that its handlers are short, until it claims ahead."""

    def learned() -> bool:
        send(world, 50)
        return hired.worker.held.ahead.most > most

    eventually(learned)
    eventually(lambda: not world.sql("SELECT 1 FROM live LIMIT 1"))
    hired.worker.held.ahead.row_seconds = 0.0  # also if this machine was just busy with something else


def claims(hired: Hired) -> list[int]:
    """How many rows each claim brought that brought any."""
    return [event.rows for event in hired.of(ClaimAnswered) if event.rows]


# -- how many


def test_nothing_is_claimed_ahead_until_handlers_are_known_to_be_short() -> None:
    ahead = Ahead()
    assert ahead.most == ahead.room(beside_others=False) == 0
    for _ in range(300):
        ahead.ran(0.0001)
    assert ahead.most == ROWS_FIRST
    for _ in range(300):
        ahead.ran(0.01)
    assert 4 <= ahead.most <= 5
    for _ in range(300):
        ahead.ran(0.051)
    assert ahead.most == 0


@pytest.mark.parametrize(("seconds", "most"), [(0.0001, ROWS_MAX), (0.001, 50), (0.1, ROWS_LEAST)])
def test_no_more_are_claimed_ahead_than_began_in_a_moment(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: float, most: int
) -> None:
    """However short the handlers: a machine that has other things to do begins fewer."""
    at = 1000.0
    monkeypatch.setattr("tenure.worker.ahead.time.monotonic", lambda: at)
    stage, ahead = Stage(world), Ahead()
    ahead.row_seconds = 0.0
    for _ in range(20):
        for attempt in stage.attempts:
            attempt.wait_ahead()
        ahead.add(stage.attempts)
        while ahead.next(1):
            at += seconds
    assert most * 0.4 <= ahead.most <= most * 2.5


def test_a_single_slow_handler_among_short_ones_makes_it_careful() -> None:
    ahead = Ahead()
    for _ in range(300):
        ahead.ran(0.0001)
    ahead.ran(2.0)
    assert ahead.most == 0


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_short_handlers_have_rows_ahead_and_never_more_at_once_than_slots(world: World, pool: str) -> None:
    work = Work(pool)
    with working(world, work.inbox, slots=SLOTS) as hired:
        quick(world, hired)
        first = claims(hired)[0]
        send(world, 1000)
        eventually(lambda: not world.sql("SELECT 1 FROM live LIMIT 1"))
    assert first <= SLOTS, "nothing was known at the start"
    assert max(claims(hired)) > 10 * SLOTS
    assert work.most <= SLOTS
    assert world.sql("SELECT count(*) FROM archive WHERE attempts <> 1") == [(0,)]


def test_a_handler_that_takes_fifty_milliseconds_has_none_ahead_and_two_workers_share_the_rows(world: World) -> None:
    one, other = Work(seconds=0.05), Work(seconds=0.05)
    with working(world, one.inbox, slots=SLOTS) as a, working(world, other.inbox, slots=SLOTS) as b:
        eventually(lambda: len(a.worker.lease_keeper.ring.workers) == len(b.worker.lease_keeper.ring.workers) == 2)
        send(world, 40 * SLOTS)
        eventually(lambda: not world.sql("SELECT 1 FROM live LIMIT 1"))
        assert (a.worker.held.ahead.most, b.worker.held.ahead.most) == (0, 0)
    assert max(claims(a) + claims(b)) <= SLOTS
    assert (one.most, other.most) == (SLOTS, SLOTS), "a row waited while a slot was free"
    assert not a.of(JobReleased) + b.of(JobReleased)


# -- when a handler turns slow


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_what_waits_ahead_of_a_handler_that_turned_slow_is_for_the_other_worker(world: World, pool: str) -> None:
    slow, idle = Work(pool), Work(pool, seconds=90)
    with working(world, slow.inbox, slots=SLOTS, poll_seconds=600) as hired:
        quick(world, hired)
        slow.seconds = 90
        with working(world, idle.inbox, slots=SLOTS, queues={"elsewhere": 1.0}, poll_seconds=600):
            send(world, 60)
            eventually(lambda: hired.worker.held.slots_used == SLOTS)
        with working(world, idle.inbox, slots=SLOTS, poll_seconds=600) as other:
            since = time.monotonic()
            other.saw(ExecutionStarted, SLOTS)
            assert time.monotonic() - since < soon(5)
            eventually(lambda: world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(2 * SLOTS,)])
            assert world.sql("SELECT DISTINCT attempts FROM live WHERE status = 'pending'") == [(0,)]
            assert not hired.worker.held.ahead.most
            for work in (slow, idle):
                work.gate.set()
            eventually(lambda: not world.sql("SELECT 1 FROM live LIMIT 1"))
    assert world.sql("SELECT count(*) FROM archive WHERE attempts <> 1") == [(0,)]


def test_an_idle_worker_is_told_of_rows_that_went_back(world: World) -> None:
    slow, idle = Work(), Work()
    with (
        working(world, slow.inbox, slots=1, poll_seconds=600) as hired,
        working(world, idle.inbox, slots=1, poll_seconds=600) as other,
    ):
        quick(world, hired)
        slow.seconds = idle.seconds = 90
        send(world, 30)
        # Whoever took them: one runs in each worker, and the others wait for nobody.
        eventually(lambda: hired.worker.held.slots_used == other.worker.held.slots_used == 1)
        eventually(lambda: world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(2,)])
        slow.gate.set()
        idle.gate.set()
        eventually(lambda: not world.sql("SELECT 1 FROM live LIMIT 1"))


def test_a_drain_gives_back_what_waits_ahead_and_it_costs_no_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    with working(world, work.inbox, slots=SLOTS) as hired:
        quick(world, hired)
        monkeypatch.setattr("tenure.worker.ahead.WAIT_SECONDS", 600.0)
        work.seconds = 90
        send(world, 100)
        eventually(lambda: len(hired.worker.held.ahead) > SLOTS)
        hired.worker.stop()
        eventually(lambda: world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(SLOTS,)])
        work.gate.set()
        assert hired.gone() == 0
    assert world.sql("SELECT DISTINCT status, attempts FROM live") == [("pending", 0)]


# -- keys, limits, leases


def test_a_limited_queue_is_not_claimed_ahead(world: World) -> None:
    work = Work()
    with working(world, work.inbox, slots=SLOTS) as hired:
        quick(world, hired)
        world.run(queues.limit("default", max_running=1000))
        since = len(claims(hired))
        send(world, 200)
        eventually(lambda: not world.sql("SELECT 1 FROM live LIMIT 1"))
        assert max(claims(hired)[since:]) <= SLOTS


def test_rows_ahead_do_not_keep_back_rows_of_keys_and_of_limited_queues(world: World) -> None:
    inbox, began, done = Inbox(), Counter[str](), threading.Event()

    @inbox.handler("work")
    async def work(job: Job) -> None:
        began[job.queue if job.queue != "default" else "key" if job.key == "k" else "other"] += 1
        await asyncio.sleep(0.001)

    world.run(queues.limit("limited", max_running=2))
    with working(world, inbox, slots=SLOTS, queues={"default": 1.0, "limited": 1.0}, poll_seconds=1.0) as hired:
        quick(world, hired, SLOTS)

        def keep_busy() -> None:
            while not done.is_set():
                if world.sql("SELECT count(*) FROM live")[0][0] < 500:
                    send(world, 500)

        busy = threading.Thread(target=keep_busy)
        busy.start()
        try:
            eventually(lambda: len(hired.worker.held.ahead))
            with world.connect() as conn:
                world.run(verbs.enqueue_many([NewRow("work", key="k", ordered=True) for _ in range(5)]), conn)
                world.run(verbs.enqueue_many([NewRow("work", queue="limited") for _ in range(5)]), conn)
            eventually(lambda: began["key"] == began["limited"] == 5)
        finally:
            done.set()
            busy.join()
    assert began["other"] > 50


class Stage:
    """Slots without a worker: one attempt has the only one, the others wait ahead."""

    def __init__(self, world: World, n: int = 2) -> None:
        send(world, n)
        self.held = HeldAttempts(Bus(), slots=1)
        self.attempts = [Attempt(Job(row), common=Common(UNORDERED)) for row in world.claim("w", n)]
        self.held.take(self.attempts)
        assert self.held.queue(self.attempts[1:]) == []
        self.first, self.second = self.attempts[:2]


def test_a_row_ahead_takes_no_slot_and_has_the_next_one(world: World) -> None:
    stage = Stage(world)
    held = stage.held
    assert (stage.second.state, held.slots_used, held.in_flight) == (State.AHEAD, 1, 1)
    stage.first.handler_returns(None)
    assert held.next_after(stage.first) == [stage.second]
    assert (stage.second.state, held.slots_used, held.in_flight) == (State.RUNNING, 1, 2)
    held.free([stage.first])
    assert (held.slots_used, held.in_flight, held.leased()) == (1, 1, [stage.second])


def test_a_row_that_comes_after_the_handler_has_returned_has_its_slot(world: World) -> None:
    stage = Stage(world)
    held = stage.held
    held.give_up_ahead()
    assert held.next_after(stage.first) == []
    assert held.queue([stage.second]) == [stage.second]
    assert held.slots_used == 1


def test_a_slot_that_was_freed_before_its_handlers_end_was_told_is_not_forgotten(world: World) -> None:
    stage = Stage(world)
    stage.held.free([stage.first])
    assert stage.held.next_after(stage.first) == [stage.second]


def test_a_row_that_was_given_back_does_not_begin(world: World) -> None:
    stage = Stage(world, 3)
    assert stage.second.give_back(None)
    assert stage.held.next_after(stage.first) == [stage.attempts[2]]
    assert stage.second.state is State.RETURNED


def test_a_row_ahead_whose_lease_is_lost_is_told_so_and_its_handler_is_not_called(world: World) -> None:
    work = Work()
    with working(world, work.inbox, slots=1) as hired:
        quick(world, hired)
        hired.worker.held.ahead.overdue_at = lambda: float("inf")  # type: ignore[method-assign]
        work.seconds = 90
        send(world, 10)
        eventually(lambda: len(hired.worker.held.ahead))
        (lost, *_) = (each for each in hired.worker.held.leased() if each.state is State.AHEAD)
        hired.worker.lease_keeper._lost_one(lost)
        assert [event.job_id for event in hired.of(LeaseLost)] == [lost.job.id]
        work.gate.set()
        eventually(lambda: lost.settled)
    started = [event.job_id for event in hired.of(JobCompleted)]
    assert lost.job.id not in started


def test_the_wait_of_rows_ahead_is_looked_at_in_time(world: World) -> None:
    stage = Stage(world)
    stage.second.started = 10.0
    assert stage.held.ahead.overdue_at() == 10.0 + WAIT_SECONDS
    stage.held.give_up_ahead()
    assert stage.held.ahead.overdue_at() == float("inf")
