"""The transaction of a batch is Tenure's: a function that ends it is stopped, its events do not count as applied."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from crew import eventually, working
from guarantees.test_projections import ADD, journal_of, paid, table, totals
from tenure.events import ProjectionStopped
from tenure.model.journal import Event
from tenure.verbs.projections import resume_projection
from world import World

pytestmark = pytest.mark.one_server

ENDED = "EndedTransaction: the function of projection 'totals' ended its transaction"


class Ending:
    """A projection that adds amounts, and at 666 ends its transaction, and may raise after it, until it is mended."""

    def __init__(
        self, world: World, way: str = "plain", end: str = "ROLLBACK", *, raises: bool = False, **how: Any
    ) -> None:
        self.world, self.journal, self.end, self.mended = world, journal_of(world), end, False
        self.raises = raises
        self.into = ADD.replace(b"totals", table(world).encode())
        function: Any = {"plain": self.apply, "async": self.apply_on_loop, "list": self.apply_all}[way]
        self.journal.projection("totals", of=["order.*"], tables=["totals"], **how)(function)

    def apply(self, tx: psycopg.Connection[Any], event: Event) -> None:
        tx.execute(self.into, [event.stream, event.data["amount"]])
        if self.ends(event):
            tx.execute(self.end.encode())
            self.after()

    async def apply_on_loop(self, tx: psycopg.AsyncConnection[Any], event: Event) -> None:
        await tx.execute(self.into, [event.stream, event.data["amount"]])
        if self.ends(event):
            await tx.execute(self.end.encode())
            self.after()

    def apply_all(self, tx: psycopg.Connection[Any], events: list[Event]) -> None:
        for event in events:
            self.apply(tx, event)

    def ends(self, event: Event) -> bool:
        """True if it shall end its transaction now."""
        return event.data["amount"] == 666 and not self.mended

    def after(self) -> None:
        """What it does when its transaction has ended."""
        if self.raises:
            raise ValueError("the beast")

    def mend(self) -> None:
        """Mend it, and let it go on."""
        self.mended = True
        self.world.run(resume_projection("totals"))


@pytest.mark.parametrize("way", ["plain", "async", "list"])
@pytest.mark.parametrize("end", ["COMMIT AND CHAIN", "ROLLBACK; BEGIN"])
@pytest.mark.parametrize("raises", [False, True])
def test_a_function_that_begins_another_transaction_is_stopped_before_its_batch(
    world: World, way: str, end: str, raises: bool
) -> None:
    """Only the end of the batch shows it, or an error: which of its events it was, nobody knows."""
    ending = Ending(world, way, end, raises=raises, on_error="skip")
    at = paid(world, "order:1", 1, 2, 666, 4) - 3
    with working(world, ending.journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.position, stopped.skipped, stopped.error[: len(ENDED)]) == (at, False, ENDED)
        assert world.sql("SELECT position, state FROM checkpoints") == [(at - 1, "stopped")]
        assert totals(world) == ({"order:1": 669} if "COMMIT" in end else {})
        ending.mend()
        eventually(lambda: world.sql("SELECT state FROM checkpoints WHERE position >= %s", at + 3) == [("running",)])
    assert world.count("skipped") == 0


@pytest.mark.parametrize("rule", ["stop", "skip"])
@pytest.mark.parametrize("way", ["plain", "async"])
def test_a_function_that_rolls_back_is_stopped_where_it_did_and_goes_on_when_it_is_mended(
    world: World, way: str, rule: str
) -> None:
    ending = Ending(world, way, on_error=rule)
    at = paid(world, "order:1", 1, 2, 666, 4) - 1
    with working(world, ending.journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.position, stopped.skipped) == (at, False)
        assert stopped.error.startswith(ENDED)
        assert stopped.error.endswith("leave COMMIT and ROLLBACK to Tenure, then `tenure projections resume totals`")
        assert world.sql("SELECT position, state FROM checkpoints") == [(at - 1, "stopped")]
        assert totals(world) == {"order:1": 3}
        ending.mend()
        eventually(lambda: totals(world) == {"order:1": 673})
    assert world.count("skipped") == 0


@pytest.mark.parametrize("way", ["plain", "async"])
def test_a_function_that_commits_is_stopped_and_not_tried_again(world: World, way: str) -> None:
    """What it has committed by itself stays: each further try would write it once more."""
    ending = Ending(world, way, "COMMIT")
    at = paid(world, "order:1", 666, 1, 2) - 2
    with working(world, ending.journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.position, stopped.error[: len(ENDED)]) == (at, ENDED)
        assert world.sql("SELECT position, state FROM checkpoints") == [(0, "stopped")]
        assert totals(world) == {"order:1": 666}


def test_a_function_that_takes_a_list_is_stopped_before_all_of_it(world: World) -> None:
    ending = Ending(world, "list")
    at = paid(world, "order:1", 1, 2, 666) - 2
    with working(world, ending.journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.position, stopped.error[: len(ENDED)]) == (at, ENDED)
        assert world.sql("SELECT position, state FROM checkpoints") == [(0, "stopped")]
        ending.mend()
        eventually(lambda: totals(world) == {"order:1": 669})


def test_an_error_after_the_end_of_its_transaction_is_told_as_that(world: World) -> None:
    ending = Ending(world, "plain", "COMMIT; SELECT 1 / 0")
    paid(world, "order:1", 666)
    with working(world, ending.journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert stopped.error.startswith(ENDED)
        assert totals(world) == {"order:1": 666}


@pytest.mark.parametrize("way", ["plain", "async", "list"])
@pytest.mark.parametrize("end", ["COMMIT AND CHAIN; SELECT 1 / 0", "COMMIT; BEGIN; SELECT 1 / 0"])
@pytest.mark.parametrize("rule", ["stop", "skip"])
def test_a_function_that_commits_and_then_fails_in_the_database_is_stopped_and_writes_once(
    world: World, way: str, end: str, rule: str
) -> None:
    """It was taken for an error of an event: it wrote in each smaller batch, and in each try, until it was skipped."""
    ending = Ending(world, way, end, on_error=rule)
    at = paid(world, "order:1", 1, 2, 666, 4) - 3
    with working(world, ending.journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.position, stopped.skipped, stopped.error[: len(ENDED)]) == (at, False, ENDED)
        assert totals(world) == {"order:1": 669}
        ending.mend()
        eventually(lambda: world.sql("SELECT state FROM checkpoints WHERE position >= %s", at + 3) == [("running",)])
    assert world.count("skipped") == 0


def test_a_poison_event_is_found_far_behind_with_a_batch_of_one(world: World) -> None:
    """While it is far behind it reads 5,000 at once: after an error fewer, whatever its batch is."""
    journal = journal_of(world)
    into = ADD.replace(b"totals", table(world).encode())

    @journal.projection("totals", batch=1)
    def apply(tx: psycopg.Connection[Any], event: Event) -> None:
        if event.data["amount"] == 666:
            raise ValueError("the beast")
        tx.execute(into, [event.stream, event.data["amount"]])

    at = paid(world, "order:1", 1, 2, 666, *[1] * 30) - 30
    with working(world, journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.position, stopped.error) == (at, "ValueError: the beast")
        assert totals(world) == {"order:1": 3}
