"""A rebuild at an event that cannot be applied does as its projection does, and says so where the shards do."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from crew import Hired, eventually, working
from tenure.app.inbox import Inbox
from tenure.events import Bus, ProjectionStopped, ProjectionSwapped
from tenure.model.journal import Event, NewEvent
from tenure.shapes.projection import Journal
from tenure.shapes.projection.projection import EndedTransaction
from tenure.shapes.projection.rebuilding import Rebuild
from tenure.shapes.projection.shard import Apply
from tenure.testing.address import with_schema
from tenure.verbs.journal import append
from tenure.verbs.lifecycle import Entered
from tenure.verbs.projections import projections, reapply, resume_projection, skip_stopped
from tenure.verbs.rebuild import ask_rebuild
from world import World

pytestmark = pytest.mark.one_server

ADD = b"INSERT INTO sums AS s VALUES (%s, %s) ON CONFLICT (stream) DO UPDATE SET amount = s.amount + EXCLUDED.amount"
BEAST = "ValueError: the beast"


@pytest.fixture
def place(world: World) -> Iterator[str]:
    """A schema of the user's, with the table in it."""
    name = f"p_{world.schema}"
    world.sql(f"CREATE SCHEMA {name}")
    world.sql(f"CREATE TABLE {name}.sums (stream text PRIMARY KEY, amount int)")
    yield name
    world.sql(f"DROP SCHEMA {name} CASCADE")


class Sums:
    """A projection that cannot apply an amount of 666, until it is mended."""

    def __init__(self, world: World, place: str, on_error: str, way: str = "plain", shards: int = 1) -> None:
        self.world, self.place, self.name, self.mended = world, place, f"sums_{world.schema}", False
        journal = Journal(Inbox(schema=world.schema))
        made = journal.projection(self.name, tables=["sums"], on_error=on_error, shards=shards)
        made(self.apply_on_loop if way == "async" else self.apply)
        self.inbox = journal.inbox

    def apply(self, tx: psycopg.Connection[Any], event: Event) -> None:
        self.check(event)
        tx.execute(ADD, [event.stream, event.data["amount"]])

    async def apply_on_loop(self, tx: psycopg.AsyncConnection[Any], event: Event) -> None:
        self.check(event)
        await tx.execute(ADD, [event.stream, event.data["amount"]])

    def check(self, event: Event) -> None:
        if event.data["amount"] == 666 and not self.mended:
            raise ValueError("the beast")

    def working(self) -> Any:
        return working(self.world, self.inbox, url=with_schema(self.world.url, self.place))

    def totals(self) -> dict[str, int]:
        return dict(self.world.sql(f"SELECT stream, amount FROM {self.place}.sums"))

    def skipped(self) -> list[tuple[int, int, str]]:
        return self.world.sql("SELECT position, shard, error FROM skipped ORDER BY position")

    def spoil(self) -> None:
        """Only tables that were filled anew are without this row."""
        self.world.sql(f"INSERT INTO {self.place}.sums VALUES ('nobody', 1)")

    def rebuilt(self, hired: Hired) -> None:
        self.spoil()
        self.world.run(ask_rebuild(self.name))
        hired.saw(ProjectionSwapped)


def paid(world: World, *amounts: int) -> list[int]:
    return [world.run(append("order:1", [NewEvent("order.paid", {"amount": n})])).position for n in amounts]


@pytest.mark.parametrize("way", ["plain", "async"])
def test_with_skip_a_rebuild_passes_over_the_event_and_tells_it(world: World, place: str, way: str) -> None:
    sums, at = Sums(world, place, "skip", way), paid(world, 1, 2, 666, 4)
    with sums.working() as hired:
        eventually(lambda: sums.totals() == {"order:1": 7})
        sums.rebuilt(hired)
        assert sums.totals() == {"order:1": 7}
        assert [(each.shard, each.position, each.skipped) for each in hired.of(ProjectionStopped)] == [
            (0, at[2], True),
            (-1, at[2], True),
        ]
        assert sums.skipped() == [(at[2], 0, BEAST)]


def test_a_rebuild_passes_over_what_an_operator_has_skipped_and_it_can_be_reapplied(world: World, place: str) -> None:
    sums, at = Sums(world, place, "stop"), paid(world, 1, 2, 666, 4)
    with sums.working() as hired:
        hired.saw(ProjectionStopped)
        world.run(skip_stopped(sums.name))
        eventually(lambda: sums.totals() == {"order:1": 7})
        sums.rebuilt(hired)
        assert sums.totals() == {"order:1": 7}
        assert sums.skipped() == [(at[2], 0, BEAST)]
        sums.mended = True
        world.run(reapply(sums.name))
        eventually(lambda: sums.totals() == {"order:1": 673})
        eventually(lambda: sums.skipped() == [])


def test_a_rebuild_applies_what_was_skipped_if_the_function_was_mended(world: World, place: str) -> None:
    sums, _ = Sums(world, place, "stop"), paid(world, 1, 2, 666, 4)
    with sums.working() as hired:
        hired.saw(ProjectionStopped)
        world.run(skip_stopped(sums.name))
        eventually(lambda: sums.totals() == {"order:1": 7})
        sums.mended = True
        sums.rebuilt(hired)
        assert sums.totals() == {"order:1": 673}
        assert sums.skipped() == []


@pytest.mark.parametrize("act", ["skip", "resume"])
def test_a_rebuild_stops_where_nobody_has_skipped_and_goes_on_by_the_same_acts(
    world: World, place: str, act: str
) -> None:
    """The event came after it was applied by the shards: the function was changed for the worse."""
    sums, at = Sums(world, place, "stop"), paid(world, 1, 2, 666, 4)
    sums.mended = True
    with sums.working() as hired:
        eventually(lambda: sums.totals() == {"order:1": 673})
        sums.mended = False
        sums.spoil()
        world.run(ask_rebuild(sums.name))
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.shard, stopped.position, stopped.error) == (-1, at[2], BEAST)
        seen = world.run(projections())[0]
        assert (seen.shard, seen.state, seen.stopped_at, seen.error) == (-1, "stopped", at[2], BEAST)
        assert sums.totals() == {"order:1": 673, "nobody": 1}, "the old tables serve on"
        if act == "skip":
            world.run(skip_stopped(sums.name))
        else:
            sums.mended = True
            world.run(resume_projection(sums.name))
        hired.saw(ProjectionSwapped)
        assert sums.totals() == {"order:1": 7 if act == "skip" else 673}
        assert sums.skipped() == ([(at[2], 0, BEAST)] if act == "skip" else [])


def test_one_skip_passes_a_shard_and_a_rebuild_that_stand_at_the_same_event(world: World, place: str) -> None:
    """Another shard is past it, so the rebuild cannot end before it."""
    sums, at = Sums(world, place, "stop", shards=2), paid(world, 1, 2, 666, 4)
    ((mine, other),) = world.sql(
        "SELECT bucket('order:1') % 2, min(s) FROM unnest(ARRAY['a', 'b', 'c', 'd', 'e', 'f']) AS s"
        " WHERE bucket(s) % 2 <> bucket('order:1') % 2"
    )
    world.run(append(other, [NewEvent("order.paid", {"amount": 5})]))
    with sums.working() as hired:
        hired.saw(ProjectionStopped)
        eventually(lambda: sums.totals() == {"order:1": 3, other: 5})
        sums.spoil()
        world.run(ask_rebuild(sums.name))
        eventually(lambda: len(world.sql("SELECT shard FROM checkpoints WHERE state = 'stopped'")) == 2)
        world.run(skip_stopped(sums.name))
        hired.saw(ProjectionSwapped)
        eventually(lambda: sums.totals() == {"order:1": 7, other: 5})
        assert sums.skipped() == [(at[2], mine, BEAST)]


class Ending(Sums):
    """One that ends its transaction by itself instead."""

    end = "ROLLBACK"

    def apply(self, tx: psycopg.Connection[Any], event: Event) -> None:
        tx.execute(ADD, [event.stream, event.data["amount"]])
        if event.data["amount"] == 666 and not self.mended:
            tx.execute(self.end.encode())


@pytest.mark.parametrize("end", ["ROLLBACK", "ROLLBACK; BEGIN"])
def test_a_rebuild_stops_where_the_function_ends_its_transaction_also_with_skip(
    world: World, place: str, end: str
) -> None:
    sums, at = Ending(world, place, "skip"), paid(world, 1, 2, 666, 4)
    sums.end = end
    sums.mended = True
    with sums.working() as hired:
        eventually(lambda: sums.totals() == {"order:1": 673})
        sums.mended = False
        sums.spoil()
        world.run(ask_rebuild(sums.name))
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.shard, stopped.position, stopped.skipped) == (-1, at[2], False)
        assert stopped.error.startswith("EndedTransaction: ")
        sums.mended = True
        world.run(resume_projection(sums.name))
        hired.saw(ProjectionSwapped)
        assert sums.totals() == {"order:1": 673}
    assert sums.skipped() == []


@pytest.mark.parametrize("noticed", ["by its call", "at the end"])
def test_a_swap_in_which_the_function_ended_its_transaction_comes_after_the_batch_that_finds_it(noticed: str) -> None:
    """The shards were ahead of what this worker had seen: each further swap could write once more."""
    journal = Journal(Inbox())

    @journal.projection("sums", tables=["sums"])
    def apply(tx: Any, event: Event) -> None:
        """It ends its transaction."""

    job: Any = SimpleNamespace(attempt=1, claimed=SimpleNamespace(id=UUID(int=1), generation=1, fence=1))
    state: Any = SimpleNamespace(like_types=None)
    rebuild = Rebuild(apply, -1, job, Bus(), lambda: 0.0)
    rebuild.written = rebuild.read_to = 7
    swapping = rebuild.between(state, 7)
    body = next(swapping).body  # type: ignore[union-attr]
    asked = [next(body)]
    answers: list[Any] = [9, Entered(1.0, "mark"), [None], None, {}]
    for answer in [*answers, *([None, {}] if noticed == "at the end" else [])]:
        asked.append(body.send(answer))
    assert getattr(asked[-1], "name", "call") == ("call" if noticed == "by its call" else "swap_shadow")
    with pytest.raises(StopIteration):
        swapping.throw(EndedTransaction("sums"))
    assert list(rebuild.between(state, 7)) == [], "it swaps again before a batch has looked at the event"
    rebuild.read_to = 9
    assert isinstance(next(rebuild.between(state, 9)), Apply)
