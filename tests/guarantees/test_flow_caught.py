"""What ends an attempt cannot be caught by the function, and a function that catches it does not go on."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Fixed
from tenure.shapes.flow import DefinitionDiffers, Flow, FlowCancelled, Tries
from world import World

pytestmark = pytest.mark.one_server
CATCHES = [Exception, BaseException]
AT_ONCE = Tries(3, Fixed(0))


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def _caught(shop: Shop, catch: type[BaseException], *, plain: bool, first: Any = None) -> Any:
    """A workflow that catches what its first call raises, and then does something else."""
    if plain:

        @shop.flows.workflow("caught")
        def caught(flow: Flow) -> None:
            flow.step("before", shop.do, "before", undo=undone)
            try:
                (first or wait)(flow)
            except catch:
                flow.step("instead", shop.do, "instead")
                flow.sleep(60)

        def wait(flow: Flow) -> None:
            flow.wait_for("go")

        def undone(*args: Any) -> None:
            shop.do("undo")

        return caught

    @shop.flows.workflow("caught")
    async def caught_async(flow: Flow) -> None:
        await flow.step("before", shop.ado, "before", undo=undone_async)
        try:
            await (first or wait_async)(flow)
        except catch:
            await flow.step("instead", shop.ado, "instead")
            await flow.sleep(60)

    async def wait_async(flow: Flow) -> None:
        await flow.wait_for("go")

    async def undone_async(*args: Any) -> None:
        shop.do("undo")

    return caught_async


def test_what_stops_a_flow_is_no_exception() -> None:
    assert not issubclass(FlowCancelled, Exception)
    assert not issubclass(DefinitionDiffers, Exception)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("catch", CATCHES)
def test_a_flow_that_catches_its_cancellation_is_cancelled_all_the_same(
    shop: Shop, catch: type[BaseException], plain: bool
) -> None:
    caught = _caught(shop, catch, plain=plain)
    with shop.work():
        sent = caught.start(shop.world.conn)
        shop.asleep(sent.id)
        caught.of(sent.id).cancel(shop.world.conn)
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["before", "undo"]


@pytest.mark.parametrize("catch", CATCHES)
def test_a_flow_that_catches_its_cancellation_and_returns_is_not_completed(
    shop: Shop, catch: type[BaseException]
) -> None:
    @shop.flows.workflow("returns")
    async def returns(flow: Flow) -> None:
        await flow.step("before", shop.ado, "before", undo=undone)
        with contextlib.suppress(catch):
            await flow.wait_for("go")

    async def undone(*args: Any) -> None:
        shop.do("undo")

    with shop.work():
        sent = returns.start(shop.world.conn)
        shop.asleep(sent.id)
        returns.of(sent.id).cancel(shop.world.conn)
        shop.ended(sent.id, "cancelled")
    assert shop.did == ["before", "undo"]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize("catch", CATCHES)
def test_a_changed_definition_that_is_caught_runs_nothing(
    shop: Shop, catch: type[BaseException], plain: bool, swallow: bool
) -> None:
    names = ["quote"]

    def called(flow: Flow) -> Any:
        if plain:
            flow.step(names[0], shop.do, names[0])
            flow.wait_for("go")
            return None

        async def call() -> None:
            with contextlib.suppress(*([catch] if swallow else [])):
                await flow.step(names[0], shop.ado, names[0])
            await flow.wait_for("go")

        return call()

    caught = _caught(shop, catch, plain=plain, first=called)
    with shop.work():
        sent = caught.start(shop.world.conn)
        shop.asleep(sent.id)
        names[0] = "renamed"
        caught.of(sent.id).signal(shop.world.conn, "go")
        eventually(lambda: "definition differs" in (shop.world.row(sent.id).last_error or ""))
        names[0] = "quote"
        shop.ended(sent.id, forward=True)
    assert shop.did == ["before", "quote"]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("catch", CATCHES)
def test_a_lost_connection_in_a_fenced_step_that_is_caught_runs_nothing_else(
    shop: Shop, catch: type[BaseException], plain: bool
) -> None:
    lost = list[int]()

    def fenced(tx: Any) -> None:
        tx.execute(shop.insert("fenced"))
        if not lost:
            lost.append(1)
            shop.world.connect().execute("SELECT pg_terminate_backend(%s)", [tx.info.backend_pid])

    async def fenced_async(tx: Any) -> None:
        await tx.execute(shop.insert("fenced"))
        if not lost:
            lost.append(1)
            shop.world.connect().execute("SELECT pg_terminate_backend(%s)", [tx.info.backend_pid])

    first = lambda flow: flow.fenced("fenced", fenced if plain else fenced_async)  # noqa: E731
    caught = _caught(shop, catch, plain=plain, first=first)
    with shop.work():
        sent = caught.start(shop.world.conn)
        shop.ended(sent.id, forward=True)
    assert shop.did == ["before"]
    assert shop.ours() == ["fenced"]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("catch", CATCHES)
def test_a_flow_that_catches_that_it_sleeps_or_begins_anew_does_so(
    shop: Shop, catch: type[BaseException], plain: bool
) -> None:
    def sleeps(flow: Flow) -> Any:
        if flow.run == 1:
            flow.anew()
        return flow.sleep(60)

    caught = _caught(shop, catch, plain=plain, first=sleeps)
    with shop.work():
        sent = caught.start(shop.world.conn)
        shop.asleep(sent.id)
        shop.forward()
        shop.ended(sent.id)
    assert shop.did == ["before", "before"]


@pytest.mark.parametrize("plain", [False, True])
def test_a_branch_that_differs_stops_the_others_that_wait(shop: Shop, plain: bool) -> None:
    names = ["one"]

    @shop.flows.workflow("branches")
    async def branches(flow: Flow) -> None:
        async def waits() -> None:
            await flow.wait_for("never")

        async def steps() -> None:
            await flow.step(names[0], shop.ado, names[0])
            await flow.wait_for("go")

        await flow.parallel(waits(), steps())

    @shop.flows.workflow("plain branches")
    def plain_branches(flow: Flow) -> None:
        def steps() -> None:
            flow.step(names[0], shop.do, names[0])
            flow.wait_for("go")

        flow.parallel(partial(flow.wait_for, "never"), steps)

    workflow = plain_branches if plain else branches
    with shop.work():
        sent = workflow.start(shop.world.conn)
        shop.asleep(sent.id, 2)
        names[0] = "renamed"
        workflow.of(sent.id).signal(shop.world.conn, "go")
        eventually(lambda: "definition differs" in (shop.world.row(sent.id).last_error or ""))
    assert shop.did == ["one"]


def test_a_flow_that_is_cancelled_in_one_branch_does_not_sleep_in_another(shop: Shop) -> None:
    @shop.flows.workflow("halves")
    async def halves(flow: Flow) -> None:
        async def waits() -> None:
            await flow.wait_for("never")

        async def works() -> None:
            await flow.step("asks", asks, undo=undone)
            await flow.step("after", shop.ado, "after")

        await flow.parallel(waits(), works())

    async def asks() -> None:
        halves.of(sent[0].id).cancel(shop.world.connect())

    async def undone(result: Any) -> None:
        shop.do("undo")

    sent: list[Any] = []
    with shop.work():
        with shop.world.conn.transaction():
            sent.append(halves.start(shop.world.conn))
        shop.ended(sent[0].id, "cancelled")
    assert shop.did == ["undo"]


# -- a holder whose lease is over


@pytest.mark.parametrize("plain", [False, True])
def test_a_step_in_doubt_is_not_run_by_who_has_lost_its_row(shop: Shop, plain: bool) -> None:
    """Another worker may have undone it by then: whoever runs it again says so first, under its lease."""
    began = list[int]()

    def look(flow: Flow) -> None:
        if len(began) == 1:
            shop.taken_over(flow.id)

    def run(what: str) -> None:
        began.append(1)
        if len(began) == 1:
            raise KeyboardInterrupt  # its process dies

    async def run_async(what: str) -> None:
        run(what)

    def nothing(*args: Any) -> None: ...

    @shop.flows.workflow("doubt")
    async def doubt(flow: Flow) -> None:
        look(flow)
        await flow.step("charge", run_async, "charge", undo=nothing)

    @shop.flows.workflow("plain doubt")
    def plain_doubt(flow: Flow) -> None:
        look(flow)
        flow.step("charge", run, "charge", undo=nothing)

    with shop.work() as hired:
        sent = (plain_doubt if plain else doubt).start(shop.world.conn)
        eventually(lambda: shop.recorded("charge", "begun"))
        shop.world.due()
        eventually(lambda: shop.world.row(sent.id).lease_generation == 3)
        hired.stop()
    assert len(began) == 1


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("undo", [False, True])
def test_a_step_whose_row_was_lost_while_it_ran_is_not_tried_again(shop: Shop, plain: bool, undo: bool) -> None:
    ran = list[int]()
    after = list[int]()

    def run(flow: Flow) -> None:
        ran.append(1)
        shop.taken_over(flow.id)

    async def run_async(flow: Flow) -> None:
        run(flow)

    def nothing(*args: Any) -> None: ...

    given: dict[str, Any] = {"retry": AT_ONCE, **({"undo": nothing} if undo else {})}

    @shop.flows.workflow("lost")
    async def lost(flow: Flow) -> None:
        try:
            await flow.step("charge", run_async, flow, **given)
        except Exception:
            after.append(1)
            raise

    @shop.flows.workflow("plain lost")
    def plain_lost(flow: Flow) -> None:
        try:
            flow.step("charge", run, flow, **given)
        except Exception:
            after.append(1)
            raise

    with shop.work() as hired:
        (plain_lost if plain else lost).start(shop.world.conn)
        eventually(lambda: ran)
        hired.stop()
    assert (ran, after) == ([1], [])


@pytest.mark.parametrize("plain", [False, True])
def test_a_step_of_who_knows_that_its_lease_is_over_is_not_begun(shop: Shop, plain: bool) -> None:
    def lose() -> None:
        for attempt in hired.worker.held.leased():
            attempt.lose("presence_lost")

    @shop.flows.workflow("over")
    async def over(flow: Flow) -> None:
        lose()
        await flow.step("charge", shop.ado, "charge")

    @shop.flows.workflow("plain over")
    def plain_over(flow: Flow) -> None:
        lose()
        flow.step("charge", shop.do, "charge")

    with shop.work() as hired:
        sent = (plain_over if plain else over).start(shop.world.conn)
        eventually(lambda: shop.world.sql("SELECT 1 FROM live WHERE id = %s AND lease_generation > 1", sent.id))
        hired.stop()
    assert shop.did == []


# -- sys.exit


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_a_step_that_exits_has_failed_and_is_tried_as_often_as_it_may(shop: Shop, seconds: float | None) -> None:
    tried = list[int]()

    @shop.flows.workflow("exiting")
    async def exiting(flow: Flow) -> None:
        await flow.parallel(flow.step("exits", exits, retry=Tries(2, Fixed(0)), timeout_seconds=seconds))

    async def exits() -> None:
        tried.append(1)
        await asyncio.sleep(0)
        raise SystemExit(3)

    with shop.work():
        sent = exiting.start(shop.world.conn)
        shop.ended(sent.id, "failed")
    assert len(tried) == 2
    assert "step 'exits' failed: SystemExit: 3" in (shop.world.row(sent.id).last_error or "")
