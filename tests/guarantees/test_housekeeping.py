"""Chores are done by whoever comes first when they are due; one who stops in the middle keeps nobody from them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from crew import eventually, working
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import ChoreDone, ChoreFailed, JobCompleted
from tenure.verbs import fleet, questions
from tenure.worker import housekeeping
from world import World

ALL = {"fleet", "schedules", "leases", "workers", "every_row", "vacuum", "archive"}


def test_a_turn_is_given_once_until_it_is_due_again(world: World) -> None:
    assert world.run(fleet.take_turn("A")) == ALL
    assert world.run(fleet.take_turn("B")) == frozenset()
    world.sql("UPDATE chores SET ran_at = clock_timestamp() - interval '6 seconds'")
    assert world.run(fleet.take_turn("B")) == {"fleet", "schedules", "leases"}
    assert world.sql("SELECT DISTINCT ran_by FROM chores ORDER BY 1") == [("A",), ("B",)]


def test_of_ten_who_ask_at_once_one_gets_the_turn(world: World) -> None:
    connections = [world.connect() for _ in range(10)]
    with ThreadPoolExecutor(10) as threads:
        turns = list(threads.map(lambda conn: world.run(fleet.take_turn("A"), conn), connections))
    assert sorted(map(len, turns)) == [0] * 9 + [len(ALL)]


def test_a_worker_stopped_inside_its_turn_keeps_nobody_from_the_next(world: World) -> None:
    stopped = world.connect()
    with stopped.transaction():
        world.run(fleet.take_turn("stopped"), stopped)
        assert world.run(fleet.take_turn("B")) == frozenset(), "while the transaction stands, others do not wait"
    world.sql("UPDATE chores SET ran_at = '-infinity'")
    assert world.run(fleet.take_turn("B")) == ALL


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
    world.run(fleet.vacuum_live())
    eventually(lambda: world.sql("SELECT pg_stat_get_vacuum_count('live'::regclass)") == [(1,)])
    assert world.run(questions.dead_share())[0] == 0


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
