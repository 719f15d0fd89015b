"""What an author's function is: async also below a plain decorator; and nothing that was not run is ever completed."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from crew import eventually, working
from guarantees.flow_shop import Shop
from tenure import Inbox
from tenure.errors import BadSettings
from tenure.events import ProjectionStopped
from tenure.model.journal import NewEvent
from tenure.shapes.flow import Flow, Flows, Tries
from tenure.shapes.projection import Journal
from tenure.verbs.journal import append
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """An ordinary decorator: plain, whatever it decorates."""

    @functools.wraps(function)
    def wrapper(*args: Any, **fields: Any) -> Any:
        return function(*args, **fields)

    return wrapper


def unmarked(function: Callable[..., Any]) -> Callable[..., Any]:
    """One that does not say what it decorates."""

    def wrapper(x: int) -> Any:
        return function(x)

    return wrapper


def gen(x: int = 0) -> Iterator[int]:
    yield x


async def agen(x: int = 0) -> AsyncIterator[int]:
    yield x


class Yields:
    def __call__(self, x: int) -> Iterator[int]:
        yield x


def test_a_plain_decorator_around_an_async_handler_leaves_it_async(shop: Shop) -> None:
    @shop.inbox.handler("logged")
    @logged
    @logged
    async def handler(x: int) -> None:
        await asyncio.sleep(0)
        shop.do(x)

    with shop.work():
        shop.ended(handler.enqueue(shop.world.conn, x=1).id)
    assert shop.did == [1]


def test_an_object_with_an_async_call_and_a_partial_of_it_are_async_handlers(shop: Shop) -> None:
    class Called:
        async def __call__(self, x: int) -> None:
            await asyncio.sleep(0)
            shop.do(x)

    one = shop.inbox.handler("object")(Called())
    two = shop.inbox.handler("part")(functools.partial(Called(), x=2))
    with shop.work():
        shop.ended(one.enqueue(shop.world.conn, x=1).id)
        shop.ended(two.enqueue(shop.world.conn).id)
    assert shop.did == [1, 2]


def test_a_decorator_that_runs_its_async_function_itself_says_which_pool(shop: Shop) -> None:
    def run(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **fields: Any) -> Any:
            running = function(*args, **fields)
            try:
                return asyncio.run(running)
            finally:
                running.close()

        return wrapper

    async def body(x: int) -> None:
        shop.do(x)

    one = shop.inbox.handler("one", pool="thread")(run(body))
    two = shop.inbox.handler("two", max_attempts=1)(run(body))
    with shop.work():
        shop.ended(one.enqueue(shop.world.conn, x=1).id)
        id = two.enqueue(shop.world.conn, x=2).id
        eventually(lambda: shop.world.status(id) == "dead_letter")
    assert shop.did == [1]
    assert "pool='thread'" in shop.world.sql("SELECT last_error FROM dead")[0][0]


@pytest.mark.parametrize("function", [unmarked(agen), unmarked(gen)])
def test_a_generator_that_is_returned_is_not_a_completed_row(shop: Shop, function: Callable[..., Any]) -> None:
    _fails(shop, function, "returned a generator")


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_coroutine_that_is_returned_is_not_a_completed_row(shop: Shop, pool: str) -> None:
    async def body(x: int) -> None: ...

    async def forgot(x: int) -> Any:
        return body(x)

    _fails(shop, forgot if pool == "loop" else unmarked(body), "returned a coroutine, which has not run")


def _fails(shop: Shop, function: Callable[..., Any], why: str) -> None:
    handler = shop.inbox.handler("unmarked", max_attempts=1)(function)
    with shop.work():
        id = handler.enqueue(shop.world.conn, x=1).id
        eventually(lambda: shop.world.status(id) in ("completed", "dead_letter"))
    assert shop.world.status(id) == "dead_letter"
    assert why in shop.world.sql("SELECT last_error FROM dead")[0][0]


@pytest.mark.parametrize("function", [gen, agen, Yields(), functools.partial(gen, 1)])
def test_a_generator_is_no_handler_no_workflow_and_no_projection(function: Any) -> None:
    inbox = Inbox()
    with pytest.raises(BadSettings, match="handler 'x' is a generator, of which nothing would run"):
        inbox.handler("x")(function)
    with pytest.raises(BadSettings, match="workflow 'x' is a generator"):
        Flows(inbox).workflow("x")(function)
    with pytest.raises(BadSettings, match="projection 'x' is a generator"):
        Journal(inbox).projection("x")(function)


def test_a_plain_decorator_around_an_async_workflow_leaves_it_async(shop: Shop) -> None:
    @shop.flows.workflow("logged", name="{x}")
    @logged
    async def logged_flow(flow: Flow, x: int) -> None:
        await flow.step("a", logged(shop.ado), x)
        await flow.step("b", shop.ado, x + 1, undo=shop.ado)

    class Called:
        async def __call__(self, flow: Flow, x: int) -> str:
            return str(await flow.step("a", shop.ado, x, x))

    other = shop.flows.workflow("object")(Called())
    with shop.work():
        shop.ended(logged_flow.start(shop.world.conn, x=1).id)
        shop.ended(other.start(shop.world.conn, x=3).id)
    assert shop.did == [1, 2, 3]


def test_a_plain_workflow_that_returns_what_has_not_run_is_not_completed(shop: Shop) -> None:
    @shop.flows.workflow("forgot")
    @unmarked_flow
    async def forgot(flow: Flow) -> None: ...

    with shop.work():
        id = forgot.start(shop.world.conn).id
        eventually(lambda: shop.world.sql("SELECT last_error FROM inbox WHERE id = %s", id)[0][0])
    assert shop.world.status(id) != "completed"


def unmarked_flow(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(flow: Flow) -> Any:
        return function(flow)

    return wrapper


@pytest.mark.parametrize("undo", [False, True])
def test_a_step_or_an_undo_of_a_plain_workflow_that_is_async_has_failed_for_good(shop: Shop, undo: bool) -> None:
    def fails() -> None:
        raise ValueError("no")

    @shop.flows.workflow("plain")
    def plain(flow: Flow) -> None:
        if undo:
            flow.step("a", shop.do, 1, undo=shop.ado)
            flow.step("b", fails, retry=Tries(1))
        flow.step("a", shop.ado, 1)

    with shop.work():
        id = plain.start(shop.world.conn).id
        eventually(lambda: shop.world.status(id) == ("dead_letter" if undo else "failed"))
    assert "returned a coroutine, which has not run" in shop.world.sql("SELECT last_error FROM dead")[0][0]


def test_a_plain_decorator_around_an_async_projection_leaves_it_async(world: World) -> None:
    journal, seen = Journal(Inbox(schema=world.schema)), list[str]()

    @journal.projection("logged")
    @logged
    async def applied(tx: Any, event: Any) -> None:
        await asyncio.sleep(0)
        seen.append(event.type)

    world.run(append("order:1", [NewEvent("order.paid", {})]))
    with working(world, journal.inbox):
        eventually(lambda: seen)
    assert seen == ["order.paid"]


def test_a_projection_that_returns_what_has_not_run_stops_there(world: World) -> None:
    journal = Journal(Inbox(schema=world.schema))

    async def body() -> None: ...

    @journal.projection("forgot")
    def forgot(tx: Any, event: Any) -> Any:
        return body()

    world.run(append("order:1", [NewEvent("order.paid", {})]))
    with working(world, journal.inbox) as worker:
        stopped = worker.saw(ProjectionStopped)
    assert "returned a coroutine" in stopped[0].error
