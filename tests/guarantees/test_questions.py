"""What on-call may ask, and that the answers are true: plain queries by hand, and ours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from guarantees.facts import user_connection
from tenure import verbs
from tenure.model.rows import Lane
from tenure.verbs import questions
from tenure.verbs.statement import Statement
from world import World

# Three support queries as people have them in their notes.
OLDEST_PENDING = """
SELECT now() - min(created_at) AS oldest_pending_age
FROM inbox
WHERE status = 'pending';
"""
STUCK = """
SELECT id, partition_key, claimed_by, lease_expires_at, attempts, last_error
FROM inbox
WHERE status = 'processing'
  AND lease_expires_at < now()
ORDER BY lease_expires_at
LIMIT 50;
"""
DEAD_LETTERS = """
SELECT partition_key, count(*) AS dead_letters, max(last_error) AS sample_error
FROM inbox
WHERE status = 'dead_letter'
GROUP BY partition_key
ORDER BY dead_letters DESC;
"""
PLAIN_COLUMNS = {
    "id": "uuid", "partition_key": "text", "partition_bucket": "integer", "payload": "jsonb", "status": "text",
    "attempts": "integer", "max_attempts": "integer", "claimed_by": "text", "claimed_at": "timestamp with time zone",
    "lease_expires_at": "timestamp with time zone", "lease_generation": "bigint",
    "available_at": "timestamp with time zone", "completed_at": "timestamp with time zone", "last_error": "text",
    "idempotency_key": "text", "created_at": "timestamp with time zone",
}  # fmt: skip


def test_the_plain_oldest_pending_query_runs_as_written(world: World) -> None:
    assert world.sql(OLDEST_PENDING) == [(None,)]
    world.enqueue()
    world.sql("UPDATE live SET created_at = created_at - interval '1 hour'")
    ((age,),) = world.sql(OLDEST_PENDING)
    assert timedelta(hours=1) <= age < timedelta(hours=1, minutes=1)


def test_the_plain_stuck_query_runs_as_written(world: World) -> None:
    world.enqueue(key="order:1")
    world.enqueue(key="order:2")
    first, second = world.claim("A", 2)
    assert world.sql(STUCK) == []
    world.expire(first.lease)
    ((id, key, worker, expires, attempts, error),) = world.sql(STUCK)
    assert (id, key, worker, attempts, error) == (first.id, first.partition_key, "A", 1, None)
    assert expires < datetime.now(UTC)
    assert second.id != id


def test_the_plain_dead_letter_query_runs_as_written(world: World) -> None:
    for key in ("order:1", "order:1", "order:2"):
        world.enqueue(key=key)
    for job in world.claim("A", 3):
        world.dead_letter(job.lease, "no such SKU")
    assert world.sql(DEAD_LETTERS) == [("order:1", 2, "no such SKU"), ("order:2", 1, "no such SKU")]


def test_the_inbox_view_has_every_column_that_plain_queries_name(world: World) -> None:
    found = dict(
        world.sql(
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = 'inbox'",
            world.schema,
        )
    )
    assert {name: found.get(name) for name in PLAIN_COLUMNS} == PLAIN_COLUMNS


def _every_state(world: World) -> dict[str, UUID]:
    """One row in each state."""
    ids: dict[str, UUID] = {}
    for state in ("completed", "failed", "dead_letter", "processing"):
        ids[state] = world.enqueue(state, {"state": state}, key=f"key:{state}", queue="busy", idempotency_key=state)
    jobs = {job.kind: job for job in world.claim("A", 10, lanes=[Lane("busy")])}
    world.complete(jobs["completed"].lease)
    world.fail(jobs["failed"].lease, "no such SKU")
    world.dead_letter(jobs["dead_letter"].lease, "poison")
    for state, options in (("pending", {}), ("scheduled", {"delay_seconds": 600}), ("cancelled", {})):
        ids[state] = world.enqueue(state, {"state": state}, key=f"key:{state}", **options)
    world.run(verbs.cancel([ids["cancelled"]], reason="asked by the customer"))
    return ids


def test_every_row_is_in_the_inbox_whatever_its_state(world: World) -> None:
    ids = _every_state(world)
    for state, id in ids.items():
        row = world.row(id)
        assert row.status == ("pending" if state == "scheduled" else state)
        assert (row.kind, row.partition_key, row.payload) == (state, f"key:{state}", f'{{"state": "{state}"}}')
        assert row.partition_bucket == world.sql("SELECT bucket(%s)", row.partition_key)[0][0]
        assert (row.claimed_by is not None) == (row.lease_expires_at is not None) == (state == "processing")
        assert (row.completed_at is not None) == (state == "completed")
        assert (row.finished_at is not None) == (state in ("completed", "failed", "dead_letter", "cancelled"))
        assert row.finished_by == ("A" if state in ("completed", "failed", "dead_letter") else None)
    assert world.run(questions.row(UUID(int=1))) is None


def test_the_tape_tells_the_whole_story(world: World) -> None:
    id = world.enqueue(max_attempts=9)
    world.retry(world.claim_one("A").lease, "boom", delay=0)
    world.release(world.claim_one("B").lease)
    lease = world.claim_one("C").lease
    world.expire(lease)
    world.sweep()
    world.due()
    running = world.claim_one("D").lease
    tape = world.run(questions.tape(id))
    assert [(a.lease_generation, a.worker, a.outcome, a.error) for a in tape] == [
        (1, "A", "retried", "boom"), (2, "B", "released", None), (3, "C", "expired", "lease expired"),
        (4, "D", "processing", None),
    ]  # fmt: skip
    assert [a.fence_token for a in tape] == sorted({a.fence_token for a in tape})
    assert tape[-1].ended_at is None
    world.complete(running)
    last = world.run(questions.tape(id))[-1]
    assert (last.worker, last.outcome) == ("D", "completed")
    assert last.ended_at is not None
    assert world.run(questions.tape(UUID(int=1))) == []


def test_depth_counts_by_queue_and_state_and_scheduled_rows_apart(world: World) -> None:
    _every_state(world)
    assert {(d.queue, d.status): d.rows for d in world.run(questions.depth())} == {
        ("busy", "failed"): 1, ("busy", "dead_letter"): 1, ("busy", "processing"): 1,
        ("default", "pending"): 1, ("default", "scheduled"): 1, ("default", "cancelled"): 1,
    }  # fmt: skip


# -- lag


def _since(world: World, id: UUID, seconds: float) -> None:
    world.sql("UPDATE live SET available_at = clock_timestamp() - %s * interval '1 second' WHERE id = %s", seconds, id)


@pytest.mark.parametrize("ordered", [False, True])
def test_lag_is_the_age_of_the_oldest_row_that_could_run(world: World, ordered: bool) -> None:
    assert world.run(questions.oldest_runnable()) == {}
    world.enqueue(delay_seconds=7 * 86_400, key="k:1", ordered=ordered)
    assert world.run(questions.oldest_runnable()) == {}  # scheduled for next week: no lag
    old, young, other = (
        world.enqueue(key=f"k:{n}", ordered=ordered, queue=q) for n, q in ((2, "a"), (3, "a"), (4, "b"))
    )
    for id, seconds in ((old, 100), (young, 50), (other, 10)):
        _since(world, id, seconds)
    lag = world.run(questions.oldest_runnable())
    assert 100 <= lag["a"] < 110
    assert 10 <= lag["b"] < 20


def test_what_is_held_or_has_ended_has_no_lag(world: World) -> None:
    first, second = world.enqueue(key="k"), world.enqueue(key="k")
    _since(world, first, 1000)
    job = world.claim_one()
    assert job.id == first
    _since(world, second, 100)
    assert 100 <= world.run(questions.oldest_runnable())["default"] < 110
    world.complete(job.lease)
    world.complete(world.claim_one().lease)
    assert world.run(questions.oldest_runnable()) == {}


@pytest.mark.parametrize("head", ["held", "on hold for an operator"])
def test_a_row_behind_a_taken_key_has_no_lag(world: World, head: str) -> None:
    world.enqueue(key="k", ordered=True, hold=True)
    world.enqueue(key="k", ordered=True)
    (job,) = world.claim_ordered()
    if head != "held":
        world.fail(job.lease)
    assert world.run(questions.oldest_runnable()) == {}


def test_a_row_behind_a_head_that_waits_for_its_time_has_no_lag(world: World) -> None:
    world.enqueue(key="k", ordered=True, delay_seconds=3600)
    _since(world, world.enqueue(key="k", ordered=True), 100)
    assert world.claim_ordered() == []  # it cannot run: its head blocks the key
    assert world.run(questions.oldest_runnable()) == {}


# -- stuck, blocked keys


def test_stuck_rows_are_those_past_their_lease_the_longest_first(world: World) -> None:
    for n in range(3):
        world.enqueue(key=f"order:{n}")
    jobs = world.claim("A", 3)
    assert world.run(questions.stuck()) == []
    world.expire(jobs[0].lease)
    world.expire(jobs[1].lease)
    world.sql("UPDATE live SET lease_expires_at = lease_expires_at - interval '1 hour' WHERE id = %s", jobs[1].id)
    stuck = world.run(questions.stuck())
    assert [(s.id, s.claimed_by, s.attempts) for s in stuck] == [(jobs[1].id, "A", 1), (jobs[0].id, "A", 1)]
    assert len(world.run(questions.stuck(n=1))) == 1
    world.sweep()
    assert world.run(questions.stuck()) == []


def test_blocked_keys_name_the_row_in_the_way_and_how_many_wait(world: World) -> None:
    heads = {}
    for key, options in (
        ("held", {}),
        ("scheduled", {"delay_seconds": 60}),
        ("operator", {"hold": True}),
        ("free", {}),
    ):
        heads[key] = world.enqueue(key=key, ordered=True, **options)
    for key, n in (("held", 1), ("scheduled", 3), ("operator", 2)):
        for _ in range(n):
            world.enqueue(key=key, ordered=True)
    jobs = {job.partition_key: job for job in world.claim_ordered()}
    world.fail(jobs["operator"].lease)
    world.release(jobs["free"].lease)
    blocked = world.run(questions.blocked_keys())
    assert [(b.partition_key, b.head, b.status, b.reason, b.waiting) for b in blocked] == [
        ("scheduled", heads["scheduled"], "pending", "scheduled", 3),
        ("operator", heads["operator"], "failed", "waits_for_operator", 2),
        ("held", heads["held"], "processing", "held", 1),
    ]
    assert len(world.run(questions.blocked_keys(n=1))) == 1


# -- rows are owned wholly or not at all


@pytest.mark.parametrize("column", ["claimed_by", "claimed_at", "lease_expires_at", "claim_id"])
def test_a_half_owned_row_cannot_exist(world: World, column: str) -> None:
    world.enqueue()
    world.enqueue()
    held = world.claim_one("A").id
    value = {"claimed_by": "'A'", "claim_id": "1"}.get(column, "clock_timestamp()")
    with pytest.raises(psycopg.errors.CheckViolation, match="live_state"):
        world.sql(f"UPDATE live SET {column} = NULL WHERE id = %s", held)
    with pytest.raises(psycopg.errors.CheckViolation, match="live_state"):
        world.sql(f"UPDATE live SET {column} = {value} WHERE id <> %s", held)


@pytest.mark.parametrize(
    "columns", ["claimed_by", "claimed_at", "lease_expires_at", "claim_id", "status", "status, claimed_by, claimed_at"]
)
def test_nor_can_it_be_inserted(world: World, columns: str) -> None:
    values = {"claimed_by": "'A'", "claim_id": "1", "status": "'processing'"}
    given = ", ".join(values.get(column, "clock_timestamp()") for column in columns.split(", "))
    with pytest.raises(psycopg.errors.CheckViolation, match="live_state"):
        world.sql(f"INSERT INTO live (kind, payload, {columns}) VALUES ('k', '{{}}', {given})")


@pytest.mark.parametrize("token", [-1, 2**62 + 1])
def test_a_token_that_would_end_every_worker_is_refused(world: World, token: int) -> None:
    world.enqueue()
    with pytest.raises(psycopg.errors.CheckViolation, match="live_state"):
        world.sql("UPDATE live SET lease_generation = %s", token)
    with pytest.raises(psycopg.errors.CheckViolation, match="live_state"):
        world.sql("INSERT INTO live (kind, payload, lease_generation) VALUES ('k', '{}', %s)", token)


@pytest.mark.parametrize("status", ["completed", "failed", "dead_letter", "cancelled", "", "Pending"])
def test_a_live_row_is_pending_or_processing_and_nothing_else(world: World, status: str) -> None:
    world.enqueue()
    with pytest.raises(psycopg.errors.CheckViolation):
        world.sql("UPDATE live SET status = %s", status)


def test_questions_may_be_asked_in_a_read_only_transaction(world: World) -> None:
    ids = _every_state(world)
    conn = user_connection(world)
    conn.execute("SET TRANSACTION READ ONLY")
    id = ids["processing"]
    asked: list[Statement[Any]] = [
        questions.row(id), questions.tape(id), questions.why(id), questions.depth(),
        questions.oldest_runnable(), questions.stuck(), questions.blocked_keys(),
        questions.live_workers(), questions.lanes(), questions.claimed("A", 1), questions.migrations(),
    ]  # fmt: skip
    for question in asked:
        world.run(question, conn)
