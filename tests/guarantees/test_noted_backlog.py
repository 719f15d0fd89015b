"""What a look at the backlog costs is bounded, its numbers say when they are the least, and it keeps nobody waiting."""

from __future__ import annotations

import psycopg
import pytest

from crew import eventually, working
from guarantees.test_history import slot
from plans import Plans
from tenure.app.inbox import Inbox
from tenure.events import ChoreDone
from tenure.model.rows import NewRow
from tenure.verbs import enqueue, fleet, history, lately
from world import World

_FILL = """
INSERT INTO live (kind, payload, queue, partition_key, ordered, available_at)
SELECT 'k', '{}', %s, 'key ' || k, %s, clock_timestamp() + %s * interval '1 s' FROM generate_series(1, %s) AS k
"""


def fill(world: World, queue: str, n: int, *, ordered: bool = False, delay_seconds: float = 0) -> None:
    world.sql(_FILL, queue, ordered, delay_seconds, n)


def noted(world: World) -> dict[str, tuple[int, bool]]:
    """Of the latest period: how many are due, and whether there are more."""
    latest = "at = (SELECT max(at) FROM tally)"
    rows = world.sql(f"SELECT queue, due, due_more FROM tally WHERE due IS NOT NULL AND {latest}")
    return {queue: (due, more) for queue, due, more in rows}


def back(world: World, seconds: int) -> None:
    """Move what was counted so far into the past."""
    world.sql("UPDATE tally SET at = at - %s * interval '1 s'", seconds)


def periods(world: World) -> list[int]:
    """How much was due in all, period by period."""
    return [due for (due,) in world.sql("SELECT sum(due) FROM tally WHERE due IS NOT NULL GROUP BY at ORDER BY at")]


@pytest.mark.parametrize("ordered", [False, True])
def test_however_long_the_queues_are_it_looks_at_no_more_rows(world: World, ordered: bool) -> None:
    plans, looks = Plans(world), []
    for more in (60, 600):
        for n in range(8):
            fill(world, f"q{n}", more, ordered=ordered)
        plans.of(lately.note_backlog(looks=400))
        looks.append(plans.looks)
    assert looks[1] < 1.2 * looks[0]
    assert noted(world)["q3"] == (24, True)


def test_ordered_and_other_queues_share_the_looks(world: World) -> None:
    fill(world, "lane", 150)
    world.run(lately.note_backlog(looks=400))
    assert noted(world) == {"": (0, False), "lane": (150, False)}
    fill(world, "keys", 150, ordered=True)
    world.run(lately.note_backlog(looks=400))
    assert noted(world) == {"": (0, False), "lane": (100, True), "keys": (100, True)}
    world.sql("DELETE FROM live WHERE queue = 'lane'")
    for n in range(4):
        fill(world, f"short {n}", 5, ordered=n > 2)
    world.run(lately.note_backlog(looks=400))
    assert noted(world)["keys"] == (150, False), "what short queues leave is for a second look at long ones"
    assert noted(world)["short 0"] == noted(world)["short 3"] == (5, False)


def test_more_lanes_than_looks_are_not_all_seen_and_it_says_so(world: World) -> None:
    for n in range(8):
        fill(world, f"q{n}", 1)
    world.run(lately.note_backlog(looks=20))
    assert len(noted(world)) == 1 + 5
    assert noted(world)[""] == (0, True)
    world.run(lately.note_backlog(looks=400))
    assert noted(world)[""] == (0, False)


def test_the_longest_queues_have_a_line_and_the_rest_one_together(world: World) -> None:
    for n in range(1, 6):
        fill(world, f"q{n}", n, ordered=n == 4)
    fill(world, "later", 9, delay_seconds=3600)
    assert world.run(lately.note_backlog(longest=2)) == 2
    assert noted(world) == {"q5": (5, False), "q4": (4, False), "": (6, False)}
    back(world, 60)
    found = world.run(lately.backlogs())
    assert [(each.queue, each.due) for each in found.queues] == [("q5", (5,)), ("q4", (4,)), ("", (6,))]


def test_while_nothing_was_due_and_nothing_is_nothing_is_written(world: World) -> None:
    fill(world, "later", 3, delay_seconds=3600)
    fill(world, "keys later", 3, ordered=True, delay_seconds=3600)
    assert world.run(lately.note_backlog()) == 0
    assert world.count("tally") == 0


def test_a_number_that_is_the_least_says_so_and_others_do_not(world: World) -> None:
    fill(world, "long", 300)
    fill(world, "short", 20)
    fill(world, "short", 300, delay_seconds=3600)
    world.run(lately.note_backlog(looks=400))
    assert noted(world) == {"": (0, False), "long": (200, True), "short": (20, False)}
    back(world, 60)
    found = world.run(lately.backlogs())
    assert [(each.queue, each.more) for each in found.queues] == [("long", (True,)), ("short", (False,))]


def test_due_ordered_rows_are_counted_among_those_that_are_not(world: World) -> None:
    fill(world, "orders", 400, ordered=True, delay_seconds=3600)
    ((beside,),) = world.sql("SELECT min(k) FROM generate_series(11, 40000) AS k WHERE bucket('d' || k) = bucket('d1')")
    for queue in ("others", "orders"):
        for k in (*range(1, 10), beside):
            for _ in range(2):
                world.run(enqueue(NewRow("k", queue=queue, key=f"d{k}", ordered=True)))
        world.run(enqueue(NewRow("k", queue=queue, key="d2", ordered=True, delay_seconds=3600)))
    assert len(world.claim_ordered("A", 1, queues=["orders"])) == 1
    assert len(world.claim_ordered("A", 1, queues=["others"])) == 1
    for priority in (0, 0, 7):
        world.run(enqueue(NewRow("k", queue="orders", key="d1", priority=priority)))
    world.run(lately.note_backlog(looks=400))
    assert noted(world)["orders"] == (3 + 19, True)
    assert noted(world)["others"] == (19, False)
    world.run(lately.note_backlog())
    assert noted(world)["orders"] == (3 + 19, False)


def test_rows_of_the_same_key_in_another_queue_are_not_counted(world: World) -> None:
    for queue in ("a", "b", "a", "b"):
        world.enqueue(key="k", ordered=True, queue=queue)
    for queue in ("a", "b"):
        (job,) = world.claim_ordered("A", 1, queues=[queue])
        world.release(job.lease)
    assert world.sql("SELECT count_due_keys('a', clock_timestamp(), 100)") == [(2,)]


def test_it_waits_a_tenth_of_a_second_for_a_lock(world: World) -> None:
    fill(world, "q", 1)
    locked, waits = world.connect(), world.connect()
    waits.execute("SET statement_timeout = '20s'")
    with locked.transaction():
        locked.execute("LOCK TABLE tally IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            world.run(lately.note_backlog(), waits)


def test_slow_it_is_done_less_often_by_every_worker(world: World) -> None:
    every = "SELECT every_seconds FROM chores WHERE name = 'backlog'"
    others = world.sql("SELECT name, every_seconds FROM chores WHERE name <> 'backlog' ORDER BY 1")
    world.run(lately.note_backlog(slower=1e9))
    assert world.sql(every) == [(600,)]
    world.sql("UPDATE chores SET ran_at = clock_timestamp() - interval '15 s'")
    assert "backlog" not in world.run(fleet.take_turn("B")).due
    world.run(lately.note_backlog(slower=0))
    assert world.sql(every) == [(10,)]
    world.sql("UPDATE chores SET ran_at = clock_timestamp() - interval '15 s'")
    assert "backlog" in world.run(fleet.take_turn("B")).due
    assert world.sql("SELECT name, every_seconds FROM chores WHERE name <> 'backlog' ORDER BY 1") == others


def test_nothing_due_is_written_once_and_stands_until_there_is_something(world: World) -> None:
    world.run(lately.note_backlog())
    assert periods(world) == []
    world.run(enqueue(NewRow("k")))
    world.run(lately.note_backlog())
    back(world, 60)
    world.sql("DELETE FROM live")
    world.run(history.tally([slot(queue="", renewed=1)], age_seconds=30))
    world.run(lately.note_backlog())
    assert periods(world) == [1, 0]
    back(world, 60)
    world.run(lately.note_backlog())
    assert periods(world) == [1, 0], "it was so before"
    world.run(enqueue(NewRow("k")))
    world.run(lately.note_backlog())
    assert periods(world) == [1, 0, 0, 1], "until ten seconds ago"
    back(world, 60)
    world.run(lately.note_backlog())
    assert periods(world) == [1, 0, 0, 1, 1]


def test_that_nothing_is_due_is_told_while_workers_look(world: World) -> None:
    world.run(lately.note_backlog())
    assert world.run(lately.backlogs()).at == ()
    world.sql("UPDATE chores SET ran_at = clock_timestamp() - interval '1 min'")
    found = world.run(lately.backlogs())
    assert (len(found.at), found.queues) == (1, ())
    world.run(enqueue(NewRow("k")))
    world.run(lately.note_backlog())
    back(world, 120)
    assert [each.due for each in world.run(lately.backlogs()).queues] == [(1,)], "since then nobody has"


def test_no_other_chore_waits_for_it(world: World) -> None:
    with working(world, Inbox(), queues={"default": 1}) as hired:
        eventually(lambda: "backlog" in [event.chore for event in hired.of(ChoreDone)])
        done = [event.chore for event in hired.of(ChoreDone)]
    assert {"fleet", "leases", "schedules", "vacuum", "workers"} <= set(done[: done.index("backlog")])
