"""What the list of projections says: how far each is behind what is committed, and what keeps a job from going on."""

from __future__ import annotations

from uuid import UUID

import pytest
from psycopg import Rollback

from crew import eventually, working
from guarantees.facts import user_connection
from tenure.app.inbox import Inbox
from tenure.doctor import shapes
from tenure.model.journal import Event, NewEvent
from tenure.model.rows import Lane
from tenure.postgres import run
from tenure.shapes.projection import Journal
from tenure.verbs import cancel
from tenure.verbs.journal import append
from tenure.verbs.projections import ShardLag, advance, plan_projection, projections
from tenure.verbs.rebuild import ask_rebuild
from world import World


def paid(world: World) -> int:
    return int(world.run(append("order:1", [NewEvent("order.paid")])).position)


def listed(world: World, name: str = "p") -> dict[int, ShardLag]:
    return {each.shard: each for each in world.run(projections()) if each.projection == name}


# -- how far behind


def test_an_event_that_an_open_append_holds_back_is_behind_and_has_an_age(world: World) -> None:
    world.run(plan_projection("p", shards=1, like=None))
    (job,) = world.claim("A", 1, lanes=[Lane("projection:p")])
    read = paid(world)
    world.run(advance("p", 0, 0, read, job))
    assert (listed(world)[0].behind, listed(world)[0].lag_seconds) == (0, 0.0)
    late = user_connection(world)
    run(late, append("order:2", [NewEvent("order.paid")]), world.schema)
    assert listed(world)[0].behind == 0, "it may still be rolled back"
    held = paid(world)
    seen = listed(world)[0]
    assert (seen.behind, seen.lag_seconds > 0) == (held - read, True)
    late.rollback()
    world.run(advance("p", 0, read, held, job))
    assert (listed(world)[0].behind, listed(world)[0].lag_seconds) == (0, 0.0)


def test_a_number_that_was_rolled_back_is_nothing_to_read(world: World) -> None:
    world.run(plan_projection("p", shards=1, like=None))
    assert listed(world)[0].behind == 0
    with world.conn.transaction():
        paid(world)
        raise Rollback
    assert (listed(world)[0].behind, listed(world)[0].lag_seconds) == (0, 0.0)


# -- what keeps it from going on


def fails(world: World, id: UUID, attempts: int = 2) -> None:
    """As after so many attempts without progress, the last of them failed."""
    world.sql("UPDATE live SET attempts = %s, last_error = 'no such table' WHERE id = %s", attempts, id)


def test_a_rebuild_is_listed_from_when_it_is_asked_for_until_its_row_is_gone(world: World) -> None:
    for name in "pq":
        world.run(plan_projection(name, shards=2, like=None))
    assert set(listed(world)) == {0, 1}
    world.sql("INSERT INTO checkpoints (projection, shard, position) VALUES ('q', -1, 7)")
    asked = world.run(ask_rebuild("p"))
    assert set(listed(world)) == {-1, 0, 1}
    seen = listed(world)[-1]
    assert (seen.state, seen.position, seen.error, seen.updated_at) == (
        "no_worker", 0, None, world.row(asked).created_at,
    )  # fmt: skip
    assert [each.position for each in world.run(projections())] == [0, 0, 0, 7, 0, 0]
    world.sql("INSERT INTO checkpoints (projection, shard) VALUES ('p', -1)")
    listed_now = [(each.projection, each.shard, each.state) for each in world.run(projections())]
    assert [each for each in listed_now if each[1] < 0] == [("p", -1, "no_worker"), ("q", -1, "no_row")], "each once"
    assert len(listed_now) == 6
    world.sql("DELETE FROM checkpoints WHERE shard = -1")
    world.sql("DELETE FROM live WHERE id = %s", asked)
    assert set(listed(world)) == {0, 1}


@pytest.mark.parametrize("shard", [-1, 0])
@pytest.mark.parametrize("begun", [False, True])
def test_the_error_of_a_job_that_fails_is_told_until_it_makes_progress(world: World, shard: int, begun: bool) -> None:
    world.run(plan_projection("p", shards=2, like=None))
    rebuild = world.run(ask_rebuild("p"))
    if begun:
        world.sql("INSERT INTO checkpoints (projection, shard) VALUES ('p', -1)")
    mine = rebuild if shard < 0 else world.sql("SELECT row_id FROM checkpoints WHERE shard = %s", shard)[0][0]
    fails(world, mine, 1)
    told = {number: each.error for number, each in listed(world).items()}
    assert told == {-1: None, 0: None, 1: None, shard: "no such table"}
    held = {job.id: job for job in world.claim("A", 9, lanes=[Lane("projection:p")])}
    assert world.row(mine).attempts == 2
    assert listed(world)[shard].error == "no such table", "it is tried again, and has not moved yet"
    if begun or shard >= 0:
        world.run(advance("p", shard, 0, 5, held[mine]))
        assert [each.error for each in world.run(projections())] == [None] * 3


@pytest.mark.parametrize("how", ["dead_letter", "cancelled"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_job_that_has_ended_is_not_called_running(world: World, how: str, begun: bool) -> None:
    world.run(plan_projection("p", shards=1, like=None))
    rebuild = world.run(ask_rebuild("p"))
    if begun:
        world.sql("INSERT INTO checkpoints (projection, shard) VALUES ('p', -1)")
    if how == "cancelled":
        world.run(cancel([rebuild], reason="not today"))
    else:
        jobs = {job.id: job for job in world.claim("A", 9, lanes=[Lane("projection:p")])}
        world.dead_letter(jobs[rebuild].lease, "not today")
    seen = listed(world)
    other = "no_worker" if how == "cancelled" else "running"
    assert (seen[-1].state, seen[-1].error, seen[0].state) == (how, "not today", other)
    found = shapes.projections(list(seen.values()))
    assert (found.level, "the rebuild of p" in found.said, "not today" in found.said) == ("warn", True, True)
    assert "tenure projections rebuild p" in found.next


@pytest.mark.one_server
def test_a_rebuild_that_cannot_begin_says_why(world: World) -> None:
    journal = Journal(Inbox(schema=world.schema))

    @journal.projection(f"t_{world.schema}", tables=["nowhere"])
    def apply(_tx: object, _event: Event) -> None: ...

    with working(world, journal.inbox):
        eventually(lambda: listed(world, f"t_{world.schema}"))
        world.run(ask_rebuild(f"t_{world.schema}"))
        error = eventually(lambda: listed(world, f"t_{world.schema}")[-1].error or "")
    assert "table nowhere of projection" in error
    assert "create it, or mend" in error
    assert "Traceback" not in error, "its line that tells, as in every list"
