"""A failure that a redrive, or the cancel of a dead letter, opens again: if it is not tried again, it is undone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Fail
from tenure.shapes.flow import Flow, StepFailed, Tries
from tenure.verbs import redrive, steps
from tenure.verbs.questions import why
from world import World

pytestmark = pytest.mark.one_server
ONCE = Tries(1)


class Paying(Shop):
    """A shop where payments are declined, and taken back."""

    async def decline(self, name: str) -> None:
        self.do(name)
        raise ValueError("declined")

    async def refund(self, result: Any, name: str) -> None:
        self.do(("refund", name, result))

    def charge(self, flow: Flow, name: str) -> Any:
        return flow.step(name, self.decline, name, undo=self.refund, retry=ONCE)

    def dies(self, id: Any) -> None:
        """Its function fails until the attempts are used up."""
        eventually(lambda: self.world.row(id).status == "pending" and "a bug" in (self.world.row(id).last_error or ""))
        self.world.sql("UPDATE live SET attempts = max_attempts - 1, available_at = now() WHERE id = %s", id)
        self.ended(id, "dead_letter")

    def refunds(self) -> list[Any]:
        return sorted(each for each in self.did if isinstance(each, tuple))


@pytest.fixture
def shop(world: World) -> Paying:
    return Paying(world)


@pytest.mark.parametrize("redriven", [False, True])
def test_a_failure_of_a_branch_that_lost_stays_one_and_is_undone(shop: Paying, redriven: bool) -> None:
    @shop.flows.workflow("racing")
    async def racing(flow: Flow) -> Any:
        async def pay() -> None:
            try:
                await shop.charge(flow, "charge")
            except StepFailed:
                await flow.step("slow", forever)

        await flow.first(pay(), flow.wait_for("abort"))
        if not shop.mended:  # type: ignore[attr-defined]
            raise RuntimeError("a bug")
        return Fail("aborted")

    async def forever() -> None:
        shop.do("slow")
        await asyncio.Event().wait()

    shop.mended = False  # type: ignore[attr-defined]
    with shop.work():
        id = racing.start(shop.world.conn).id
        eventually(lambda: "slow" in shop.did)
        racing.of(id).signal(shop.world.conn, "abort")
        shop.dies(id)
        assert "redrive goes on from its records" in shop.world.run(why(id))
        if redriven:
            shop.mended = True  # type: ignore[attr-defined]
            shop.world.run(redrive([id]))
        else:
            assert shop.world.run(steps.cancel_flow(id))[1] == "asked"
        shop.ended(id, "failed" if redriven else "cancelled", forward=True)
    assert shop.did == ["charge", "slow", ("refund", "charge", None)]


def test_a_failure_that_is_not_come_to_before_another_branch_was_cancelled_is_undone(shop: Paying) -> None:
    @shop.flows.workflow("both")
    async def both(flow: Flow) -> None:
        async def late() -> None:
            while shop.recorded("early", "retrying"):
                await asyncio.sleep(0.01)
            await shop.charge(flow, "late")

        try:
            await flow.parallel(late(), shop.charge(flow, "early"))
        except StepFailed:
            raise RuntimeError("a bug") from None

    with shop.work():
        id = both.start(shop.world.conn).id
        shop.dies(id)
        assert shop.world.run(steps.cancel_flow(id))[1] == "asked"
        shop.ended(id, "cancelled", forward=True)
    assert shop.refunds() == [("refund", "early", None), ("refund", "late", None)]


def test_a_failure_of_a_branch_that_loses_before_it_is_tried_again_is_undone(shop: Paying) -> None:
    waits = list[asyncio.Event]()

    @shop.flows.workflow("losing")
    async def losing(flow: Flow) -> Any:
        async def pay() -> None:
            if waits:
                shop.do("waits")
                await waits.pop().wait()
            try:
                await shop.charge(flow, "charge")
            except StepFailed:
                await flow.wait_for("never")

        await flow.first(pay(), flow.wait_for("abort"))
        return Fail("aborted")

    with shop.work():
        id = losing.start(shop.world.conn).id
        shop.asleep(id, 2)
        shop.world.sql("DELETE FROM steps WHERE name = 'wait:never'")  # as if it had died before it came to that
        shop.world.sql("UPDATE steps SET state = 'retrying', tries = 0, until = now() WHERE name = 'charge'")
        waits.append(asyncio.Event())
        losing.of(id).signal(shop.world.conn, "abort")
        shop.ended(id, "failed", forward=True)
    assert shop.did == ["charge", "waits", ("refund", "charge", None)]
