"""Sagas: whatever step fails or is in doubt, and wherever an attempt dies, the ledger nets to zero."""

from __future__ import annotations

from typing import Any

import pytest

from crew import eventually, working
from guarantees.flow_shop import Crash
from tenure import Inbox
from tenure.shapes.flow import Flow, Flows, Tries, step_key, undone_key
from tenure.verbs import steps
from world import World

pytestmark = pytest.mark.one_server
STEPS = ("reserve", "charge", "ship")


class Ledger:
    """What the outside world has booked: by key, so that a repeated call books once."""

    def __init__(self) -> None:
        self.booked: dict[str, int] = {}
        self.crashes: list[str] = []

    def book(self, name: str, crash: str) -> None:
        self.booked[step_key()] = 1
        self._crash(f"{name} {crash}")

    def undo(self, name: str) -> None:
        self._crash(f"before undo {name}")
        if self.booked.get(undone_key()):
            self.booked[undone_key()] = 0
        self._crash(f"after undo {name}")

    def _crash(self, where: str) -> None:
        if where in self.crashes:
            self.crashes.remove(where)
            raise Crash(where)


def _saga(world: World, ledger: Ledger, fails: str) -> Any:
    inbox = Inbox(schema=world.schema)
    flows = Flows(inbox)

    @flows.workflow("saga")
    async def saga(flow: Flow) -> None:
        for name in STEPS:
            await flow.step(name, do, name, undo=undo, retry=Tries(1))

    async def do(name: str) -> None:
        ledger.book(name, "done")
        if name == fails:
            raise ValueError("declined, perhaps after it took effect")

    async def undo(result: Any, name: str) -> None:
        del result
        ledger.undo(name)

    return inbox, saga


def _nets(world: World, ledger: Ledger, fails: str) -> int:
    """Run it to its end; what is left booked."""
    inbox, saga = _saga(world, ledger, fails)
    with working(world, inbox, poll_seconds=0.1):
        sent = saga.start(world.conn)

        def over() -> bool:
            world.due()
            return world.status(sent.id) in ("failed", "completed", "dead_letter")

        eventually(over, seconds=60)
    assert not ledger.crashes
    return sum(ledger.booked.values())


@pytest.mark.parametrize("fails", STEPS)
def test_a_saga_that_fails_in_any_step_and_dies_in_every_step_and_undo_nets_to_zero(world: World, fails: str) -> None:
    ledger = Ledger()
    done = STEPS[: STEPS.index(fails) + 1]
    ledger.crashes = [f"{name} done" for name in done]
    ledger.crashes += [f"{when} undo {name}" for name in done for when in ("before", "after")]
    assert _nets(world, ledger, fails) == 0
    assert len(ledger.booked) == len(done)


def test_without_begun_a_charge_in_doubt_stays(world: World) -> None:
    """The control: a step is known only once its result is recorded, and the flow is cancelled before that."""

    def nets(begun: bool) -> int:
        ledger = Ledger()
        inbox, saga = _saga(world, ledger, "nothing")
        ledger.crashes = ["charge done"]
        with working(world, inbox, poll_seconds=0.1):
            sent = saga.start(world.conn)
            eventually(lambda: not ledger.crashes, seconds=60)
            if not begun:
                world.sql("DELETE FROM steps WHERE state = 'begun'")
            world.run(steps.cancel_flow(sent.id))

            def over() -> bool:
                world.due()
                return world.status(sent.id) == "cancelled"

            eventually(over, seconds=60)
        return sum(ledger.booked.values())

    assert nets(begun=True) == 0
    assert nets(begun=False) == 1
