"""The rows of projections: what is told where nobody can run them, and how a resume brings them back."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result

from crew import eventually, working
from guarantees.test_projection_queues import position, service
from tenure.cli import tenure
from tenure.doctor import shapes
from tenure.doctor.finding import Finding
from tenure.model.journal import NewEvent
from tenure.model.rows import Lane
from tenure.verbs import cancel
from tenure.verbs.journal import append
from tenure.verbs.projections import pause_projection, plan_projection, projections, resume_projection
from tenure.verbs.queues import pause, resume
from tenure.verbs.rebuild import ask_rebuild
from world import World


def states(world: World) -> list[tuple[int, str, str | None]]:
    return [(each.shard, each.state, each.error) for each in world.run(projections())]


def told(world: World) -> Finding:
    return shapes.projections(world.run(projections()))


def paid(world: World) -> int:
    return world.run(append("order:1", [NewEvent("order.paid")])).position


def call(world: World, *words: str) -> Result:
    return CliRunner().invoke(tenure, [*words, "--database-url", world.url, "--schema", world.schema])


def rows_of(world: World) -> list[Any]:
    return [id for (id,) in world.sql("SELECT id FROM live ORDER BY payload->>'shard'")]


def test_a_shard_runs_only_while_its_row_is_held(world: World) -> None:
    world.run(plan_projection("p", shards=1, like=None))
    paid(world)
    assert states(world) == [(0, "no_worker", None)]
    found = told(world)
    assert (found.level, "no worker serves p" in found.said) == ("warn", True)
    assert "--queues projection:p" in found.next
    assert "no worker serves it" in call(world, "projections").output
    held = world.claim_one("A", lanes=[Lane("projection:p")])
    assert states(world) == [(0, "running", None)]
    world.expire(held.lease)
    assert states(world) == [(0, "no_worker", None)], "its holder is gone, and nobody is there to take it over"
    with working(world, service(world, "p"), queues={"none": 1}):
        assert states(world)[0][1] == "no_worker", "this one has the handler, and does not serve the queue"


def test_a_shard_whose_worker_serves_it_and_cannot_have_its_row_waits_and_says_why(world: World) -> None:
    world.run(pause("projection:p"))
    with working(world, service(world, "p")):
        assert states(world) == [(0, "waiting", "the queue 'projection:p' is paused")]
        world.sql("UPDATE live SET available_at = 'infinity', last_error = 'no handler for kind X in this worker'")
        world.run(resume("projection:p"))
        assert states(world) == [(0, "waiting", "no handler for kind X in this worker")]
        found = told(world)
        assert (found.level, "shard 0 of p waits: no handler for kind X" in found.said) == ("warn", True)
        assert "tenure projections resume p" in found.next
        done = world.run(resume_projection("p"))
        assert done
        assert done._asdict() == {"unpaused": False, "again": 0, "made": 0, "brought_back": 0, "hastened": 1}
        eventually(lambda: states(world)[0][1] == "running")


@pytest.mark.parametrize("how", ["cancelled", "deleted", "dead_letter", "failed"])
def test_a_resume_brings_back_a_shard_whose_row_has_ended_or_is_gone(world: World, how: str) -> None:
    world.run(plan_projection("q", shards=1, like=None))
    world.run(plan_projection("p", shards=2, like=None))
    world.sql("UPDATE checkpoints SET position = 5 WHERE projection = 'p'")
    ((lost,),) = world.sql("SELECT row_id FROM checkpoints WHERE projection = 'p' AND shard = 1")
    if how == "cancelled":
        world.run(cancel([lost]))
    elif how == "deleted":
        world.sql("DELETE FROM live WHERE id = %s", lost)
    else:
        held = {job.id: job for job in world.claim("A", 2, lanes=[Lane("projection:p")])}
        (world.fail if how == "failed" else world.dead_letter)(held[lost].lease, "boom")
    (state,) = [each.state for each in world.run(projections()) if (each.projection, each.shard) == ("p", 1)]
    assert state == ("no_row" if how == "deleted" else how)
    found = told(world)
    assert (found.level, "shard 1 of p" in found.said) == ("fault" if how == "deleted" else "warn", True)
    assert "`tenure projections resume p`: it goes on where it was" in found.next
    said = call(world, "projections", "resume", "p")
    expected = "1 shard comes back" if how in ("dead_letter", "failed") else "1 shard has a new row"
    assert (said.exit_code, expected in said.output) == (0, True)
    assert world.sql("SELECT position FROM checkpoints WHERE projection = 'p'") == [(5,), (5,)]
    status, queue, kind = world.sql(
        "SELECT i.status, i.queue, i.kind FROM checkpoints AS c JOIN live AS i ON i.id = c.row_id"
        " WHERE c.projection = 'p' AND c.shard = 1"
    )[0]
    assert (status, queue, kind) == ("pending", "projection:p", "projection:p")
    assert world.count("live") == 3
    assert call(world, "projections", "resume", "p").output == "nothing to do: p goes on already\n"


def test_a_resume_wakes_a_worker_that_then_reads_on(world: World) -> None:
    with working(world, service(world, "p")):
        first = paid(world)
        eventually(lambda: position(world, "p") == first)
        world.run(cancel(rows_of(world)))
        eventually(lambda: [state for _, state, _ in states(world)] == ["cancelled"])
        second = paid(world)
        world.run(resume_projection("p"))
        eventually(lambda: position(world, "p") == second)


def test_a_resume_says_what_it_did_and_takes_rows_to_their_queue(world: World) -> None:
    world.run(plan_projection("p", shards=3, like=None))
    world.run(pause_projection("p"))
    world.sql("UPDATE checkpoints SET state = 'stopped', stopped_at = 1, error = 'boom' WHERE shard = 0")
    world.sql("UPDATE live SET queue = 'other' WHERE payload->>'shard' = '1'")
    world.sql("DELETE FROM live WHERE payload->>'shard' = '2'")
    done = world.run(resume_projection("p"))
    assert done
    assert tuple(done) == (True, 1, 1, 0, 1)
    assert done.said() == (
        "it is no longer paused; 1 shard tries its event again; 1 shard has a new row, which goes on where it was; "
        "1 shard is tried at once"
    )
    assert world.sql("SELECT DISTINCT queue FROM live") == [("projection:p",)]
    assert world.run(resume_projection("nobody")) is False


def test_a_rebuild_that_stopped_and_was_cancelled_goes_on_when_it_is_asked_for_again(world: World) -> None:
    world.run(plan_projection("p", shards=1, like=None))
    world.run(plan_projection("q", shards=1, like=None))
    first = world.run(ask_rebuild("p"))
    world.sql(
        "INSERT INTO checkpoints (projection, shard, position, state, stopped_at, error)"
        " VALUES ('p', -1, 7, 'stopped', 8, 'boom'), ('q', -1, 7, 'stopped', 8, 'boom')"
    )
    world.run(cancel([first]))
    assert "`tenure projections rebuild p`: it goes on where it was" in told_of_rebuild(world)
    assert world.run(ask_rebuild("p")) != first
    left = world.sql("SELECT projection, state, stopped_at, position FROM checkpoints WHERE shard = -1 ORDER BY 1")
    assert left == [("p", "running", None, 7), ("q", "stopped", 8, 7)]
    world.sql("UPDATE checkpoints SET state = 'stopped', stopped_at = 8 WHERE projection = 'p' AND shard = -1")
    world.run(ask_rebuild("p"))
    assert world.sql("SELECT state FROM checkpoints WHERE projection = 'p' AND shard = -1") == [("stopped",)], (
        "one that has its row waits for resume or skip"
    )


def told_of_rebuild(world: World) -> str:
    every = [each for each in world.run(projections()) if (each.projection, each.shard) == ("p", -1)]
    return shapes.projections(every).next
