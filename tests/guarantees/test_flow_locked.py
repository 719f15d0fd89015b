"""A flow whose row somebody keeps locked comes again, and no neighbour whose answer came with its own stands still."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial
from uuid import UUID

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import postgres
from tenure.app.job import Job
from tenure.shapes.flow import Flow, recorder
from tenure.shapes.flow.core import Core
from tenure.shapes.flow.effects import Instance
from tenure.shapes.flow.recorder import _all_done
from tenure.shapes.flow.writing import recording
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


@contextlib.contextmanager
def locked(world: World, id: UUID) -> Iterator[None]:
    """Its row, by somebody in a transaction."""
    with postgres.connect(world.url) as other, other.transaction():
        other.execute(f"SELECT 1 FROM {world.schema}.live WHERE id = %s FOR UPDATE".encode(), [id])
        yield


@pytest.mark.parametrize("plain", [False, True])
def test_a_row_that_is_locked_for_too_long_is_let_go_and_its_neighbours_go_on(
    shop: Shop, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RECORD_SECONDS", 1.0)
    go, over = threading.Event(), threading.Event()

    async def waits() -> None:
        shop.did.append("began")
        while not go.is_set():
            await asyncio.sleep(0.01)

    def plain_waits() -> None:
        shop.did.append("began")
        go.wait(60)

    @shop.flows.workflow("slow")
    async def slow(flow: Flow) -> None:
        await flow.step("one", waits)

    @shop.flows.workflow("plain slow")
    def plain_slow(flow: Flow) -> None:
        flow.step("one", plain_waits)

    @shop.flows.workflow("steps")
    async def steps(flow: Flow) -> None:
        for _ in flow.turns(9000):
            if over.is_set():
                return
            await flow.step("one", shop.ado, "step")

    conn = shop.world.conn
    with shop.work():
        first = (plain_slow if plain else slow).start(conn).id
        eventually(lambda: shop.did)
        with locked(shop.world, first):
            others = [steps.start(conn).id for _ in range(5)]
            go.set()
            eventually(lambda: shop.world.sql("SELECT 1 FROM steps WHERE name = 'one' LIMIT 1"))
            time.sleep(3.0)
        over.set()
        for id in (first, *others):
            shop.ended(id)


def test_what_was_done_is_recorded_when_a_row_was_locked_for_a_few_seconds(shop: Shop) -> None:
    go = threading.Event()

    async def waits() -> None:
        shop.did.append("began")
        while not go.is_set():
            await asyncio.sleep(0.01)

    @shop.flows.workflow("slow")
    async def slow(flow: Flow) -> None:
        await flow.step("one", waits)

    with shop.work():
        id = slow.start(shop.world.conn).id
        eventually(lambda: shop.did)
        with locked(shop.world, id):
            go.set()
            time.sleep(recorder.PATIENCE_SECONDS + 1.0)
        shop.ended(id)
    assert shop.did == ["began"]


def test_one_answer_that_cannot_be_given_keeps_none_of_the_others_back() -> None:
    told, said = list[str](), list[object]()

    def fails(answer: str) -> None:
        raise ValueError(answer)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
        _all_done([(fails, "first"), (told.append, "second")])

    asyncio.run(main())
    assert (told, [str(each) for each in said]) == (["second"], ["first"])


def test_what_is_shown_while_a_record_is_on_its_way_rides_with_the_next(shop: Shop) -> None:
    @shop.flows.workflow("shows")
    async def shows(flow: Flow) -> None:
        await flow.parallel(flow.step("left", shop.ado, "left"), _shown(flow))
        await flow.step("last", shop.ado, "last")

    async def _shown(flow: Flow) -> None:
        for n in range(20):
            flow.show(f"n{n}", n)
            await asyncio.sleep(0)

    with shop.work():
        id = shows.start(shop.world.conn).id
        shop.ended(id)
    state = shows.of(id).state(shop.world.conn)
    assert state.shown == {f"n{n}": n for n in range(20)}


def test_an_empty_show_is_not_handed_over_with_a_record(shop: Shop) -> None:
    """The recorder's thread reads what it has while branches show more."""
    shop.world.enqueue("shows")
    (row,) = shop.world.claim("w", 1)
    core = Core(Instance(row.id, "shows", 1), 0.0)
    sent = partial(recording, Job(row), core, ())
    before = sent()
    core.shown["key"] = "1"
    assert (dict(before.shown), dict(sent().shown), core.shown) == ({}, {"key": "1"}, {})
