"""What is done to one projection, shard or event is done to no other: each act beside a neighbour it must not touch."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from crew import working
from tenure.app.inbox import Inbox
from tenure.errors import StaleLease
from tenure.events import ProjectionStopped, StaleWriteBlocked
from tenure.model.journal import Event, NewEvent
from tenure.model.rows import Claimed, Lane
from tenure.shapes.projection import Journal
from tenure.verbs.journal import append
from tenure.verbs.projections import (
    advance,
    forget_projection,
    pause_projection,
    plan_projection,
    reapplied,
    reapply,
    resume_projection,
    skip_event,
    skip_stopped,
    stop_shard,
    was_skipped,
)
from world import World


@pytest.fixture
def held(world: World) -> list[Claimed]:
    """Two projections of two shards, each row held: those of p first, by shard."""
    for name in "pq":
        world.run(plan_projection(name, shards=2, like=None))
    rows = {job.id: job for job in world.claim("A", 4, lanes=[Lane("projection:p"), Lane("projection:q")])}
    return [rows[row_id] for (row_id,) in world.sql("SELECT row_id FROM checkpoints ORDER BY projection, shard")]


def events(world: World, n: int) -> list[int]:
    """So many new events; their positions."""
    return [world.run(append(f"order:{each}", [NewEvent("order.paid")])).position for each in range(n)]


def stopped(world: World) -> list[tuple[str, int]]:
    return world.sql("SELECT projection, shard FROM checkpoints WHERE state = 'stopped' ORDER BY 1, 2")


def test_progress_of_one_shard_sets_back_no_attempts_of_another(world: World, held: list[Claimed]) -> None:
    world.sql("UPDATE live SET attempts = 7")
    world.run(advance("p", 1, 0, 5, held[1]))
    assert [world.row(job.id).attempts for job in held] == [7, 1, 7, 7]
    assert world.sql("SELECT projection, shard FROM checkpoints WHERE position > 0") == [("p", 1)]


def test_a_shard_stops_alone(world: World, held: list[Claimed]) -> None:
    assert world.run(stop_shard("p", 1, 0, 3, "boom", held[1]))
    assert stopped(world) == [("p", 1)]
    assert not world.run(stop_shard("p", 0, 2, 3, "boom", held[0])), "it is not there any more"
    assert stopped(world) == [("p", 1)]


def test_only_who_holds_the_row_now_stops_its_shard(world: World, held: list[Claimed]) -> None:
    mine = held[0]
    for another in (mine._replace(generation=mine.generation + 1), mine._replace(fence=mine.fence + 1)):
        assert not world.run(stop_shard("p", 0, 0, 3, "boom", another))
    world.expire(mine.lease)
    assert not world.run(stop_shard("p", 0, 0, 3, "boom", mine))
    assert stopped(world) == []


def test_a_row_given_back_moves_and_stops_nothing_though_others_of_its_claim_are_held(
    world: World, held: list[Claimed]
) -> None:
    """All rows of one claim have the same fence, and these the same generation."""
    mine = held[0]
    assert {(job.fence, job.generation) for job in held} == {(mine.fence, mine.generation)}
    world.release(mine.lease)
    assert not world.run(stop_shard("p", 0, 0, 3, "boom", mine))
    with pytest.raises(StaleLease):
        world.run(advance("p", 0, 0, 5, mine))
    assert world.sql("SELECT DISTINCT position, state FROM checkpoints") == [(0, "running")]


def test_a_lease_that_ends_within_a_long_transaction_stops_nothing(world: World, held: list[Claimed]) -> None:
    late = world.connect()
    with late.transaction():
        late.execute("SELECT now()")
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp()")
        assert not world.run(stop_shard("p", 0, 0, 3, "boom", held[0]), late)


def test_when_it_stopped_went_on_or_was_skipped_is_the_moment_of_that(world: World, held: list[Claimed]) -> None:
    (poison,) = events(world, 1)

    def moment() -> object:
        return world.sql("SELECT clock_timestamp()")[0][0]

    with world.conn.transaction():
        begun = moment()
        assert world.run(stop_shard("p", 0, 0, poison, "boom", held[0]))
        assert world.sql("SELECT updated_at > %s FROM checkpoints WHERE state = 'stopped'", begun) == [(True,)]
        begun = moment()
        assert world.run(skip_stopped("p")) == 1
        assert world.sql("SELECT projection, shard FROM checkpoints WHERE updated_at > %s", begun) == [("p", 0)]
        begun = moment()
        assert world.run(skip_event("p", 0, poison, "again")) == 1
        assert world.sql("SELECT error FROM skipped WHERE skipped_at > %s", begun) == [("again",)]


def test_an_event_is_skipped_by_its_position(world: World, held: list[Claimed]) -> None:
    _, second, _ = events(world, 3)
    assert world.run(skip_event("p", 0, second, "boom")) == 1
    assert world.sql("SELECT projection, position, stream FROM skipped") == [("p", second, "order:1")]
    assert world.run(skip_event("p", 0, second + 100, "boom")) == 0, "it was forgotten"


def test_where_one_shard_has_stopped_that_one_is_skipped(world: World, held: list[Claimed]) -> None:
    first, second, third = events(world, 3)
    world.run(advance("p", 0, 0, first, held[0]))
    assert world.run(stop_shard("p", 1, 0, second, "of p", held[1]))
    assert world.run(stop_shard("q", 1, 0, third, "of q", held[3]))
    assert world.run(skip_stopped("p")) == 1
    assert stopped(world) == [("q", 1)]
    assert world.sql("SELECT projection, shard, position FROM checkpoints ORDER BY 1, 2") == [
        ("p", 0, first), ("p", 1, second), ("q", 0, 0), ("q", 1, 0),
    ]  # fmt: skip
    assert world.sql("SELECT projection, position, shard, error FROM skipped") == [("p", second, 1, "of p")]


def test_each_skipped_event_keeps_its_own_reason(world: World, held: list[Claimed]) -> None:
    at = events(world, 4)
    for n, job in enumerate(held):
        assert world.run(stop_shard("pq"[n // 2], n % 2, 0, at[n], f"reason {n}", job))
    assert (world.run(skip_stopped("p")), world.run(skip_stopped("q"))) == (2, 2)
    reasons = world.sql("SELECT position, error FROM skipped ORDER BY position")
    assert reasons == [(at[n], f"reason {n}") for n in range(4)]


def test_an_event_that_was_skipped_before_is_skipped_again(world: World, held: list[Claimed]) -> None:
    """As when a shard was set back: the list has it already."""
    (poison,) = events(world, 1)
    world.run(skip_event("p", 0, poison, "first"))
    world.run(stop_shard("p", 0, 0, poison, "second", held[0]))
    assert world.run(skip_stopped("p")) == 1
    assert world.sql("SELECT position, error FROM skipped") == [(poison, "first")]


def test_skipped_events_are_asked_for_and_taken_off_the_list_one_by_one(world: World, held: list[Claimed]) -> None:
    first, second = events(world, 2)
    for name in "pq":
        for position in (first, second):
            world.run(skip_event(name, 0, position, "boom"))
    again = "SELECT projection, position FROM skipped WHERE again ORDER BY 1, 2"
    assert world.run(reapply("p", second)) == 1
    assert world.sql(again) == [("p", second)]
    with pytest.raises(StaleLease, match="already_applied"):
        world.run(reapplied("p", 0, first, held[0]))
    assert world.run(reapply("p")) == 2
    assert world.run(reapply("q")) == 2
    world.run(reapplied("p", 0, first, held[0]))
    assert world.sql(again) == [("p", second), ("q", first), ("q", second)]


def test_a_holder_that_was_taken_over_while_an_event_failed_again_notes_nothing(world: World) -> None:
    """Whoever has taken over has applied it meanwhile: noted anew, it would be applied twice."""
    journal, asked = Journal(Inbox(schema=world.schema)), threading.Event()

    @journal.projection("p", on_error="skip")
    def apply(_tx: psycopg.Connection[Any], _event: Event) -> None:
        if asked.is_set():
            with world.connect() as other:
                other.execute("UPDATE live SET lease_generation = lease_generation + 1, fence_token = fence_token + 1")
                other.execute("DELETE FROM skipped")
        raise ValueError("boom")

    with working(world, journal.inbox) as hired:
        events(world, 1)
        hired.saw(ProjectionStopped)
        asked.set()
        assert world.run(reapply("p")) == 1
        hired.saw(StaleWriteBlocked)
    assert world.count("skipped") == 0


def test_what_a_rebuild_has_skipped_is_kept_apart_from_what_its_shards_have(world: World, held: list[Claimed]) -> None:
    """The old tables and the new ones: an event can be missing in either, and is applied to each by itself."""
    (poison,) = events(world, 1)
    for shard in (0, -1):
        assert world.run(skip_event("p", shard, poison, f"of {shard}")) == 1
    assert world.sql("SELECT shard, error FROM skipped ORDER BY shard") == [(-1, "of -1"), (0, "of 0")]
    assert world.run(reapply("p")) == 1, "one event"
    world.run(reapplied("p", 0, poison, held[0]))
    assert world.sql("SELECT shard, again FROM skipped") == [(-1, True)]


def test_an_event_was_skipped_by_the_projection_that_has_skipped_it(world: World, held: list[Claimed]) -> None:
    first, second = events(world, 2)
    world.run(skip_event("p", 0, first, "boom"))
    asked = [world.run(was_skipped(name, at)) for name, at in (("p", first), ("p", second), ("q", first))]
    assert asked == [True, False, False]


def test_one_projection_is_paused_and_resumed(world: World, held: list[Claimed]) -> None:
    paused = "SELECT projection FROM projections WHERE paused ORDER BY 1"
    assert world.run(pause_projection("p"))
    assert world.sql(paused) == [("p",)]
    assert world.run(pause_projection("q"))
    for shard in (0, 1):
        world.run(stop_shard("p", shard, 0, 3, "boom", held[shard]))
        world.run(stop_shard("q", shard, 0, 3, "boom", held[2 + shard]))
    assert world.run(resume_projection("p"))
    assert world.sql(paused) == [("q",)]
    assert stopped(world) == [("q", 0), ("q", 1)]
    assert not world.run(resume_projection("nobody"))


def test_a_plan_makes_the_rows_that_are_missing_and_no_others(world: World) -> None:
    for name in "pq":
        assert world.run(plan_projection(name, shards=2, like=None)) == 2
    world.enqueue()
    rows = "SELECT row_id FROM checkpoints ORDER BY projection, shard"
    before = [row[0] for row in world.sql(rows)]
    assert len(set(before)) == 4
    assert world.run(plan_projection("p", shards=2, like=None)) == 0
    world.sql("INSERT INTO checkpoints (projection, shard) VALUES ('p', -1)")
    assert world.run(plan_projection("p", shards=2, like=None)) == 0, "a rebuild has a row of its own"
    world.sql("DELETE FROM checkpoints WHERE shard = -1")
    world.sql("DELETE FROM live WHERE id = ANY (%s)", [before[0], before[2]])
    assert world.run(plan_projection("p", shards=2, like=None)) == 1
    after = [row[0] for row in world.sql(rows)]
    assert after[0] not in before
    assert after[1:] == before[1:]
    assert world.sql("SELECT payload FROM live WHERE id = %s", after[0]) == [({"shard": 0},)]


def test_a_shard_that_died_is_not_planned_anew_and_the_others_are(world: World, held: list[Claimed]) -> None:
    world.dead_letter(held[0].lease)
    world.sql("DELETE FROM live WHERE id = %s", held[1].id)
    assert world.run(plan_projection("p", shards=2, like=None)) == 1
    ((first,), (second,)) = world.sql("SELECT row_id FROM checkpoints WHERE projection = 'p' ORDER BY shard")
    assert first == held[0].id
    assert second != held[1].id


def test_a_projection_is_forgotten_and_its_neighbour_is_not(world: World) -> None:
    (poison,) = events(world, 1)
    for name in "pq":
        world.run(plan_projection(name, shards=2, like=None))
        world.run(skip_event(name, 0, poison, "boom"))
    other = world.enqueue()
    job = world.claim_one("A", lanes=[Lane("projection:p")])
    theirs = {row[0] for row in world.sql("SELECT row_id FROM checkpoints WHERE projection = 'q'")}
    assert not world.run(forget_projection("nobody"))
    assert world.count("checkpoints") == 4
    assert world.run(forget_projection("p"))
    assert {row[0] for row in world.sql("SELECT id FROM live")} == theirs | {other, job.id}, "a held one stays"
    for table in ("projections", "checkpoints", "skipped"):
        assert world.sql(f"SELECT DISTINCT projection FROM {table}") == [("q",)]
    assert world.run(forget_projection("q"))
