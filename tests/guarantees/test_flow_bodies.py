"""What bodies of steps and undos may do: what they raise, return and ask for is judged as theirs, and said plainly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Completed, DeadLetter, Fail, Fixed, InvalidPayload, Release, Retry, Snooze
from tenure.errors import BadSettings
from tenure.shapes.flow import Flow, Tries
from tenure.shapes.flow.step_values import DECODERS, decoder_of
from world import World

pytestmark = pytest.mark.one_server
AT_ONCE = Tries(3, Fixed(0))


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


# -- a body that raises CancelledError itself


async def _awaits_what_was_cancelled(*given: Any) -> None:
    asleep = asyncio.create_task(asyncio.sleep(60))
    asleep.cancel()
    await asleep


def _one_step(shop: Shop, how: str, body: Any, undo: Any) -> Any:
    if how == "plain":

        @shop.flows.workflow("one")
        def one(flow: Flow) -> None:
            flow.step("hold", shop.do, "hold", undo=undo)
            flow.step("charge", body, retry=AT_ONCE, undo=undo)

        return one

    @shop.flows.workflow("one")
    async def one_async(flow: Flow) -> None:
        await flow.step("hold", shop.ado, "hold", undo=undo)
        call = flow.fenced if how == "fenced" else flow.step
        terms = {"timeout_seconds": 30.0} if how == "timed" else {}
        await call("charge", body, retry=AT_ONCE, undo=undo, **terms)

    return one_async


@pytest.mark.parametrize("how", ["async", "timed", "fenced", "plain"])
def test_a_body_that_raises_cancelled_error_itself_is_tried_again_up_to_its_retry_and_fails(
    shop: Shop, how: str
) -> None:
    def body(*given: Any) -> Any:
        shop.do("charge")
        made = _awaits_what_was_cancelled()
        return asyncio.run(made) if how == "plain" else made

    def undo(*given: Any) -> None:
        shop.do("undo")

    one = _one_step(shop, how, body, undo)
    with shop.work():
        sent = one.start(shop.world.conn)
        shop.ended(sent.id, "failed")
    undone = ["undo"] if how == "fenced" else ["undo", "undo"]  # a fenced one was rolled back
    assert shop.did == ["hold", "charge", "charge", "charge", *undone]
    assert "step 'charge' failed: CancelledError" in (shop.world.row(sent.id).last_error or "")


@pytest.mark.parametrize("plain", [False, True])
def test_an_undo_that_raises_cancelled_error_itself_has_so_many_tries_and_leaves_a_dead_letter(
    shop: Shop, plain: bool
) -> None:
    def body() -> Any:
        raise RuntimeError("no")

    def undo(*given: Any) -> Any:
        shop.do("undo")
        made = _awaits_what_was_cancelled()
        return asyncio.run(made) if plain else made

    one = _one_step(shop, "plain" if plain else "async", body, undo)
    with shop.work():
        sent = one.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter")
    assert shop.did == ["hold", "undo", "undo", "undo"]
    assert "left to undo: charge, hold" in (shop.world.row(sent.id).last_error or "")


def test_a_step_that_the_function_itself_gives_up_is_not_its_failure(shop: Shop) -> None:
    @shop.flows.workflow("gives-up")
    async def gives_up(flow: Flow) -> None:
        try:
            async with asyncio.timeout(0.2):
                await flow.step("long", asyncio.sleep, 60, retry=AT_ONCE)
        except TimeoutError:
            shop.do("gave up")

    with shop.work():
        sent = gives_up.start(shop.world.conn)
        shop.ended(sent.id)
    assert shop.did == ["gave up"]
    assert shop.names() == []


def test_a_function_that_raises_cancelled_error_itself_can_be_cancelled_and_undoes(shop: Shop) -> None:
    @shop.flows.workflow("broken")
    async def broken(flow: Flow) -> None:
        await flow.step("hold", shop.ado, "hold", undo=undo)
        await _awaits_what_was_cancelled()

    async def undo(*given: Any) -> None:
        shop.do("undo")

    with shop.work():
        sent = broken.start(shop.world.conn)
        eventually(lambda: "CancelledError" in (shop.world.row(sent.id).last_error or ""))
        broken.of(sent.id).cancel(shop.world.conn)
        shop.ended(sent.id, "cancelled", forward=True)
    assert shop.did == ["hold", "undo"]


# -- a result that cannot be read back


def _typed(shop: Shop, how: str, value: Any, undo: Any) -> Any:
    def body(*given: Any) -> dict[str, int]:
        shop.do("charge")
        answer: dict[str, int] = value
        return answer

    return _one_step(shop, how, body, undo)


@pytest.mark.parametrize("how", ["async", "fenced", "plain"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "what it returned is not what its function says that it returns: Expected `object`, got `null`"),
        ({"n": object()}, "what it returned cannot be recorded (result of type dict is not JSON"),
        ({"n": float("nan")}, "what it returned cannot be recorded (result"),
    ],
)
def test_a_result_that_cannot_be_read_back_is_a_failure_of_its_step_at_once(
    shop: Shop, how: str, value: Any, said: str
) -> None:
    one = _typed(shop, how, value, lambda *_: shop.do("undo"))
    with shop.work():
        sent = one.start(shop.world.conn)
        shop.ended(sent.id, "failed")
    undone = ["undo"] if how == "fenced" else ["undo", "undo"]
    assert shop.did == ["hold", "charge", *undone]
    error = shop.world.row(sent.id).last_error or ""
    assert f"step 'charge' failed: {said}" in error
    assert "payload" not in error
    assert "definition differs" not in error


def test_what_an_undo_returns_is_not_read(shop: Shop) -> None:
    async def undo(*given: Any) -> dict[str, int]:
        answer: Any = shop.do("undo")
        return answer  # type: ignore[no-any-return]

    async def fails() -> Any:
        return Fail("no")

    one = _one_step(shop, "async", fails, undo)
    with shop.work():
        sent = one.start(shop.world.conn)
        shop.ended(sent.id, "failed")
    assert shop.did == ["hold", "undo", "undo"]


@pytest.mark.parametrize("late", [False, True])
def test_a_flow_that_differs_says_that_it_is_to_be_cancelled(shop: Shop, late: bool) -> None:
    def body(*given: Any) -> Any:
        return None

    @shop.flows.workflow("typed", deadline_seconds=3 if late else None)
    async def typed(flow: Flow) -> None:
        await flow.step("charge", body, undo=lambda *_: shop.do("undo"))
        await flow.wait_for("go")

    def says(what: str) -> bool:
        shop.world.due()
        return what in (shop.world.row(sent.id).last_error or "")

    with shop.work():
        sent = typed.start(shop.world.conn)
        shop.asleep(sent.id)
        body.__annotations__["return"] = dict[str, int]
        DECODERS.clear()
        eventually(lambda: says("definition differs"))
        if not late:
            typed.of(sent.id).cancel(shop.world.conn, "changed my mind")
        reason = "its deadline has passed" if late else "changed my mind"
        eventually(lambda: says(f"it is to be cancelled ({reason})"))
        body.__annotations__["return"] = Any
        DECODERS.clear()
        shop.ended(sent.id, "cancelled", forward=True)
    assert shop.did == ["undo"]


# -- a body that asks its flow for something


ASKS: dict[str, Any] = {
    "sleep": lambda flow: flow.sleep(5),
    "short sleep": lambda flow: flow.sleep(0.1),
    "sleep_until": lambda flow: flow.sleep_until(datetime.now(UTC)),
    "wait_for": lambda flow: flow.wait_for("go"),
    "step": lambda flow: flow.step("inner", print),
    "fenced": lambda flow: flow.fenced("inner", print),
    "parallel": lambda flow: flow.parallel(print),
    "patched": lambda flow: flow.patched("new"),
    "anew": lambda flow: flow.anew(),
}


@pytest.mark.parametrize(
    ("where", "asks"),
    [*(("step", each) for each in ASKS), ("fenced", "step"), ("undo", "sleep"), ("plain", "sleep"), ("plain", "step")],
)
def test_a_body_that_asks_its_flow_for_something_fails_at_once_and_says_so(shop: Shop, where: str, asks: str) -> None:
    flows = list[Flow]()

    def body(*given: Any) -> Any:
        shop.do("body")
        return ASKS[asks](flows[-1])

    async def fails(*given: Any) -> Any:
        return Fail("no")

    if where == "plain":

        @shop.flows.workflow("asks")
        def asking(flow: Flow) -> None:
            flows.append(flow)
            flow.step("outer", body)
    else:

        @shop.flows.workflow("asks")
        async def asking(flow: Flow) -> None:
            flows.append(flow)
            call = flow.fenced if where == "fenced" else flow.step
            await (flow.step("outer", fails, undo=body) if where == "undo" else call("outer", body))

    with shop.work():
        sent = asking.start(shop.world.conn)
        shop.ended(sent.id, "dead_letter" if where == "undo" else "failed")
    assert shop.did == ["body"]
    assert "was asked for in the body of a step or an undo" in (shop.world.row(sent.id).last_error or "")


@pytest.mark.parametrize("what", ["uuid", "random"])
def test_a_body_draws_nothing_of_its_flow_for_the_next_attempt_would_draw_otherwise(shop: Shop, what: str) -> None:
    @shop.flows.workflow("draws")
    async def draws(flow: Flow) -> None:
        async def body() -> str:
            return str(getattr(flow, what)())

        await flow.step("body", body)

    with shop.work():
        id = draws.start(shop.world.conn).id
        shop.ended(id, "failed")
    assert f"flow.{what}" in (shop.world.row(id).last_error or "")


def test_a_plain_function_that_promises_an_awaitable_promises_what_it_yields() -> None:
    def later() -> Awaitable[int]:
        raise NotImplementedError

    def coroutine() -> Coroutine[Any, Any, list[str]]:
        raise NotImplementedError

    assert (decoder_of(later).type, decoder_of(coroutine).type) == (int, list[str])


@pytest.mark.parametrize("outcome", [Retry("later"), DeadLetter("no such card"), Snooze(5), Release(), Completed()])
def test_a_body_that_returns_what_ends_a_job_has_failed_and_is_not_taken_for_a_result(
    shop: Shop, outcome: object
) -> None:
    @shop.flows.workflow("wrong")
    async def wrong(flow: Flow) -> None:
        await flow.step("charge", shop.ado, "charge", outcome)
        await flow.step("ship", shop.ado, "ship")

    with shop.work():
        id = wrong.start(shop.world.conn).id
        shop.ended(id, "failed")
    assert f"it returned {type(outcome).__name__}" in str(shop.world.row(id).last_error)
    assert shop.did == ["charge"]


@pytest.mark.parametrize("key", [5, "", "a\0b", "\ud800"])
def test_a_key_that_cannot_be_shown_is_refused_at_once(shop: Shop, key: Any) -> None:
    @shop.flows.workflow("shows")
    async def shows(flow: Flow) -> None:
        with pytest.raises(InvalidPayload, match="key"):
            flow.show(key, 1)
        await flow.step("step", shop.ado, "step")

    with shop.work():
        shop.ended(shows.start(shop.world.conn).id)
    with pytest.raises(BadSettings, match="must be text"):
        shows.of("x").cancel(shop.world.conn, 5)  # type: ignore[arg-type]
