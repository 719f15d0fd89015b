"""Chores are done by whoever comes first when they are due; one who stops in the middle keeps nobody from them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from crew import eventually, working
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import ChoreDone, ChoreFailed, JobCompleted
from tenure.model.rows import NewRow
from tenure.verbs import batches, fleet, questions, schedules
from tenure.worker import housekeeping
from world import World

ALL = {"fleet", "schedules", "leases", "workers", "every_row", "vacuum", "archive", "journal", "batches", "backlog"}


def test_a_turn_is_given_once_until_it_is_due_again(world: World) -> None:
    assert world.run(fleet.take_turn("A")).due == ALL
    assert world.run(fleet.take_turn("B")).due == frozenset()
    world.sql("UPDATE chores SET ran_at = clock_timestamp() - interval '6 seconds'")
    assert world.run(fleet.take_turn("B")).due == {"fleet", "schedules", "leases", "batches"}
    assert world.sql("SELECT DISTINCT ran_by FROM chores ORDER BY 1") == [("A",), ("B",)]


def test_of_ten_who_ask_at_once_one_gets_the_turn(world: World) -> None:
    connections = [world.connect() for _ in range(10)]
    with ThreadPoolExecutor(10) as threads:
        turns = list(threads.map(lambda conn: world.run(fleet.take_turn("A"), conn).due, connections))
    assert sorted(map(len, turns)) == [0] * 9 + [len(ALL)]


def test_a_worker_stopped_inside_its_turn_keeps_nobody_from_the_next(world: World) -> None:
    stopped = world.connect()
    with stopped.transaction():
        world.run(fleet.take_turn("stopped"), stopped)
        assert world.run(fleet.take_turn("B")).due == frozenset(), "while the transaction stands, others do not wait"
    world.sql("UPDATE chores SET ran_at = '-infinity'")
    assert world.run(fleet.take_turn("B")).due == ALL


# -- a turn looks whether there is anything to do

LOOKED_AT = {"fleet", "schedules", "leases", "batches"}


def idle(world: World) -> frozenset[str]:
    world.sql("UPDATE chores SET ran_at = '-infinity'")
    turn = world.run(fleet.take_turn("A"))
    assert turn.due == ALL
    return turn.idle


def test_where_nothing_is_to_be_done_a_turn_says_so(world: World) -> None:
    world.run(fleet.register("present"))
    world.run(fleet.appear("present"))
    world.run(fleet.register("behind-a-pooler"))
    world.enqueue("work")
    world.claim("present")
    world.run(schedules.plan(schedules.Schedule("yearly", "0 0 1 1 *", "work")))
    assert idle(world) == LOOKED_AT


def test_a_lease_that_is_over_is_something_to_do(world: World) -> None:
    world.enqueue("work")
    world.claim("A", lease_seconds=0.001)
    eventually(lambda: idle(world) == LOOKED_AT - {"leases"})
    world.run(verbs.sweep())
    assert idle(world) == LOOKED_AT


def test_a_schedule_that_is_due_is_something_to_do(world: World) -> None:
    world.run(schedules.plan(schedules.Schedule("yearly", "0 0 1 1 *", "work")))
    world.sql("UPDATE schedules SET next_at = clock_timestamp() - interval '1 second'")
    assert idle(world) == LOOKED_AT - {"schedules"}


def test_a_batch_that_nobody_was_told_of_is_something_to_do(world: World) -> None:
    world.run(batches.open_group([NewRow("part")]))
    assert idle(world) == LOOKED_AT
    world.complete(world.claim_one().lease)
    assert idle(world) == LOOKED_AT - {"batches"}
    world.run(batches.tell_batches())
    assert idle(world) == LOOKED_AT


def test_a_worker_that_is_gone_or_back_or_dead_is_something_to_do(world: World) -> None:
    session = world.connect()
    world.run(fleet.register("B"))
    world.run(fleet.appear("B"), session)
    assert idle(world) == LOOKED_AT
    session.close()
    eventually(lambda: idle(world) == LOOKED_AT - {"fleet"})
    assert world.run(fleet.notice(grace_seconds=60)) == {"B": "gone"}
    assert idle(world) == LOOKED_AT - {"fleet"}, "until it is back or dead"
    world.sql("SELECT pg_advisory_lock_shared(presence_key('B'))")
    assert idle(world) == LOOKED_AT - {"fleet"}, "it is back, and nobody has noticed"
    assert world.run(fleet.notice(grace_seconds=60)) == {"B": "back"}
    assert idle(world) == LOOKED_AT
    world.sql("SELECT pg_advisory_unlock_shared(presence_key('B'))")
    world.run(fleet.notice(grace_seconds=0))
    assert world.run(fleet.notice(grace_seconds=0)) == {"B": "dead"}
    assert idle(world) == LOOKED_AT - {"fleet"}, "its rows are to be given back"
    world.run(fleet.evict(grace_seconds=0))
    assert idle(world) == LOOKED_AT


def test_a_worker_does_every_chore(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    with working(world, inbox) as hired:
        eventually(lambda: {event.chore for event in hired.of(ChoreDone)} == ALL)


def test_a_lease_that_no_claim_lists_is_swept_by_the_full_pass(world: World) -> None:
    id = world.enqueue("work", key="k")
    world.run(verbs.claim("gone", 1, lease_seconds=0.001))
    world.sql("DELETE FROM claims")  # as it is with rows that were claimed before there was one
    world.sql(
        "INSERT INTO live (kind, payload, partition_key, available_at) "
        "SELECT 'work', '{}', 'k', clock_timestamp() - interval '1 hour' FROM generate_series(1, 200)"
    )
    eventually(lambda: world.run(questions.stuck()))
    assert world.run(verbs.sweep()) == []
    assert [swept.id for swept in world.run(verbs.sweep_pages())] == [id]


def test_a_turn_comes_with_a_poll_while_the_housekeeper_waits(world: World) -> None:
    with working(world, Inbox(), queues={"default": 1.0}, poll_seconds=0.3) as hired:
        turns, came = hired.worker.claimer._turns, list[fleet.Turn]()
        real = turns.brought
        turns.brought = lambda turn: (came.append(turn), real(turn))[1]  # type: ignore[func-returns-value,method-assign]
        eventually(lambda: any("fleet" in turn.due for turn in came))


def test_no_poll_asks_for_a_turn_after_a_statement_was_refused(world: World) -> None:
    """Perhaps somebody has locked the chores: rows are claimed all the same."""
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    with working(world, inbox, poll_seconds=0.3, listen=False) as hired:
        turns = hired.worker.claimer._turns
        eventually(lambda: turns.wanted)
        locked = world.connect()
        with locked.transaction():
            locked.execute("LOCK TABLE chores IN ACCESS EXCLUSIVE MODE")
            world.enqueue("work")
            hired.saw(JobCompleted)
        turns.apart()
        assert not turns.wanted


def test_a_worker_without_housekeeping_leaves_the_chores_to_others(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    with working(world, inbox, housekeeping=False) as hired:
        world.enqueue("work")
        hired.saw(JobCompleted)
    assert world.sql("SELECT count(*) FROM chores WHERE ran_by IS NOT NULL") == [(0,)]


def test_more_than_a_round_can_forget_is_forgotten_all_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above some sixteen busy queues more slots come to an end between two turns than one round takes."""
    monkeypatch.setattr(housekeeping, "FORGOTTEN_MAX", 10)
    world.sql("INSERT INTO idempotency SELECT n::text, new_id(), '', 'epoch' FROM generate_series(1, 45) AS n")
    world.sql("INSERT INTO membership (worker, what, at) SELECT 'w', 'died', 'epoch' FROM generate_series(1, 25)")
    with working(world, Inbox(), queues={"default": 1.0}) as hired:
        (done,) = eventually(lambda: [event for event in hired.of(ChoreDone) if event.chore == "archive"])
    assert done.result.split(", ") == ["25 memberships_forgotten", "45 idempotency_keys_forgotten"]
    assert world.count("idempotency") == 0


def test_what_a_turn_could_not_forget_the_next_one_goes_on_with(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "FORGOTTEN_MAX", 10)
    monkeypatch.setattr(housekeeping, "FORGETTING_SECONDS_MAX", -1.0)
    world.sql("INSERT INTO idempotency SELECT n::text, new_id(), '', 'epoch' FROM generate_series(1, 15) AS n")
    with working(world, Inbox(), queues={"default": 1.0}) as hired:
        eventually(lambda: world.count("idempotency") == 0)
        eventually(lambda: len([event for event in hired.of(ChoreDone) if event.chore == "archive"]) == 2)


def test_the_hot_table_is_vacuumed_on_demand(world: World) -> None:
    for _ in range(50):
        world.enqueue("work")
    world.sql("DELETE FROM live")

    def vacuumed() -> bool:
        world.run(fleet.vacuum_live())
        return bool(world.run(questions.dead_share())[0] == 0)

    eventually(vacuumed)  # not at once if somebody else's snapshot still sees the rows
    eventually(lambda: world.sql("SELECT pg_stat_get_vacuum_count('live'::regclass) > 0") == [(True,)])


def test_a_chore_that_fails_is_said_and_the_others_are_done(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    world.sql("ALTER FUNCTION keep_archive RENAME TO keep_archive_no_more")
    with working(world, inbox) as hired:
        (failed,) = hired.saw(ChoreFailed)
        eventually(lambda: {event.chore for event in hired.of(ChoreDone)} == ALL - {"archive"})
        world.enqueue("work")
        hired.saw(JobCompleted)
    assert failed.chore == "archive"
    assert "keep_archive" in failed.error


def test_a_worker_leaves_the_registry(world: World) -> None:
    world.run(fleet.register("A"))
    world.run(fleet.register("B"))
    assert world.run(fleet.leave("A"))
    assert not world.run(fleet.leave("A"))
    assert world.sql("SELECT id FROM workers") == [("B",)]


def test_waiting_is_said_for_one_worker(world: World) -> None:
    world.run(fleet.register("A"))
    world.run(fleet.register("B"))
    assert world.run(fleet.set_waiting("A", waiting=True))
    assert world.sql("SELECT id FROM workers WHERE waiting") == [("A",)]
    assert world.run(fleet.set_waiting("A", waiting=False))
    assert world.sql("SELECT id FROM workers WHERE waiting") == []
    assert not world.run(fleet.set_waiting("C", waiting=True))
