"""Hooks: what an application puts around rows and attempts holds for every way in which handlers run."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from msgspec.structs import replace

from apps import hooked
from crew import working
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.app.provider import injected
from tenure.errors import BadSettings
from tenure.events import JobCompleted, JobReleased, JobRetried
from tenure.model.outcome import Fail, Snooze
from tenure.model.rows import NewRow
from tenure.worker.config import Terms
from tenure.worker.worker import Worker
from world import World

pytestmark = pytest.mark.one_server
tenant: ContextVar[str] = ContextVar("tenant")


class Session:
    """What handlers are given."""

    def __init__(self, told: list[str]) -> None:
        self.told, self.open = told, True


def _inbox(told: list[str]) -> Inbox:
    """An async and a plain handler, each told of what is around it."""
    inbox = Inbox()

    @inbox.around_attempt
    def outer(job: Job) -> Iterator[None]:
        told.append(f"outer {job.kind}")
        value = yield
        told.append(f"outer saw {value}")

    @inbox.around_attempt(kinds=["on_loop"])
    async def inner(job: Job) -> AsyncIterator[None]:
        told.append("inner")
        yield
        told.append("inner over")

    @inbox.provides
    def session(job: Job) -> Iterator[Session]:
        made = Session(told)
        yield made
        made.open = False
        told.append(f"closed for {job.kind}")

    @inbox.handler("on_loop")
    async def on_loop(n: int, session: Session = injected) -> str:
        told.append(f"{n} {session.open} {tenant.get('none')}")
        return "async"

    @inbox.handler("in_thread")
    def in_thread(job: Job, session: Session, n: int) -> str:
        told.append(f"{n} {session.open} {tenant.get('none')}")
        return "plain"

    inbox.carry(tenant=tenant)
    return inbox


def test_what_is_around_an_attempt_sees_it_whole(world: World) -> None:
    told: list[str] = []
    inbox = _inbox(told)
    with working(world, inbox) as hired:
        token = tenant.set("ada")
        inbox["on_loop"].enqueue(world.conn, n=1)
        hired.saw(JobCompleted, 1)
        tenant.reset(token)
        inbox["in_thread"].enqueue(world.conn, n=2)
        hired.saw(JobCompleted, 2)
    assert told == [
        *("outer on_loop", "inner", "1 True ada", "inner over", "outer saw async", "closed for on_loop"),
        *("outer in_thread", "2 True none", "outer saw plain", "closed for in_thread"),
    ]
    assert tenant.get("none") == "none"


def test_it_may_end_the_attempt_in_another_way(world: World) -> None:
    inbox, ran = Inbox(), list[str]()

    @inbox.around_attempt
    def weather(job: Job) -> Any:
        if job.kind == "not_now":
            return Snooze(60, "closed")
        try:
            yield
        except LookupError as error:
            return Fail(f"no such thing: {error}")

    @inbox.handler("not_now")
    def not_now() -> None:
        ran.append("not_now")

    @inbox.handler("missing")
    async def missing() -> None:
        raise LookupError("7")

    @inbox.handler("broken")
    def broken() -> None:
        raise ValueError("passes through")

    ids = {kind: inbox_handler.enqueue for kind, inbox_handler in inbox.handlers.items()}
    with working(world, inbox) as hired:
        sent = {kind: enqueue(world.conn).id for kind, enqueue in ids.items()}
        hired.saw(JobReleased)
        hired.saw(JobRetried, 3)
    assert world.row(sent["missing"]).status == "failed"
    assert world.row(sent["missing"]).last_error == "no such thing: 7"
    assert "ValueError: passes through" in (world.row(sent["broken"]).last_error or "")
    assert (world.row(sent["not_now"]).status, ran) == ("pending", [])


@pytest.mark.parametrize("kind", ["on_loop", "in_thread", "in_process"])
def test_the_error_hook_gets_the_exception_itself(world: World, kind: str, tmp_path: Any) -> None:
    inbox = hooked.inbox
    with working(world, inbox) as hired:
        inbox[kind].enqueue(world.conn, to=str(tmp_path / "told"))
        (retried,) = hired.saw(JobRetried)
    assert "ZeroDivisionError" in retried.error
    assert (tmp_path / "told").read_text() == f"{kind} attempt 1 ZeroDivisionError around True"


def test_an_error_hook_that_raises_changes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    inbox, told = Inbox(), list[str]()

    @inbox.on_error
    def broken(error: BaseException, job: Job) -> None:
        raise OSError("no network")

    @inbox.on_error
    def fine(error: BaseException, job: Job) -> None:
        told.append(str(error))

    @inbox.handler("a")
    def a() -> None:
        raise ValueError("boom")

    with caplog.at_level(logging.ERROR, "tenure"), working(world, inbox) as hired:
        a.enqueue(world.conn)
        hired.saw(JobRetried)
    assert told == ["boom"]
    assert "the error hook" in caplog.text


async def _awaiting(world: World, inbox: Inbox) -> str:
    from tenure import postgres

    async with await postgres.connect_async(world.url) as conn:
        return (await inbox["a"].using(headers={"own": "1"}).enqueue(conn)).outcome


def test_what_is_around_enqueue_may_change_the_row_and_sees_the_answer(world: World) -> None:
    import asyncio

    inbox, told = Inbox(), list[str]()

    @inbox.around_enqueue
    def stamp(row: NewRow) -> Any:
        sent = yield replace(row, headers={**(row.headers or {}), "by": "web-1"}, priority=3)
        told.append(sent.outcome)

    inbox.handler("a")(lambda: None)
    inbox.use_schema(world.schema)
    first = inbox["a"].using(idempotency_key="k").enqueue(world.conn)
    again = inbox["a"].using(idempotency_key="k").enqueue(world.conn)
    assert (first.id, told) == (again.id, ["enqueued", "duplicate"])
    assert (world.row(first.id).priority, world.row(first.id).headers) == (3, '{"by": "web-1"}')
    assert asyncio.run(_awaiting(world, inbox)) == "enqueued"
    (headers,) = world.sql("SELECT headers FROM live WHERE idempotency_key IS NULL")[0]
    assert headers == {"by": "web-1", "own": "1"}


def _numbered(n: int) -> None: ...


def test_a_refused_row_is_told_to_what_is_around_it_and_raised(world: World) -> None:
    inbox, told = Inbox(), list[str]()

    @inbox.around_enqueue
    def witness(row: NewRow) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            told.append(type(error).__name__)
            raise

    inbox.handler("a")(_numbered)
    inbox.use_schema(world.schema)
    inbox["a"].using(idempotency_key="k").enqueue(world.conn, n=1)
    with pytest.raises(Exception, match="another"):
        inbox["a"].using(idempotency_key="k").enqueue(world.conn, n=2)
    assert told == ["IdempotencyConflict"]


def _refused(inbox: Inbox) -> str:
    with pytest.raises(BadSettings) as refused:
        Worker(inbox, Terms("postgresql://"))
    return str(refused.value)


def test_a_mistake_is_refused_before_the_worker_starts() -> None:
    async def waits(job: Job) -> AsyncIterator[None]:
        yield

    inbox = Inbox()
    inbox.handler("plain")(lambda: None)
    inbox.around_attempt(waits)
    assert "is async and handler 'plain' is not: make it a plain function with one yield" in _refused(inbox)

    inbox = Inbox()

    @inbox.handler("given")
    def given(session: Session = injected) -> None: ...

    assert "handler 'given' is given 'session', but nothing makes a" in _refused(inbox)

    @inbox.provides
    async def session() -> Session:
        return Session([])

    assert "is a plain function and 'session' is made by an async one" in _refused(inbox)


def _yields(job: Job) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (lambda inbox: inbox.around_attempt(_refused), "must have one yield"),
        (lambda inbox: inbox.around_enqueue(lambda: (yield)), "must take one argument: the row"),
        (lambda inbox: inbox.around_attempt(_yields, kinds="mail"), r"give a list, kinds=\['mail'\]"),
        (lambda inbox: inbox.provides(lambda: 1), "must say what it makes"),
        (lambda inbox: inbox.provides(7), "must be a function"),
    ],
)
def test_a_hook_that_cannot_work_is_refused_at_once(add: Any, said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        add(Inbox())


def test_a_handler_is_not_sent_with_what_it_is_given(world: World) -> None:
    told: list[str] = []
    inbox = _inbox(told)
    assert inbox["in_thread"].row(n=1).payload == {"n": 1}
    with pytest.raises(Exception, match="does not take 'session'"):
        inbox["in_thread"].row(n=1, session=Session(told))


def test_the_threads_of_two_attempts_have_contexts_of_their_own(world: World) -> None:
    inbox, met, told = Inbox(), threading.Barrier(2), list[str]()
    inbox.carry(tenant=tenant)

    @inbox.handler("meet")
    def meet() -> None:
        met.wait(60)
        told.append(tenant.get())

    with working(world, inbox) as hired:
        for name in ("ada", "bob"):
            token = tenant.set(name)
            meet.enqueue(world.conn)
            tenant.reset(token)
        hired.saw(JobCompleted, 2)
    assert sorted(told) == ["ada", "bob"]
