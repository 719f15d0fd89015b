"""Whatever writers begin, append, undo and commit in whatever order: a reader of the journal misses no event."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guarantees.facts import user_connection
from slices import slice_of
from tenure.model.journal import NewEvent
from tenure.postgres import run
from tenure.verbs.journal import append, read_after
from world import World

pytestmark = pytest.mark.one_server
WRITERS = 3
STEP = st.tuples(
    st.integers(0, WRITERS - 1),
    st.sampled_from(["append", "append", "savepoint", "undo", "commit", "rollback", "read"]),
)


class Play:
    """Three writers with a stream each, so that none waits for another, and one reader."""

    def __init__(self, world: World, connections: list[psycopg.Connection[Any]]) -> None:
        self.world, self.connections = world, connections
        self.open: list[list[int | str]] = [[] for _ in connections]  # positions, with "savepoint" between them
        self.committed: list[int] = []
        self.seen: list[int] = []
        self.cursor = int(world.sql("SELECT last_position()")[0][0])

    def step(self, n: int, what: str) -> None:
        getattr(self, what)(n)

    def append(self, n: int) -> None:
        made = run(self.connections[n], append(f"order:{n}", [NewEvent("order.paid")]), self.world.schema)
        self.open[n].append(made.position)

    def savepoint(self, n: int) -> None:
        self.connections[n].execute("SAVEPOINT here")
        self.open[n].append("savepoint")

    def undo(self, n: int) -> None:
        if "savepoint" in self.open[n]:
            self.connections[n].execute("ROLLBACK TO SAVEPOINT here")
            self.connections[n].execute("RELEASE SAVEPOINT here")
            while self.open[n].pop() != "savepoint":
                pass

    def commit(self, n: int) -> None:
        self.connections[n].commit()
        self.committed += [each for each in self.open[n] if isinstance(each, int)]
        self.open[n] = []

    def rollback(self, n: int) -> None:
        self.connections[n].rollback()
        self.open[n] = []

    def read(self, _: int = 0) -> None:
        events = self.world.run(read_after(self.cursor))
        self.seen += [event.position for event in events]
        self.cursor = self.seen[-1] if self.seen else self.cursor

    def end(self) -> None:
        for n in range(len(self.connections)):
            self.commit(n)
        self.read()
        assert self.seen == sorted(self.committed)


@settings(max_examples=slice_of(400, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, max_size=30))
def test_a_reader_sees_all_that_was_committed_in_order_and_nothing_twice(
    world: World, steps: list[tuple[int, str]]
) -> None:
    if not hasattr(world, "writers"):
        world.writers = [user_connection(world) for _ in range(WRITERS)]  # type: ignore[attr-defined]
    play = Play(world, world.writers)  # type: ignore[attr-defined]
    for n, what in steps:
        play.step(n, what)
    play.end()
