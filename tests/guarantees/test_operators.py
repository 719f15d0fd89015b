"""What operators may do: cancel, redrive, and keep the archive, none of which hands out a token twice."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.model.rows import Lane
from tenure.verbs import questions, settle
from world import World

# -- cancel


def test_a_pending_row_is_cancelled_at_once(world: World) -> None:
    id = world.enqueue(key="order:1", idempotency_key="k")
    assert world.run(verbs.cancel([id], reason="asked by the customer")) == {id: "cancelled"}
    row = world.row(id)
    assert (row.status, row.last_error, row.finished_by) == ("cancelled", "asked by the customer", None)
    assert (row.partition_key, row.idempotency_key) == ("order:1", "k")
    assert row.finished_at is not None
    assert world.claim() == []


def test_a_row_cancelled_between_attempts_keeps_its_token_and_its_tape(world: World) -> None:
    id = world.enqueue()
    lease = world.claim_one("A").lease
    world.retry(lease)
    assert world.run(verbs.cancel([id])) == {id: "cancelled"}
    row = world.row(id)
    assert (row.lease_generation, row.fence_token, row.attempts) == (1, lease.fence, 1)
    assert [attempt.outcome for attempt in world.run(questions.tape(id))] == ["retried"]


def test_the_holder_of_a_processing_row_is_asked_and_learns_it_when_it_renews(world: World) -> None:
    first, second = world.enqueue(), world.enqueue()
    leases = [job.lease for job in world.claim("A", 2)]
    assert world.run(verbs.renew(leases)).cancel_asked == frozenset()
    assert world.run(verbs.cancel([first])) == {first: "asked"}
    assert world.status(first) == "processing"
    assert world.row(first).cancel_asked
    renewed = world.run(verbs.renew(leases))
    assert renewed.cancel_asked == frozenset([first])
    assert len(renewed.kept) == 2
    assert not world.row(second).cancel_asked


@pytest.mark.parametrize("end", ["release", "retry", "expiry"])
def test_a_row_whose_holder_was_asked_never_becomes_pending_again(world: World, end: str) -> None:
    id = world.enqueue()
    lease = world.claim_one("A").lease
    world.run(verbs.cancel([id]))
    if end == "expiry":
        world.expire(lease)
        assert [each.status for each in world.sweep()] == ["cancelled"]
    else:
        assert getattr(world, end)(lease).status == "cancelled"
    assert world.status(id) == "cancelled"
    assert world.claim() == []
    assert getattr(world, "release" if end == "expiry" else end)(lease).standing in ("already_mine", "stale")


@pytest.mark.parametrize(
    ("end", "status"), [("complete", "completed"), ("fail", "failed"), ("dead_letter", "dead_letter")]
)
def test_a_holder_that_was_asked_may_still_end_its_row(world: World, end: str, status: str) -> None:
    id = world.enqueue()
    lease = world.claim_one("A").lease
    world.run(verbs.cancel([id]))
    assert getattr(world, end)(lease).standing == "applied"
    assert world.status(id) == status


@pytest.mark.parametrize("end", ["complete", "fail", "dead_letter", "cancel"])
def test_a_row_that_has_ended_cannot_be_cancelled(world: World, end: str) -> None:
    id = world.enqueue()
    if end == "cancel":
        world.run(verbs.cancel([id]))
    else:
        getattr(world, end)(world.claim_one().lease)
    before = world.row(id)
    assert world.run(verbs.cancel([id])) == {}
    assert world.row(id) == before


def test_many_rows_are_cancelled_at_once_each_after_its_state(world: World) -> None:
    ids = [world.enqueue() for _ in range(4)]
    held = {job.id for job in world.claim("A", 2)}
    assert world.run(verbs.cancel(ids)) == {id: "asked" if id in held else "cancelled" for id in ids}
    assert (world.count("live"), world.count("dead")) == (2, 2)


def test_a_cancel_that_waited_for_a_claim_asks_its_holder(world: World) -> None:
    id = world.enqueue()
    claimer = user_connection(world)
    (job,) = world.run(verbs.claim("A", 1), claimer)
    waiting = Beside(lambda: world.run(verbs.cancel([id])))
    waits_for_a_lock(world, world.conn)
    claimer.commit()
    assert waiting.result() == {id: "asked"}
    assert world.release(job.lease).status == "cancelled"


def test_a_cancel_that_waited_for_a_release_cancels_the_row(world: World) -> None:
    id = world.enqueue()
    lease = world.claim_one("A").lease
    holder = user_connection(world)
    world.run(settle.release([lease]), holder)
    waiting = Beside(lambda: world.run(verbs.cancel([id])))
    waits_for_a_lock(world, world.conn)
    holder.commit()
    assert waiting.result() == {id: "cancelled"}
    assert world.status(id) == "cancelled"
    assert world.count("live") == 0


# -- redrive


@pytest.mark.parametrize("end", ["fail", "dead_letter"])
def test_a_redriven_row_gets_fresh_attempts_and_keeps_its_token(world: World, end: str) -> None:
    id = world.enqueue(
        "send_receipt", {"order_id": 9182}, key="order:1", queue="mail", priority=3, idempotency_key="k", max_attempts=2
    )
    first = world.claim_one("A", lanes=[Lane("mail", 3)]).lease
    getattr(world, end)(first, "no such SKU")
    dead = world.row(id)
    assert world.run(verbs.redrive([id])) == [id]
    row = world.row(id)
    assert (row.status, row.attempts, row.lease_generation, row.fence_token) == ("pending", 0, 1, first.fence)
    for name in (
        "kind",
        "payload",
        "partition_key",
        "queue",
        "priority",
        "idempotency_key",
        "max_attempts",
        "created_at",
    ):
        assert getattr(row, name) == getattr(dead, name)
    assert row.last_error == "no such SKU"
    second = world.claim_one("A", lanes=[Lane("mail", 3)]).lease
    assert second.generation == 2
    assert second.fence > first.fence
    assert world.complete(first).reason == "token_mismatch"
    assert world.complete(second).ok


def test_a_second_redrive_finds_nothing_to_do(world: World) -> None:
    id = world.enqueue()
    world.fail(world.claim_one().lease)
    assert world.run(verbs.redrive([id])) == [id]
    before = world.row(id)
    assert world.run(verbs.redrive([id])) == []
    assert world.row(id) == before


def test_redrives_at_once_bring_a_row_back_once(world: World) -> None:
    ids = [world.enqueue() for _ in range(20)]
    for job in world.claim("A", 20):
        world.fail(job.lease)
    connections = [world.connect() for _ in range(4)]
    answers = together(4, lambda n: world.run(verbs.redrive(ids[:: -1 if n % 2 else 1]), connections[n]))
    assert sorted(id for answer in answers for id in answer) == sorted(ids)
    assert (world.count("live"), world.count("dead")) == (20, 0)


def test_cancelled_completed_and_unknown_rows_are_not_redriven(world: World) -> None:
    cancelled, completed = world.enqueue(), world.enqueue()
    world.run(verbs.cancel([cancelled]))
    world.complete(world.claim_one().lease)
    assert world.run(verbs.redrive([cancelled, completed])) == []
    assert (world.status(cancelled), world.status(completed)) == ("cancelled", "completed")


def test_a_redriven_row_remembers_its_attempts_on_the_tape(world: World) -> None:
    id = world.enqueue()
    world.fail(world.claim_one("A").lease)
    world.run(verbs.redrive([id]))
    world.complete(world.claim_one("B").lease)
    assert [(a.lease_generation, a.worker, a.outcome) for a in world.run(questions.tape(id))] == [
        (1, "A", "failed"), (2, "B", "completed"),
    ]  # fmt: skip


# -- archive


def _age(world: World, n: int, unit: str = "day") -> None:
    """Let everything that is remembered have happened so many days ago."""
    for table, column in (
        ("idempotency", "created_at"), ("attempts", "ended_at"), ("effects", "done_at"), ("dead", "finished_at"),
        ("archive", "completed_at"),
    ):  # fmt: skip
        world.sql(f"UPDATE {table} SET {column} = {column} - %s * interval '1 {unit}'", n)


def _partition(world: World, day: date) -> None:
    bounds = f"FROM ('{day}') TO ('{day + timedelta(days=1)}')"
    world.sql(f"CREATE TABLE archive_{day:%Y%m%d} PARTITION OF archive FOR VALUES {bounds}")


def test_there_is_a_partition_for_today_and_the_coming_days(world: World) -> None:
    today = datetime.now(UTC).date()
    names = [f"archive_{today + timedelta(days=ahead):%Y%m%d}" for ahead in range(4)]
    found = world.sql(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'archive'::regclass ORDER BY 1"
    )
    assert [name for (name,) in found] == [*names, "archive_rest"]
    world.enqueue()
    world.complete(world.claim_one().lease)
    assert world.count(names[0]) == 1


def test_keeping_the_archive_twice_changes_nothing(world: World) -> None:
    assert set(world.run(verbs.archive()).values()) == {0}
    kept = world.run(verbs.archive())
    assert set(kept) == {
        "step_days_made", "step_days_dropped", "stray_steps_forgotten", "signals_forgotten",
        "batches_forgotten", "results_forgotten", "result_days_made", "progress_forgotten",
        "partitions_made", "partitions_dropped", "partitions_locked", "stray_rows_forgotten", "cancelled_forgotten",
        "rows_forgotten",
        "idempotency_keys_forgotten", "attempts_forgotten", "effects_forgotten",
        "slots_forgotten", "refusals_forgotten", "memberships_forgotten",
    }  # fmt: skip


def test_a_missing_partition_is_made_and_holds_its_day(world: World) -> None:
    last = world.sql(
        "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhrelid::regclass::text ~ '^archive_[0-9]+$'"
    )
    world.sql(f"DROP TABLE {last[0][0]}")
    assert world.run(verbs.archive())["partitions_made"] == 1
    assert world.run(verbs.archive())["partitions_made"] == 0


def test_a_day_without_a_partition_is_held_by_the_rest_and_blocks_nothing(world: World) -> None:
    today = f"archive_{datetime.now(UTC):%Y%m%d}"
    world.sql(f"DROP TABLE {today}")
    id = world.enqueue()
    world.complete(world.claim_one().lease)
    assert world.status(id) == "completed"
    assert world.count("archive_rest") == 1
    assert world.run(verbs.archive())["partitions_made"] == 0
    assert world.status(id) == "completed"


def test_days_past_retention_are_dropped_whole_and_younger_ones_kept(world: World) -> None:
    for days in (20, 10):
        day = datetime.now(UTC).date() - timedelta(days=days)
        _partition(world, day)
    assert world.run(verbs.archive())["partitions_dropped"] == 1
    assert world.run(verbs.archive(retention_seconds=5 * 86_400))["partitions_dropped"] == 1


def test_stray_rows_past_retention_are_forgotten_in_batches(world: World) -> None:
    for _ in range(3):
        world.enqueue()
    for job in world.claim("A", 3):
        world.complete(job.lease)
    _age(world, 15)
    assert world.count("archive_rest") == 3
    assert world.run(verbs.archive(n=2))["stray_rows_forgotten"] == 2
    assert world.run(verbs.archive(n=2))["stray_rows_forgotten"] == 1
    assert world.count("archive") == 0


def test_an_idempotency_key_is_forgotten_when_its_time_and_its_row_are_over(world: World) -> None:
    def outcome() -> Any:
        return world.enqueued(idempotency_key="k").outcome

    assert outcome() == "enqueued"
    _age(world, 31)
    assert world.run(verbs.archive())["idempotency_keys_forgotten"] == 0  # the row is still to be done
    assert outcome() == "duplicate"
    lease = world.claim_one().lease
    assert world.run(verbs.archive())["idempotency_keys_forgotten"] == 0
    world.fail(lease)
    assert world.run(verbs.archive())["idempotency_keys_forgotten"] == 0  # it may be redriven
    world.run(verbs.redrive([lease.id]))
    world.complete(world.claim_one().lease)
    assert world.run(verbs.archive(key_retention_seconds=40 * 86_400))["idempotency_keys_forgotten"] == 0
    assert outcome() == "duplicate"
    assert world.run(verbs.archive())["idempotency_keys_forgotten"] == 1
    assert outcome() == "enqueued"


def test_a_young_idempotency_key_is_kept(world: World) -> None:
    world.enqueue(idempotency_key="k")
    world.complete(world.claim_one().lease)
    _age(world, 29)
    assert world.run(verbs.archive())["idempotency_keys_forgotten"] == 0


def test_the_tape_and_the_effects_go_with_their_row_and_not_before(world: World) -> None:
    done, dead = world.enqueue(), world.enqueue(max_attempts=1)
    for job in world.claim("A", 2):
        world.run(verbs.once(job.lease, "receipt"))
        world.retry(job.lease, delay=0)
    assert world.status(dead) == "dead_letter"
    _age(world, 15)
    kept = world.run(verbs.archive())
    assert (kept["attempts_forgotten"], kept["effects_forgotten"]) == (0, 0)
    world.complete(world.claim_one().lease)
    kept = world.run(verbs.archive())
    assert (kept["attempts_forgotten"], kept["effects_forgotten"]) == (1, 1)
    assert len(world.run(questions.tape(dead))) == 1
    assert world.status(done) == "completed"


def test_an_effect_younger_than_retention_is_kept_and_an_older_one_goes_while_others_live(world: World) -> None:
    world.enqueue()
    job = world.claim_one()
    world.run(verbs.once(job.lease, "receipt"))
    world.complete(job.lease)
    assert world.run(verbs.archive())["effects_forgotten"] == 0
    _age(world, 15)
    world.enqueue()
    assert world.run(verbs.archive())["effects_forgotten"] == 1


def test_what_is_younger_than_an_hour_is_kept_whatever_retention_is_asked_for(world: World) -> None:
    """Workers may call it, and a worker that is not itself must not be able to empty the archive or free the keys."""
    cancelled = world.enqueue(delay_seconds=60)
    world.run(verbs.cancel([cancelled]))
    world.enqueue(idempotency_key="k")
    job = world.claim_one()
    world.run(verbs.once(job.lease, "receipt"))
    world.retry(job.lease, delay=0)
    world.complete(world.claim_one().lease)
    for span in ("0", "-10 days"):
        kept = dict(world.sql("SELECT what, n FROM keep_archive(%s, %s, 100000)", span, span))
        assert {what for what, n in kept.items() if n} == set()
    assert world.status(cancelled) == "cancelled"
    assert world.enqueued(idempotency_key="k").outcome == "duplicate"
    _age(world, 2, "hour")
    kept = dict(world.sql("SELECT what, n FROM keep_archive('-10 days', '-10 days', 100000)"))
    gone = ("cancelled", "idempotency_keys", "attempts", "effects")
    assert [kept[f"{what}_forgotten"] for what in gone] == [1, 1, 1, 1]


def test_no_more_than_so_many_are_forgotten_at_once(world: World) -> None:
    world.sql("INSERT INTO idempotency SELECT n::text, new_id(), '', 'epoch' FROM generate_series(1, 10001) AS n")
    assert dict(world.sql("SELECT what, n FROM keep_archive(batch => 100000)"))["idempotency_keys_forgotten"] == 10_000


@pytest.mark.parametrize("how", ["drop", "make"])
def test_a_day_that_somebody_has_locked_undoes_nothing_else_of_the_round(world: World, how: str) -> None:
    world.enqueue(idempotency_key="k")
    world.complete(world.claim_one().lease)
    _age(world, 31)
    today = datetime.now(UTC).date()
    _partition(world, today - timedelta(days=20))
    if how == "make":
        world.sql(f"DROP TABLE archive_{today + timedelta(days=3):%Y%m%d}")
    reader = world.connect()
    table = "archive_rest" if how == "make" else f"archive_{today - timedelta(days=20):%Y%m%d}"
    with reader.transaction():
        reader.execute(f"SELECT count(*) FROM {table}".encode())
        kept = world.run(verbs.archive())
    assert kept["idempotency_keys_forgotten"] == 1
    assert (kept["partitions_made"], kept["partitions_dropped"]) == (0, 0)
    assert kept["partitions_locked"] == (2 if how == "make" else 1), "to drop a day takes the same lock"
    assert world.count("idempotency") == 0
    kept = world.run(verbs.archive())
    assert (kept["partitions_made"], kept["partitions_dropped"]) == (int(how == "make"), 1)
    assert kept["partitions_locked"] == 0


def test_a_stray_row_of_another_day_does_not_keep_todays_partition_from_being_made(world: World) -> None:
    today = f"archive_{datetime.now(UTC):%Y%m%d}"
    world.sql(f"DROP TABLE {today}")
    world.enqueue()
    world.complete(world.claim_one().lease)
    world.sql("UPDATE archive_rest SET completed_at = completed_at - interval '3 days'")
    assert world.run(verbs.archive())["partitions_made"] == 1


def test_a_table_of_somebody_elses_is_not_dropped_for_its_name(world: World) -> None:
    world.sql("CREATE TABLE theirs (day date) PARTITION BY LIST (day)")
    world.sql("CREATE TABLE archive_20200101 PARTITION OF theirs FOR VALUES IN ('2020-01-01')")
    assert world.run(verbs.archive())["partitions_dropped"] == 0
    assert world.count("archive_20200101") == 0


def test_cancelled_rows_are_forgotten_and_dead_letters_never(world: World) -> None:
    cancelled, failed, dead = (world.enqueue(key=f"order:{n}") for n in range(3))
    world.run(verbs.cancel([cancelled]))
    jobs = {job.id: job.lease for job in world.claim("A", 3)}
    world.fail(jobs[failed])
    world.dead_letter(jobs[dead])
    assert world.run(verbs.archive())["cancelled_forgotten"] == 0
    _age(world, 15)
    assert world.run(verbs.archive())["cancelled_forgotten"] == 1
    assert world.run(questions.row(cancelled)) is None
    assert (world.status(failed), world.status(dead)) == ("failed", "dead_letter")


def test_an_archive_that_cannot_have_its_lock_gives_up_within_seconds_and_loses_nothing(world: World) -> None:
    day = datetime.now(UTC).date() - timedelta(days=20)
    _partition(world, day)
    reader = user_connection(world)
    reader.execute("SELECT count(*) FROM archive")
    with contextlib.suppress(psycopg.errors.LockNotAvailable):
        assert world.run(verbs.archive())["partitions_dropped"] == 0
    reader.rollback()
    assert world.run(verbs.archive())["partitions_dropped"] == 1
    assert world.sql("SHOW lock_timeout") == [("0",)]
