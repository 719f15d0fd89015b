"""Order, limits, pauses and schedules as a running worker keeps them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta

from crew import eventually, working
from patience import soon
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import JobCompleted, JobDeadLettered, JobRetried, RingChanged, ScheduleFired
from tenure.model.backoff import Fixed
from tenure.verbs import questions, queues
from world import World


def test_rows_of_a_key_run_one_by_one_and_in_order_over_two_workers(world: World) -> None:
    inbox = Inbox()
    ran: list[tuple[str, int]] = []
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    @inbox.handler("step", key="stream:{stream}", ordered=True)
    async def step(job: Job, stream: int, n: int) -> None:
        running[job.key] += 1
        most[job.key] = max(most[job.key], running[job.key])
        await asyncio.sleep(0.001)
        ran.append((job.key, n))
        running[job.key] -= 1

    with ExitStack() as stack:
        hired = [stack.enter_context(working(world, inbox, slots=8)) for _ in range(2)]
        with world.conn.transaction():
            for n in range(20):
                for stream in range(5):
                    step.enqueue(world.conn, stream=stream, n=n)
        eventually(lambda: len(ran) == 100)
    for stream in range(5):
        assert [n for key, n in ran if key == f"stream:{stream}"] == list(range(20))
    assert set(most.values()) == {1}
    assert sum(len(each.of(JobCompleted)) for each in hired) == 100


def test_a_retried_head_blocks_its_key_and_no_other(world: World) -> None:
    inbox = Inbox()
    ran: list[tuple[str, int, int]] = []

    @inbox.handler("step", key="stream:{stream}", ordered=True, backoff=Fixed(0.5))
    async def step(job: Job, stream: str, n: int) -> None:
        ran.append((stream, n, job.attempt))
        if (stream, n, job.attempt) == ("a", 0, 1):
            raise ValueError("once")

    with working(world, inbox) as hired:
        with world.conn.transaction():
            for n in range(3):
                step.enqueue(world.conn, stream="a", n=n)
                step.enqueue(world.conn, stream="b", n=n)
        hired.saw(JobCompleted, 6)
    assert [(n, attempt) for stream, n, attempt in ran if stream == "a"] == [(0, 1), (0, 2), (1, 1), (2, 1)]
    assert [n for stream, n, _ in ran if stream == "b"] == [0, 1, 2]
    assert ran.index(("b", 2, 1)) < ran.index(("a", 0, 2)), "the other key went on meanwhile"


def test_a_key_on_hold_waits_for_an_operator_when_its_head_ends_badly(world: World) -> None:
    inbox = Inbox()
    ran: list[int] = []
    fixed = threading.Event()

    @inbox.handler("step", key="k", ordered=True, hold=True, max_attempts=1)
    async def step(job: Job, n: int) -> None:
        ran.append(n)
        if n == 0 and not fixed.is_set():
            raise ValueError("bad")

    with working(world, inbox) as hired:
        first = step.enqueue(world.conn, n=0)
        step.enqueue(world.conn, n=1)
        hired.saw(JobDeadLettered)
        (blocked,) = world.run(questions.blocked_keys())
        assert (blocked.head, blocked.reason, blocked.waiting) == (first.id, "waits_for_operator", 1)
        fixed.set()
        world.run(verbs.redrive([first.id]))
        hired.saw(JobCompleted, 2)
    assert ran == [0, 0, 1]


def test_a_limit_holds_exactly_across_workers(world: World) -> None:
    inbox = Inbox()
    lock = threading.Lock()
    running = most = 0

    @inbox.handler("work")
    def work(job: Job) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    world.run(queues.limit("default", max_running=3))
    for _ in range(60):
        world.enqueue("work")
    with ExitStack() as stack:
        hired = [stack.enter_context(working(world, inbox, slots=10)) for _ in range(2)]
        eventually(lambda: sum(len(each.of(JobCompleted)) for each in hired) == 60)
    assert most == 3
    assert world.count("permits") == 0


def test_control_without_the_limit_more_run_at_once(world: World) -> None:
    inbox = Inbox()
    most = 0
    gate = threading.Barrier(8, timeout=120)

    @inbox.handler("work")
    def work(job: Job) -> None:
        nonlocal most
        gate.wait()
        most = 8

    for _ in range(8):
        world.enqueue("work")
    with working(world, inbox, slots=10) as hired:
        hired.saw(JobCompleted, 8)
    assert most == 8


def test_a_rate_is_kept_and_used(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    world.run(queues.limit("default", rate_per_second=20, burst=5))
    for _ in range(30):
        world.enqueue("work")
    with working(world, inbox, poll_seconds=600) as hired:
        hired.saw(JobCompleted, 30)
    rows = world.sql("SELECT claimed_at FROM archive ORDER BY claimed_at")
    took = (rows[-1][0] - rows[0][0]) / timedelta(seconds=1)
    assert took >= (30 - 5) / 20 - 0.05, "never more than burst + rate * t"
    assert took < soon(15), "and the rate is used"


def test_a_paused_queue_starts_nothing_until_it_is_resumed(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    world.run(queues.pause("default"))
    id = world.enqueue("work")
    with working(world, inbox, queues={"default": 1.0, "other": 1.0}, poll_seconds=0.1) as hired:
        world.enqueue("work", queue="other")
        hired.saw(JobCompleted)
        assert world.row(id).status == "pending"
        world.run(queues.resume("default"))
        hired.saw(JobCompleted, 2)


def test_a_schedule_fires_once_across_two_workers(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("tick")
    async def tick(job: Job) -> None: ...

    inbox.schedule("every second", "* * * * * *", tick)
    with ExitStack() as stack:
        hired = [stack.enter_context(working(world, inbox)) for _ in range(2)]
        eventually(lambda: sum(len(each.of(JobCompleted)) for each in hired) >= 3)
        assert any(each.of(ScheduleFired) for each in hired)
    keys = [key for (key,) in world.sql("SELECT idempotency_key FROM inbox")]
    assert len(keys) == len(set(keys))
    assert all(key.startswith("schedule:every second:") for key in keys)


def test_workers_share_the_ring_and_each_claims_the_ordered_keys_of_its_own_buckets(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    with ExitStack() as stack:
        hired = [stack.enter_context(working(world, inbox, poll_seconds=600)) for _ in range(2)]
        for each in hired:
            eventually(lambda each=each: len(each.worker.lease_keeper.ring.workers) == 2)  # type: ignore[misc]
        owned = [set(each.worker.lease_keeper.ring.buckets_of(each.worker.id)) for each in hired]
        assert owned[0] | owned[1] == set(range(1024))
        assert not owned[0] & owned[1]
        eventually(lambda: all(each.of(RingChanged) for each in hired))
        for n in range(50):
            world.enqueue("work", key=f"k{n}", ordered=True)
        eventually(lambda: sum(len(each.of(JobCompleted)) for each in hired) == 50)
        ours = {each.worker.id: buckets for each, buckets in zip(hired, owned, strict=True)}
    rows = world.sql("SELECT finished_by, bucket(COALESCE(partition_key, id::text)) FROM archive")
    assert sum(bucket in ours[worker] for worker, bucket in rows) >= 40, "affinity, as far as notes and not polls tell"


def test_a_retry_is_an_event_with_its_error(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work", backoff=lambda _attempt: 3600.0)
    async def work(job: Job) -> None:
        raise ValueError("boom")

    with working(world, inbox) as hired:
        world.enqueue("work")
        (event,) = hired.saw(JobRetried)
    assert event.error.endswith("ValueError: boom\n")
    assert event.run_seconds >= 0
