"""A body of a fenced step that ends its transaction itself: its record would commit apart from its writes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import psycopg
import pytest

from guarantees.flow_shop import Shop
from tenure import Fixed
from tenure.shapes.flow import Flow, Tries
from world import World

pytestmark = pytest.mark.one_server


WAYS = pytest.mark.parametrize(
    ("ends", "left"),
    [
        ("ROLLBACK", []),
        ("COMMIT", ["reserved"]),
        ("COMMIT AND CHAIN", ["reserved"]),
        ("ROLLBACK; BEGIN", []),
        ("close", []),
    ],
)


class Ending:
    """A flow of one fenced step, whose body ends its transaction and then does something else."""

    def __init__(self, world: World, ends: str, then: str, *, plain: bool) -> None:
        self.shop, self.ends, self.then = Shop(world), ends, then
        retry = Tries(3, Fixed(0.1))

        @self.shop.flows.workflow("plain")
        def of_threads(flow: Flow) -> None:
            flow.fenced("reserve", self.reserve, retry=retry)

        @self.shop.flows.workflow("async")
        async def of_the_loop(flow: Flow) -> None:
            await flow.fenced("reserve", self.reserve_on_loop, retry=retry)

        self.workflow: Any = of_threads if plain else of_the_loop

    def reserve(self, tx: Any) -> None:
        self.shop.do("reserve")
        tx.execute(self.shop.insert("reserved"))
        tx.close() if self.ends == "close" else tx.execute(self.ends.encode())
        with self.catching():
            if self.then.startswith("SELECT"):
                tx.execute(self.then.encode())
        self.raises()

    async def reserve_on_loop(self, tx: Any) -> None:
        self.shop.do("reserve")
        await tx.execute(self.shop.insert("reserved"))
        await (tx.close() if self.ends == "close" else tx.execute(self.ends.encode()))
        with self.catching():
            if self.then.startswith("SELECT"):
                await tx.execute(self.then.encode())
        self.raises()

    def catching(self) -> AbstractContextManager[None]:
        """Around what it does then: it may catch what the database says."""
        return suppress(psycopg.Error) if "caught" in self.then else nullcontext()

    def raises(self) -> None:
        if self.then == "raises":
            raise ValueError("no stock")
        if self.then == "exits":
            raise SystemExit(1)
        if self.then == "rolls back":
            raise psycopg.Rollback


@WAYS
@pytest.mark.parametrize("then", ["", "SELECT 1", "raises"])
@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_that_ends_its_transaction_itself_has_failed_at_once(
    world: World, ends: str, left: list[str], then: str, plain: bool
) -> None:
    """Also if it raises after that, or uses the connection that it closed: to try again could write twice."""
    _fails_at_once(world, ends, left, then, plain)


@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_that_exits_after_the_end_of_its_transaction_has_failed_at_once(
    world: World, plain: bool
) -> None:
    _fails_at_once(world, "COMMIT AND CHAIN", ["reserved"], "exits", plain)


@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_that_raises_rollback_has_failed_at_once(world: World, plain: bool) -> None:
    _fails_at_once(world, "SELECT 1", [], "rolls back", plain)


def _fails_at_once(world: World, ends: str, left: list[str], then: str, plain: bool) -> None:
    ending = Ending(world, ends, then, plain=plain)
    with ending.shop.work():
        id = ending.workflow.start(world.conn).id
        ending.shop.ended(id, "failed")
    assert "leave COMMIT and ROLLBACK to the step" in str(world.row(id).last_error)
    assert (ending.shop.did, ending.shop.ours()) == (["reserve"], left)


FAILS = ["SELECT 1 / 0", "SELECT 1 / 0 -- caught"]


@pytest.mark.parametrize("ends", ["COMMIT AND CHAIN", "COMMIT; BEGIN"])
@pytest.mark.parametrize("then", FAILS)
@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_that_commits_and_then_fails_in_the_database_has_failed_at_once(
    world: World, ends: str, then: str, plain: bool
) -> None:
    """The server then answers nothing more in that transaction: it was tried again, and wrote once each time."""
    _fails_at_once(world, ends, ["reserved"], then, plain)


@pytest.mark.parametrize("then", ["raises", *FAILS])
@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_that_raises_in_its_own_transaction_is_tried_again(world: World, then: str, plain: bool) -> None:
    ending = Ending(world, "SELECT 1", then, plain=plain)
    with ending.shop.work():
        id = ending.workflow.start(world.conn).id
        ending.shop.ended(id, "failed")
    assert "leave COMMIT" not in str(world.row(id).last_error)
    assert (ending.shop.did, ending.shop.ours()) == (["reserve"] * 3, [])


@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_that_fails_after_others_that_were_committed_is_tried_again(world: World, plain: bool) -> None:
    """Their marks stay in the session: none of them is this one's."""
    ending = Ending(world, "SELECT 1", "", plain=plain)
    with ending.shop.work():
        for then in ("", "SELECT 1 / 0"):
            ending.then = then
            id = ending.workflow.start(world.conn).id
            ending.shop.ended(id, "failed" if then else "completed")
    assert (ending.shop.did, ending.shop.ours()) == (["reserve"] * 4, ["reserved"])
