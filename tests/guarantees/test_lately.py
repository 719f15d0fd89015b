"""Lately: the backlog is counted up to a cap, what nobody counted is no zero, kinds are told from the newest rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from crew import eventually, working
from guarantees.test_history import slot
from tenure.app.inbox import Inbox
from tenure.model.rows import NewRow
from tenure.verbs import enqueue, history, lately
from world import World


def counted(world: World) -> dict[str, int]:
    """What is written down of a backlog, whenever."""
    return dict(world.sql("SELECT queue, max(due) FROM tally WHERE due IS NOT NULL GROUP BY queue"))


def back(world: World, seconds: int) -> None:
    """Move what was counted so far into the past."""
    world.sql("UPDATE tally SET at = at - %s * interval '1 s'", seconds)


def test_due_rows_are_counted_by_queue_and_neither_held_nor_later_ones(world: World) -> None:
    for queue, n in (("mail", 3), ("default", 2)):
        for _ in range(n):
            world.run(enqueue(NewRow("k", queue=queue)))
    world.run(enqueue(NewRow("k", queue="mail", delay_seconds=3600)))
    for _ in range(2):
        world.run(enqueue(NewRow("k", queue="orders", key="one", ordered=True)))
    world.run(enqueue(NewRow("k", queue="orders", key="two", ordered=True, delay_seconds=3600)))
    world.run(enqueue(NewRow("k", queue="later", delay_seconds=3600)))
    assert len(world.claim("A", 1)) == 1
    assert len(world.claim_ordered("A", 1, queues=["orders"])) == 1
    assert world.run(lately.note_backlog()) == 3
    assert counted(world) == {"": 0, "default": 1, "mail": 3, "orders": 1}
    assert world.run(lately.note_backlog()) == 3, "counted twice in one period it is no more"
    assert counted(world)["mail"] == 3


def test_what_workers_counted_and_what_waits_stand_in_one_line_and_neither_wipes_the_other(world: World) -> None:
    world.run(enqueue(NewRow("k")))
    world.run(lately.note_backlog())
    world.run(history.tally([slot(completed=7)], age_seconds=0))
    world.run(lately.note_backlog())
    assert world.sql("SELECT sum(completed), max(due) FROM tally WHERE queue = 'default'") == [(7, 1)]


def test_steps_in_which_nobody_counted_are_left_out_and_an_empty_queue_is_a_zero(world: World) -> None:
    world.run(enqueue(NewRow("k", queue="a")))
    world.run(lately.note_backlog())
    world.sql("DELETE FROM live")
    back(world, 10)
    world.run(lately.note_backlog())
    back(world, 600)
    for queue in ("a", "a", "b", "c"):
        world.run(enqueue(NewRow("k", queue=queue)))
    world.run(lately.note_backlog())
    back(world, 60)
    found = world.run(lately.backlogs(n=1))
    assert [each.queue for each in found.queues] == ["a", ""]
    assert [each.due for each in found.queues] == [(1, 0, 0, 2), (0, 0, 0, 2)]
    assert found.at[3] - found.at[1] == timedelta(seconds=600)
    assert world.run(lately.backlogs(seconds=300)).at == found.at[2:]
    assert [each.queue for each in world.run(lately.backlogs()).queues] == ["a", "b", "c"]


def test_the_most_of_a_step_is_told(world: World) -> None:
    for seconds in (10, 10):
        world.run(enqueue(NewRow("k")))
        world.run(lately.note_backlog())
        back(world, seconds)
    world.sql("UPDATE tally SET at = at - interval '100 s'")
    found = world.run(lately.backlogs(seconds=3600, step_seconds=3600))
    assert (len(found.at), found.queues[0].due) == (1, (2,))


def test_each_queue_tells_its_share_of_failures_and_how_long_it_took(world: World) -> None:
    runs = [0, 0, 0, 0, 0, 0, 0, 4, *[0] * 9]
    world.run(history.tally([slot(queue="mail", completed=6, retried=1, dead_lettered=1, runs=runs)], age_seconds=0))
    world.run(history.tally([slot(queue="default", completed=9, released=2, cancelled=1)], age_seconds=0))
    world.run(history.tally([slot(queue="", renewed=5)], age_seconds=0))
    world.run(history.tally([slot(queue="old", completed=50)], age_seconds=900))
    default, mail = world.run(lately.queues_lately(600))
    assert (default.queue, default.failing, default.run_p95) == ("default", 0.0, None)
    assert (mail.queue, mail.failing) == ("mail", 0.25)
    assert mail.run_p95 == pytest.approx(0.975)
    assert world.run(lately.queues_lately())[0].queue == "old"
    assert lately.QueueLately("q", 0, 0, 3, 0, 0, 1, None, None, None).failing is None


def test_kinds_tell_how_many_ended_badly_and_the_slowest_comes_first(world: World) -> None:
    for kind, ends in (("quick", 3), ("slow", 2)):
        for n in range(ends):
            world.run(enqueue(NewRow(kind)))
            (job,) = world.claim("A", 1)
            if (kind, n) == ("slow", 1):
                world.sql("UPDATE live SET claimed_at = claimed_at - interval '9 s'")
                world.dead_letter(job.lease, "ValueError: no")
            else:
                world.complete(job.lease)
    world.run(enqueue(NewRow("waits")))
    slow, quick = world.run(lately.kinds_lately()).kinds
    assert (slow.kind, slow.ended, slow.badly) == ("slow", 2, 1)
    assert (quick.kind, quick.ended, quick.badly) == ("quick", 3, 0)
    assert slow.run_p95 is not None
    assert 8 < slow.run_p95 < 60
    assert world.run(lately.kinds_lately(60)).since is None


def test_both_tables_are_looked_at_as_far_back_as_the_shorter_look_reaches(world: World) -> None:
    began = datetime.now(UTC) - timedelta(minutes=10)
    for kind in ("old", "new", "new"):
        world.run(enqueue(NewRow(kind)))
        (job,) = world.claim("A", 1)
        world.dead_letter(job.lease, "no") if kind == "old" else world.complete(job.lease)
    found = world.run(lately.kinds_lately(looks=2))
    assert [(each.kind, each.ended) for each in found.kinds] == [("new", 2)], "the dead one is older than both"
    assert found.since is not None
    assert found.since > began
    assert [each.kind for each in world.run(lately.kinds_lately(looks=3)).kinds] != ["new"]


def test_a_row_older_than_the_period_is_not_looked_at(world: World) -> None:
    world.run(enqueue(NewRow("k")))
    (job,) = world.claim("A", 1)
    world.complete(job.lease)
    world.run(enqueue(NewRow("d")))
    (job,) = world.claim("A", 1)
    world.fail(job.lease, "no")
    for table in ("archive", "dead"):
        world.sql(f"UPDATE {table} SET id = id_at(clock_timestamp() - interval '2 hours')")
    assert world.run(lately.kinds_lately(3600)).kinds == []
    assert len(world.run(lately.kinds_lately(3 * 3600)).kinds) == 2


def test_a_worker_counts_the_backlog_in_its_turn(world: World) -> None:
    inbox = Inbox()
    world.run(enqueue(NewRow("nobody", queue="elsewhere")))
    with working(world, inbox, queues={"default": 1}):
        eventually(lambda: counted(world).get("elsewhere") == 1)
