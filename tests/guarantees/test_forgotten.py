"""The net under claims by key: whatever has become of heads and key lanes, a row that is due is found again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from crew import working
from guarantees.facts import user_connection
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import ChoreDone, JobCompleted
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import queues
from world import World

MAIL = "mail"
AN_HOUR_AGO = timedelta(hours=-1)


def _send(world: World, key: str | None = "k", *, ordered: bool = True, **options: Any) -> UUID:
    at = datetime.now(UTC) + options.pop("due", AN_HOUR_AGO)
    row = NewRow("work", queue=MAIL, key=key, ordered=ordered, at=at, **options)
    return world.run(verbs.enqueue(row)).id


def _claim(world: World, n: int = 10) -> list[Claimed]:
    return world.claim_ordered("A", n, queues=[MAIL])


def _claim_limited(world: World, n: int = 10) -> list[Claimed]:
    return world.run(queues.claim_limited("A", n, MAIL))


# -- ordered keys


def _looked_at(world: World) -> UUID:
    """A row whose key has a head, after others were taken: of another key, of another queue, unordered."""
    other = _send(world, "other")
    assert [job.id for job in _claim(world)] == [other]
    world.enqueue(key="k", ordered=True)
    assert len(world.claim_ordered("A")) == 1
    _send(world, ordered=False)
    assert len(world.claim("A", lanes=[Lane(MAIL)])) == 1
    id = _send(world)
    world.sql("SELECT refresh_heads(ARRAY[%s], 0)", MAIL)
    assert world.count("arrivals") == 0
    return id


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM heads WHERE partition_key = 'k'",
        "UPDATE heads SET from_seq = 1000000 WHERE partition_key = 'k'",
        "UPDATE heads SET due_at = 'infinity' WHERE partition_key = 'k'",
        "UPDATE heads SET due_at = clock_timestamp() + interval '1 hour' WHERE partition_key = 'k'",
        "UPDATE heads SET run_from = from_seq, run_to = from_seq WHERE partition_key = 'k'",
        "UPDATE heads SET run_from = 1, run_to = from_seq - 1 WHERE partition_key = 'k'",
    ],
)
def test_a_key_that_claims_have_forgotten_is_found_again(world: World, harm: str) -> None:
    id = _looked_at(world)
    world.sql(harm)
    assert _claim(world) == []
    assert world.run(verbs.note_forgotten()) == 1
    assert world.run(verbs.note_forgotten()) == 0, "its arrival is there"
    assert [job.id for job in _claim(world)] == [id]


def test_a_row_that_has_begun_is_found_again(world: World) -> None:
    id = _send(world)
    _send(world)
    world.retry(_claim(world)[0].lease, delay=0)
    assert world.sql("SELECT count(*) FROM (SELECT refresh_heads(ARRAY[%s], 0)) AS looked", MAIL) == [(1,)]
    world.sql("UPDATE heads SET due_at = 'infinity'")
    assert _claim(world) == []
    assert world.run(verbs.note_forgotten()) == 1
    assert [job.id for job in _claim(world)] == [id]


def test_a_row_that_has_begun_is_found_behind_one_that_came_late_and_is_not_due(world: World) -> None:
    late = user_connection(world)
    at = datetime.now(UTC) + timedelta(hours=1)
    world.run(verbs.enqueue(NewRow("work", queue=MAIL, key="k", ordered=True, at=at)), late)
    id = _send(world)
    world.retry(_claim(world)[0].lease, delay=0)
    late.commit()
    _send(world)
    world.sql("SELECT refresh_heads(ARRAY[%s], 0)", MAIL)
    world.sql("UPDATE heads SET due_at = 'infinity'")
    assert world.run(verbs.note_forgotten()) == 1
    assert [job.id for job in _claim(world)] == [id]


@pytest.mark.parametrize("what", ["taken", "backing off", "blocked", "due", "due later", "arrived", "hardly due"])
def test_a_key_that_claims_know_is_left_alone(world: World, what: str) -> None:
    if what in ("taken", "backing off", "blocked"):
        _send(world, hold=True)
        (job,) = _claim(world)
        if what == "backing off":
            world.retry(job.lease, delay=3600)
        if what == "blocked":
            world.fail(job.lease)
    due = {"due later": timedelta(hours=1), "hardly due": timedelta()}.get(what, AN_HOUR_AGO)
    _send(world, due=due)
    if what != "arrived":
        world.sql("SELECT refresh_heads(ARRAY[%s], 0)", MAIL)
    if what == "hardly due":
        world.sql("DELETE FROM heads")
    before = world.count("arrivals")
    assert world.run(verbs.note_forgotten()) == 0
    assert world.count("arrivals") == before


def test_other_queues_and_keys_say_nothing_of_a_forgotten_one(world: World) -> None:
    """Neither a head, nor an arrival, nor an ended row, nor a row in flight, of another queue or key."""
    _send(world)
    world.fail(_claim(world)[0].lease)  # ended, and blocks nothing
    id = _looked_at(world)
    world.sql("DELETE FROM heads WHERE partition_key = 'k'")
    world.enqueue(key="k", ordered=True, hold=True)
    world.fail(world.claim_ordered("A")[0].lease)
    world.enqueue(key="k", ordered=True)
    _send(world, "blocked", hold=True)
    world.fail(_claim(world)[0].lease)
    _send(world, "l")
    assert world.run(verbs.note_forgotten()) == 1
    assert id in [job.id for job in _claim(world)]


def test_a_row_that_runs_is_not_forgotten(world: World) -> None:
    _send(world)
    assert len(_claim(world)) == 1
    world.sql("DELETE FROM heads")
    assert world.run(verbs.note_forgotten()) == 0


def _key_of_the_same_bucket(world: World) -> str:
    keys = world.sql("SELECT n::text FROM generate_series(1, 20000) AS n WHERE bucket(n::text) = bucket('k') LIMIT 1")
    return str(keys[0][0])


def test_a_row_in_flight_of_a_key_in_the_same_bucket_does_not_hide_a_forgotten_run(world: World) -> None:
    _send(world, _key_of_the_same_bucket(world))
    assert len(_claim(world)) == 1
    id = _send(world)
    world.sql("SELECT refresh_heads(ARRAY[%s], 0)", MAIL)
    world.sql("UPDATE heads SET run_from = 1, run_to = from_seq WHERE partition_key = 'k'")
    assert world.run(verbs.note_forgotten()) == 1
    assert [job.id for job in _claim(world)] == [id]


@pytest.mark.parametrize("before", ["unordered", "of another queue", "of another key"])
def test_a_row_before_it_that_is_not_due_does_not_hide_a_forgotten_one(world: World, before: str) -> None:
    later = timedelta(hours=1)
    if before == "of another queue":
        world.enqueue(key="k", ordered=True, at=datetime.now(UTC) + later)
    else:
        key = _key_of_the_same_bucket(world) if before == "of another key" else "k"
        _send(world, key, ordered=before != "unordered", due=later)
    id = _send(world)
    world.sql("SELECT refresh_heads(ARRAY[%s], 0)", MAIL)
    world.sql("UPDATE heads SET due_at = 'infinity', from_seq = 1 WHERE partition_key = 'k'")
    assert world.run(verbs.note_forgotten()) == 1
    assert [job.id for job in _claim(world)] == [id]


# -- limits per key


def _in_a_lane(world: World, key: str | None = "k") -> UUID:
    world.run(queues.limit(MAIL, max_per_key=1))
    _send(world, "full", ordered=False)
    _send(world, "full", ordered=False)
    assert len(_claim_limited(world)) == 1
    id = _send(world, key, ordered=False)
    world.sql("SELECT refresh_lanes(%s, 1, 0, clock_timestamp())", MAIL)
    return id


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM key_lanes WHERE partition_key = %s",
        "UPDATE key_lanes SET from_at = clock_timestamp() WHERE partition_key = %s",
        "UPDATE key_lanes SET due_at = 'infinity' WHERE partition_key = %s",
        "WITH floor AS (UPDATE lane_priorities SET from_due = clock_timestamp() - interval '2 seconds')"
        " UPDATE key_lanes SET due_at = from_at WHERE partition_key = %s",
    ],
)
def test_a_key_under_a_limit_is_found_again(world: World, harm: str, key: str | None) -> None:
    id = _in_a_lane(world, key)
    world.sql(harm, key or "")
    assert _claim_limited(world) == []
    assert world.run(verbs.note_forgotten()) == 1
    assert world.run(verbs.note_forgotten()) == 0, "its arrival is there"
    assert [job.id for job in _claim_limited(world)] == [id]


@pytest.mark.parametrize("other", ["key", "queue", "priority"])
def test_the_lane_of_another_does_not_hide_a_forgotten_one(world: World, other: str) -> None:
    id = _in_a_lane(world)
    queue, key, priority = {"key": (MAIL, "m", 0), "queue": ("web", "k", 0), "priority": (MAIL, "k", 1)}[other]
    if queue != MAIL:
        world.run(queues.limit(queue, max_per_key=1))
        assert world.run(queues.claim_limited("A", 10, queue)) == []
    at = datetime.now(UTC) + 2 * AN_HOUR_AGO
    world.run(verbs.enqueue(NewRow("work", queue=queue, key=key, priority=priority, at=at)))
    world.sql("SELECT refresh_lanes(%s, 1, 0, clock_timestamp())", queue)
    world.sql("DELETE FROM key_lanes WHERE partition_key = 'k' AND queue = %s AND priority = 0", MAIL)
    assert world.run(verbs.note_forgotten()) == 1
    assert id in [job.id for _ in range(2) for job in _claim_limited(world)] or other == "priority"


def test_a_lane_that_begins_after_its_row_is_found_before_any_claim_has_passed_by(world: World) -> None:
    _in_a_lane(world)
    world.sql("UPDATE key_lanes SET from_at = clock_timestamp() WHERE partition_key = 'k'")
    assert world.run(verbs.note_forgotten()) == 1


def test_other_queues_and_keys_say_nothing_of_a_forgotten_lane(world: World) -> None:
    """Neither an arrival of another queue or key, nor a permit of another queue; and their floors stay."""
    world.run(queues.limit("web", max_per_key=1))
    world.enqueue(key="k", queue="web")
    assert len(world.run(queues.claim_limited("A", 10, "web"))) == 1
    _in_a_lane(world)
    world.enqueue(key="k", queue="web")
    _send(world, "new", ordered=False)
    assert sorted(world.sql("SELECT queue, partition_key FROM lane_arrivals")) == [(MAIL, "new"), ("web", "k")]
    world.sql("UPDATE key_lanes SET due_at = 'infinity' WHERE partition_key = 'k' AND queue = %s", MAIL)
    world.sql("UPDATE lane_priorities SET from_due = clock_timestamp() WHERE queue = 'web'")
    floor = world.sql("SELECT from_due FROM lane_priorities WHERE queue = 'web'")
    assert world.run(verbs.note_forgotten()) == 1
    assert world.sql("SELECT from_due FROM lane_priorities WHERE queue = 'web'") == floor


def test_lanes_of_a_forgotten_priority_are_found_again(world: World) -> None:
    id = _in_a_lane(world)
    world.sql("DELETE FROM lane_priorities")
    assert _claim_limited(world) == []
    assert world.run(verbs.note_forgotten()) == 2, "that of the full key, too"
    assert [job.id for job in _claim_limited(world)] == [id]


@pytest.mark.parametrize(
    "what",
    [
        "full",
        "running",
        "free",
        "arrived",
        "not read yet",
        "no limit",
        "no limit per key",
        "hardly due",
        "ordered",
        "at the floor",
    ],
)
def test_a_key_that_claims_under_limits_know_is_left_alone(world: World, what: str) -> None:
    if what == "no limit":
        _send(world, ordered=False)
    elif what in ("running", "no limit per key"):
        per_key = what == "running"
        world.run(queues.limit(MAIL, max_per_key=1) if per_key else queues.limit(MAIL, max_running=1))
        _send(world, ordered=False)
        assert len(_claim_limited(world)) == 1
        _send(world, "l", ordered=False)
        assert len(_claim_limited(world)) == (what == "running")
    elif what == "not read yet":
        world.run(queues.limit(MAIL, max_per_key=1))
        _send(world, ordered=False)
    else:
        id = _in_a_lane(world)
        if what == "full":
            assert [job.id for job in _claim_limited(world)] == [id]
            _send(world, ordered=False)
            assert _claim_limited(world) == []
        if what == "arrived":
            _send(world, "new", ordered=False)
        if what == "ordered":
            _send(world, "o")
            world.sql("SELECT refresh_heads(ARRAY[%s], 0)", MAIL)
        if what == "at the floor":
            world.sql("UPDATE lane_priorities SET from_due = (SELECT min(due_at) FROM key_lanes)")
        if what == "hardly due":
            world.sql("DELETE FROM key_lanes WHERE partition_key = 'k'")
            world.sql("UPDATE live SET available_at = clock_timestamp()")
            world.sql("DELETE FROM lane_arrivals")
    before = world.count("lane_arrivals")
    assert world.run(verbs.note_forgotten()) == 0
    assert world.count("lane_arrivals") == before


# -- the chore


def test_some_pages_are_looked_at_and_the_next_ones_after_them(world: World) -> None:
    _looked_at(world)
    world.sql("DELETE FROM heads WHERE partition_key = 'k'")
    world.run(verbs.enqueue_many([NewRow("work", queue="web") for _ in range(200)]))
    _send(world, "far")
    world.sql("DELETE FROM arrivals")
    assert world.run(verbs.note_forgotten(0, 1)) == 1
    assert world.run(verbs.note_forgotten(0, 1)) == 0
    assert world.run(verbs.note_forgotten(1, 1000)) == 1


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("forgotten", [False, True])
def test_what_is_due_goes_by_the_clock_and_not_by_the_transaction(world: World, limited: bool, forgotten: bool) -> None:
    other = user_connection(world)
    other.execute("SELECT now()")
    if limited:
        world.run(queues.limit(MAIL, max_per_key=1))
        assert _claim_limited(world) == []
    id = _send(world, ordered=not limited, due=timedelta())
    if limited:
        world.sql("SELECT refresh_lanes(%s, 1, 0, clock_timestamp())", MAIL)
    else:
        world.sql("SELECT refresh_heads(ARRAY[%s], 0)", MAIL)
    if forgotten:
        world.sql(f"UPDATE {'key_lanes' if limited else 'heads'} SET due_at = 'infinity'")
    assert world.run(verbs.note_forgotten(due_seconds=0), other) == int(forgotten)
    other.commit()
    assert [job.id for job in (_claim_limited if limited else _claim)(world)] == [id]


def test_a_worker_finds_what_claims_have_forgotten(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    id = _send(world)
    world.sql("DELETE FROM arrivals")
    with working(world, inbox, queues={MAIL: 1.0}, poll_seconds=60) as hired:
        (done,) = hired.saw(JobCompleted)
        assert done.job_id == id
        assert "1 forgotten key" in [event.result for event in hired.of(ChoreDone) if event.chore == "every_row"]
