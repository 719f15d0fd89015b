"""Guards that no larger promise would miss at once: each test here holds one line of the SQL in its place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from guarantees.facts import Beside, waits_for_a_lock
from tenure import verbs
from tenure.errors import StaleLease
from tenure.model.rows import NewRow
from tenure.verbs import fleet, settle
from world import World


def clock(world: World) -> datetime:
    """The database's time, now."""
    now: datetime = world.sql("SELECT clock_timestamp()")[0][0]
    return now


def test_every_time_a_verb_writes_is_the_moment_of_the_verb_and_not_of_its_transaction(world: World) -> None:
    for _ in range(5):
        world.enqueue()
    done, tried, failed, given_back = (job.lease for job in world.claim("A", 4))
    (waiting,) = [row[0] for row in world.sql("SELECT id FROM live WHERE status = 'pending'")]
    world.run(fleet.register("A"))
    world.run(fleet.register("B"))
    world.run(verbs.fence("bank", 1))
    with world.conn.transaction():
        begun = clock(world)
        world.complete(done)
        world.retry(tried, delay=0)
        world.fail(failed)
        world.release(given_back)
        world.run(verbs.cancel([waiting]))
        world.run(verbs.fence("bank", 2))
        world.run(fleet.heartbeat("A"))
        world.run(fleet.drain("B"))
    times = world.sql(
        """
        SELECT completed_at FROM archive UNION ALL SELECT finished_at FROM dead UNION ALL SELECT ended_at FROM attempts
        UNION ALL SELECT available_at FROM live UNION ALL SELECT written_at FROM fences
        UNION ALL SELECT last_seen_at FROM workers
        """
    )
    assert len(times) == 11
    assert all(time >= begun for (time,) in times)


def test_a_row_enqueued_in_a_long_transaction_is_due_from_its_own_statement_on(world: World) -> None:
    with world.conn.transaction():
        begun = clock(world)
        id = world.enqueue()
    assert world.row(id).available_at >= begun


@pytest.mark.parametrize("key", [None, "once"])
@pytest.mark.parametrize("n", [1, 2])
def test_so_is_one_with_a_key_and_one_among_many(world: World, n: int, key: str | None) -> None:
    with world.conn.transaction():
        begun = clock(world)
        if n == 1:
            world.run(verbs.enqueue(NewRow("a", idempotency_key=key)))
        else:
            world.run(verbs.enqueue_many([NewRow("a"), NewRow("a", idempotency_key=key)]))
    assert world.sql("SELECT count(*) FROM live WHERE available_at >= %s", begun) == [(n,)]


def test_a_claim_in_a_long_transaction_sees_what_became_due_meanwhile(world: World) -> None:
    other = world.connect()
    world.run(verbs.enqueue(NewRow("a", key="k", ordered=True)), other)
    with world.conn.transaction():
        clock(world)
        for ordered in (False, True):
            key = "o" if ordered else None
            world.run(verbs.enqueue(NewRow("a", key=key, ordered=ordered)), other)
        assert len(world.claim(n=2)) == 1
        assert len(world.claim_ordered()) == 2


def test_workers_are_judged_by_the_clock_even_in_a_long_transaction(world: World) -> None:
    other = world.connect()
    world.run(fleet.register("silent"))
    world.run(fleet.register("long dead"))
    with world.conn.transaction():
        clock(world)
        other.execute("UPDATE workers SET last_seen_at = clock_timestamp() WHERE id = 'silent'")
        other.execute(
            "UPDATE workers SET status = 'dead', last_seen_at = clock_timestamp() - interval '1 day'"
            " WHERE id = 'long dead'"
        )
        assert world.run(fleet.sweep_workers(ttl_seconds=0)) == {"silent": "dead", "long dead": "forgotten"}


def test_in_a_long_transaction_too_a_missed_worker_is_dead_when_its_grace_is_over(world: World) -> None:
    world.run(fleet.register("A"))
    with world.conn.transaction():
        clock(world)
        world.sql("UPDATE workers SET presence = 1")
        assert world.run(fleet.notice(grace_seconds=0)) == {"A": "gone"}
        assert world.sql("SELECT gone_at > now() FROM workers") == [(True,)]
        assert world.run(fleet.notice(grace_seconds=0)) == {"A": "dead"}
        assert world.run(fleet.notice(grace_seconds=0)) == {}, "that is news once"


def test_in_a_long_transaction_too_chores_are_due_by_the_clock(world: World) -> None:
    with world.conn.transaction():
        clock(world)
        world.sql("UPDATE chores SET every_seconds = 0, ran_at = clock_timestamp()")
        assert world.run(fleet.take_turn("A")).due
        assert world.sql("SELECT count(*) FROM chores WHERE ran_at <= now()") == [(0,)]


def old_and_over(world: World) -> None:
    """A cancelled row, and a completed one with a key, a retried attempt and an effect; beside them rows of others."""
    world.run(verbs.cancel([world.enqueue("cancelled")]))
    world.enqueue("a", idempotency_key="old")
    world.retry(world.claim_one().lease, delay=0)
    job = world.claim_one()
    world.run(verbs.once(job.lease, "mail"))
    world.complete(job.lease)
    world.enqueue("dead")
    world.dead_letter(world.claim_one().lease)
    world.enqueue("waits", delay_seconds=3600)


FORGOTTEN = ("cancelled", "idempotency_keys", "attempts", "effects")


def forgotten(world: World) -> tuple[int, ...]:
    """What housekeeping forgets of what is older than an hour."""
    answer = world.run(verbs.archive(retention_seconds=3600, key_retention_seconds=3600))
    return tuple(answer[f"{name}_forgotten"] for name in FORGOTTEN)


def test_what_is_over_is_forgotten_when_it_is_old_whoever_else_is_there(world: World) -> None:
    old_and_over(world)
    assert forgotten(world) == (0, 0, 0, 0)
    for table, column in (
        ("dead", "finished_at"), ("idempotency", "created_at"), ("attempts", "ended_at"), ("effects", "done_at"),
    ):  # fmt: skip
        world.sql(f"UPDATE {table} SET {column} = {column} - interval '1 day'")
    assert forgotten(world) == (1, 1, 1, 1)
    assert world.sql("SELECT kind FROM inbox ORDER BY kind") == [("a",), ("dead",), ("waits",)]


def test_what_somebody_has_locked_is_forgotten_another_time(world: World) -> None:
    old_and_over(world)
    world.sql("UPDATE dead SET finished_at = finished_at - interval '1 day'")
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM dead FOR UPDATE")
        assert forgotten(world)[0] == 0
    assert forgotten(world)[0] == 1


def test_a_key_that_somebody_has_locked_is_forgotten_another_time(world: World) -> None:
    old_and_over(world)
    world.sql("UPDATE idempotency SET created_at = created_at - interval '1 day'")
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM idempotency FOR UPDATE")
        assert forgotten(world)[1] == 0
    assert forgotten(world)[1] == 1


def test_housekeeping_in_a_long_transaction_counts_retention_from_the_clock(world: World) -> None:
    other = world.connect()
    with world.conn.transaction():
        clock(world)
        world.run(verbs.enqueue(NewRow("a", idempotency_key="i")), other)
        (job,) = world.run(verbs.claim("A", 1), other)
        world.run(verbs.once(job.lease, "mail"), other)
        world.run(settle.complete([job.lease]), other)
        other.execute("UPDATE idempotency SET created_at = created_at - interval '1 hour'")
        other.execute("UPDATE effects SET done_at = done_at - interval '1 hour'")
        forgotten = world.run(verbs.archive(retention_seconds=3600, key_retention_seconds=3600))
    assert (forgotten["idempotency_keys_forgotten"], forgotten["effects_forgotten"]) == (1, 1)


@pytest.mark.parametrize("buckets", [verbs.ALL_BUCKETS, None], ids=["in buckets", "anywhere"])
def test_a_floor_at_the_very_instant_of_a_row_leaves_it_in(world: World, buckets: Sequence[int] | None) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    world.enqueue(at=at)
    assert len(world.claim(buckets=buckets, floors=[at.timestamp()])) == 1


def test_a_row_completed_at_midnight_belongs_to_the_day_that_begins(world: World) -> None:
    world.enqueue()
    world.complete(world.claim_one().lease)
    third = (clock(world).astimezone(UTC) + timedelta(days=3)).replace(hour=0, minute=0, second=0, microsecond=0)
    second = third - timedelta(days=1)
    world.sql(f"DROP TABLE archive_{second:%Y%m%d}, archive_{third:%Y%m%d}")
    world.sql("UPDATE archive SET completed_at = %s", third)
    assert world.run(verbs.archive())["partitions_made"] == 1, "its own day is held by the rest, the day before is free"
    assert world.sql("SELECT to_regclass(%s) IS NOT NULL", f"archive_{second:%Y%m%d}") == [(True,)]


def test_the_tape_cannot_hold_an_attempt_twice(world: World) -> None:
    world.enqueue()
    world.retry(world.claim_one().lease)
    with pytest.raises(psycopg.errors.UniqueViolation):
        world.sql("INSERT INTO attempts SELECT * FROM attempts")


@pytest.mark.parametrize("table", ["live", "dead", "idempotency", "effects", "fences", "heads", "workers"])
def test_no_table_holds_the_same_thing_twice(world: World, table: str) -> None:
    _one_of_each(world)
    of_itself = "attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''"
    columns = ", ".join(name for (name,) in world.sql(f"SELECT attname FROM pg_attribute WHERE {of_itself}", table))
    with pytest.raises(psycopg.errors.UniqueViolation):
        world.sql(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table}")


def _one_of_each(world: World) -> None:
    world.enqueue(idempotency_key="i")
    lease = world.claim_one().lease
    world.run(verbs.once(lease, "mail"))
    world.run(verbs.fence("bank", lease.fence))
    world.run(fleet.register("A"))
    world.enqueue()
    world.fail(world.claim_one().lease)
    world.enqueue(key="k", ordered=True)
    world.claim_ordered()


@pytest.mark.parametrize("status", ["completed", "pending", "banana"])
def test_only_what_ended_badly_or_was_cancelled_is_buried(world: World, status: str) -> None:
    world.enqueue()
    world.fail(world.claim_one().lease)
    with pytest.raises(psycopg.errors.CheckViolation):
        world.sql("UPDATE dead SET status = %s", status)


@pytest.mark.parametrize(("table", "column"), [("attempts", "outcome"), ("workers", "status")])
def test_a_word_nobody_knows_is_refused(world: World, table: str, column: str) -> None:
    world.enqueue()
    world.retry(world.claim_one().lease)
    world.run(fleet.register("A"))
    with pytest.raises(psycopg.errors.CheckViolation):
        world.sql(f"UPDATE {table} SET {column} = 'banana'")


def faults(**options: Any) -> dict[str, Any]:
    """The arguments of a call of tenure.enqueue."""
    return {"kind": "a", "payload": "{}", **options}


@pytest.mark.parametrize(
    "options",
    [
        faults(kind=""),
        faults(kind="x" * 129),
        faults(kind=None),
        faults(queue=""),
        faults(queue=None),
        faults(partition_key=""),
        faults(partition_key="x" * 513),
        faults(idempotency_key=""),
        faults(payload=None),
        faults(payload='"' + "x" * 1_048_576 + '"'),
        faults(priority=101),
        faults(priority=-101),
        faults(delay_seconds=-1.0),
        faults(delay_seconds=float("inf")),
        faults(at="infinity"),
        faults(max_attempts=0),
        faults(max_attempts=10_001),
        faults(ordered=True),
        faults(hold=True, partition_key="k"),
        faults(ordered=None),
        faults(hold=None),
    ],
    ids=lambda options: "-".join(name for name in options if name not in ("kind", "payload")) or "kind or payload",
)
def test_the_sql_function_refuses_what_the_inbox_could_not_keep(world: World, options: dict[str, Any]) -> None:
    casts = {
        "payload": "jsonb",
        "at": "timestamptz",
        "priority": "int",
        "max_attempts": "int",
        "delay_seconds": "float8",
        "ordered": "boolean",
        "hold": "boolean",
    }
    named = ", ".join(f"{name} => %s::{casts.get(name, 'text')}" for name in options)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        world.sql(f"SELECT * FROM enqueue_as_given({named})", *options.values())
    assert world.count("live") == 0


def test_the_walk_over_key_heads_stays_in_its_queue_its_bucket_and_its_order(world: World) -> None:
    near, far = _keys_of_one_bucket(world)
    beside = next(f"z{n}" for n in range(100) if _bucket(world, f"z{n}") != _bucket(world, near))
    wanted = world.enqueue(key=near, ordered=True)
    world.enqueue(key=far)
    world.enqueue(key=far, ordered=True, queue="other")
    world.enqueue(key=beside, ordered=True)
    assert [job.id for job in world.claim_ordered(buckets=[_bucket(world, near)])] == [wanted]


def _bucket(world: World, key: str) -> int:
    return int(world.sql("SELECT bucket(%s)", key)[0][0])


def _keys_of_one_bucket(world: World) -> tuple[str, str]:
    rows = world.sql(
        "SELECT min(k), max(k) FROM (SELECT 'a' || n AS k FROM generate_series(1, 5000) AS n) AS keys"
        " GROUP BY bucket(k) HAVING count(*) > 1 LIMIT 1"
    )
    return rows[0][0], rows[0][1]


def test_in_a_long_transaction_leases_are_counted_from_the_clock(world: World) -> None:
    world.enqueue(key="k", ordered=True)
    world.enqueue()
    renewed = world.claim_one("A").lease
    with world.conn.transaction():
        while not world.sql("SELECT clock_timestamp() - now() > interval '20 ms'")[0][0]:
            """The transaction has to be old enough to tell its start from now."""
        begun = clock(world)
        (job,) = world.claim_ordered(lease_seconds=60)
        (kept,) = world.run(verbs.renew([renewed], lease_seconds=60)).kept
        left = world.run(verbs.holding(kept))
        entered = world.run(verbs.enter(kept)).seconds_left
        ((timeout,),) = world.sql(
            "SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
        )
        now = clock(world)
    claimed_at = world.row(job.id).claimed_at
    assert claimed_at is not None
    assert claimed_at >= begun
    assert job.lease.expires_at >= begun + timedelta(seconds=60)
    assert kept.expires_at >= begun + timedelta(seconds=60)
    assert left <= (kept.expires_at - begun).total_seconds()
    assert left >= entered >= (kept.expires_at - now).total_seconds()
    assert timeout <= 1000 * (kept.expires_at - begun).total_seconds() + 1


def test_a_worker_that_is_not_dead_is_never_forgotten(world: World) -> None:
    world.run(fleet.register("quiet"))
    world.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '2 days'")
    assert world.run(fleet.sweep_workers(ttl_seconds=10 * 86_400)) == {}
    assert world.count("workers") == 1


def test_a_dead_worker_whose_row_is_locked_is_forgotten_another_time(world: World) -> None:
    world.run(fleet.register("dead"))
    world.sql("UPDATE workers SET status = 'dead', last_seen_at = last_seen_at - interval '2 days'")
    other = world.connect()
    with other.transaction():
        other.execute("SELECT id FROM workers FOR UPDATE")
        assert Beside(lambda: world.run(fleet.sweep_workers())).result() == {}
    assert world.run(fleet.sweep_workers()) == {"dead": "forgotten"}


def test_claims_at_once_after_a_restart_begin_at_the_same_place(world: World) -> None:
    world.enqueue()
    world.enqueue()
    world.sql("UPDATE incarnation SET started_at = NULL")
    first, second = world.connect(), world.connect()
    with first.transaction():
        world.run(verbs.claim("A", 1), first)
        waiting = Beside(lambda: world.run(verbs.claim("B", 1), second))
        waits_for_a_lock(world, second)
        begun = first.execute("SELECT epoch, ahead FROM incarnation").fetchall()
    assert len(waiting.result()) == 1
    assert world.sql("SELECT epoch, ahead FROM incarnation") == begun


def test_a_lease_that_ran_out_since_the_transaction_began_is_not_entered(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    other = world.connect()
    with world.conn.transaction():
        clock(world)
        other.execute("UPDATE live SET lease_expires_at = clock_timestamp()")
        with pytest.raises(StaleLease):
            world.run(verbs.enter(lease))


def test_a_copy_of_the_schema_raises_the_epoch_on_the_same_server_too(world: World) -> None:
    """What a dump restored beside the original, or over it, looks like from inside: the table is another."""
    world.enqueue()
    world.enqueue()
    before = world.claim_one().lease.epoch
    world.sql("UPDATE incarnation SET table_oid = 1")
    assert world.claim_one().lease.epoch == before + 1


def test_two_restores_of_one_backup_hand_out_different_tokens_the_later_the_larger(world: World) -> None:
    world.enqueue()
    world.claim_one()
    tokens = []
    for _ in range(2):
        world.sql("UPDATE live SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, "
                  "claim_id = NULL, lease_generation = 1, fence_token = 0")  # fmt: skip
        world.sql("UPDATE incarnation SET epoch = 1, ahead = 0, table_oid = 1")
        world.sql("SELECT setval('fence_seq', 17)")
        tokens.append(world.claim_one().lease)
    first, second = tokens
    assert first.generation == second.generation == 2
    assert first.fence < second.fence
    assert (world.complete(first).standing, world.complete(second).standing) == ("stale", "applied")


@pytest.mark.parametrize(
    ("key", "ordered", "said"),
    [("", False, "has 0 bytes"), ("", True, "has 0 bytes"), (None, True, "an ordered row needs a partition_key")],
)
def test_a_key_under_which_nothing_could_be_claimed_comes_in_by_no_way(
    world: World, key: str | None, ordered: bool, said: str
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match=said):
        world.sql("INSERT INTO live (kind, payload, partition_key, ordered) VALUES ('k', '{}', %s, %s)", key, ordered)
    copy = world.conn.cursor().copy("COPY live (kind, payload, partition_key, ordered) FROM STDIN")
    with pytest.raises(psycopg.errors.CheckViolation, match=said), copy as rows:
        rows.write_row(("k", "{}", key, ordered))
    assert world.count("live") == 0


def test_the_sql_function_does_not_choose_between_two_times(world: World) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="two answers to one question"):
        world.sql("SELECT enqueue('k', '{}', at => now(), delay_seconds => 1)")
    assert world.count("live") == 0
