"""What ends in one turn of the loop is settled together, and no handler waits for another one's end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from crew import eventually, working
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import JobCompleted, JobReleased, LeaseLost
from tenure.worker.attempt import Attempt
from tenure.worker.loop_turns import begun
from tenure.worker.news import News, Note
from world import World

pytestmark = pytest.mark.one_server


def test_a_handler_that_takes_long_does_not_keep_back_those_claimed_with_it(world: World) -> None:
    inbox, go = Inbox(), threading.Event()

    @inbox.handler("work")
    async def work(job: Job, slow: bool) -> None:
        while slow and not go.is_set():
            await asyncio.sleep(0.01)

    with working(world, inbox, slots=10) as hired:
        with world.conn.transaction():
            for n in range(10):
                work.enqueue(world.conn, slow=n == 0)
        hired.saw(JobCompleted, 9)
        assert world.count("live") == 1
        go.set()
        hired.saw(JobCompleted, 10)


def test_a_handler_that_blocks_the_loop_does_not_keep_back_those_that_ended_before_it(world: World) -> None:
    inbox, go, blocked = Inbox(), threading.Event(), threading.Event()

    @inbox.handler("work")
    async def work(job: Job, blocks: bool) -> None:
        if blocks:
            blocked.set()
            go.wait(300)  # longer than anything below is waited for

    with working(world, inbox, slots=10) as hired:
        try:
            with world.conn.transaction():
                for n in range(10):
                    work.enqueue(world.conn, blocks=n == 9)
            eventually(blocked.is_set)
            hired.saw(JobCompleted, 9)  # the loop's turn is not over
        finally:
            go.set()
        hired.saw(JobCompleted, 10)


def test_a_handler_that_loses_its_lease_before_its_first_wait_is_stopped_at_that_wait(world: World) -> None:
    """Where tasks begin at once, it runs before there is a way to stop it."""
    inbox, begun_, lost, went_on = Inbox(), threading.Event(), threading.Event(), threading.Event()

    @inbox.handler("work")
    async def work(job: Job) -> None:
        begun_.set()
        lost.wait(60)
        await asyncio.sleep(60)
        went_on.set()

    with working(world, inbox) as hired:
        try:
            work.enqueue(world.conn)
            eventually(begun_.is_set)
            held = hired.worker.held
            held.lose(held.all()[0], "lease_expired", hired.worker.id)
            hired.saw(LeaseLost)
        finally:
            lost.set()
        hired.saw(JobReleased)
        assert not went_on.is_set()


def test_a_task_is_the_current_one_and_may_set_a_timeout_from_its_first_line_on() -> None:
    seen = []

    async def first_lines() -> None:
        seen.append(asyncio.current_task())
        async with asyncio.timeout(60):
            await asyncio.sleep(0)

    async def main() -> None:
        task = begun(first_lines(), loop=asyncio.get_running_loop())
        await task
        assert seen == [task]

    asyncio.run(main())


def test_the_claimer_hears_all_that_ended_in_the_order_in_which_it_did() -> None:
    news = News()
    first, second, third = (Attempt(None) for _ in range(3))  # type: ignore[arg-type]
    news.ended(first, goes_on=True)
    news.ended(second)
    news.wake("7 default")
    news.ended(third, goes_on=True)
    ended: list[Attempt] = []
    assert news.take(60, ended.extend) == [Note("7 default")]
    assert ended == [first, second, third]
    assert news.empty
    news.hurry()
    assert news.empty, "there is nothing to hurry for"


def test_what_ended_is_with_the_news_until_the_claimer_has_it() -> None:
    """Else a drain that looks in between would find nothing left to settle."""
    news, told = News(), []
    news.ended(Attempt(None))  # type: ignore[arg-type]
    news.ended(Attempt(None))  # type: ignore[arg-type]
    news.take(0, lambda ended: told.append((len(ended), news.empty)))
    assert told == [(2, False)]
    assert news.empty
