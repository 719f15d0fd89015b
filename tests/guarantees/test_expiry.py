"""Guarantee 3: an expired lease returns to pending and is claimable by another worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from guarantees.facts import Beside, together, user_connection
from tenure import verbs
from tenure.model.rows import Lane, NewRow, Swept
from tenure.verbs import questions
from tenure.verbs.statement import Statement
from world import World


def test_a_row_whose_lease_ran_out_goes_to_another_worker(world: World) -> None:
    id = world.enqueue()
    first = world.claim_one("A")
    world.expire(first.lease)
    (swept,) = world.sweep()
    row = world.row(id)
    assert (swept.id, swept.status, swept.next_at) == (id, "pending", row.available_at)
    assert (row.status, row.claimed_by, row.claimed_at, row.lease_expires_at) == ("pending", None, None, None)
    assert (row.attempts, row.last_error) == (1, "lease expired")
    world.due()
    second = world.claim_one("B")
    assert (second.id, second.lease.generation, second.attempts) == (id, 2, 2)
    assert second.lease.fence > first.lease.fence
    assert world.complete(second.lease).standing == "applied"


def test_the_tape_says_that_the_lease_expired(world: World) -> None:
    id = world.enqueue()
    first = world.claim_one("A")
    world.expire(first.lease)
    world.sweep()
    (attempt,) = world.run(questions.tape(id))
    assert (attempt.worker, attempt.outcome, attempt.error) == ("A", "expired", "lease expired")
    assert (attempt.lease_generation, attempt.fence_token) == (1, first.lease.fence)


def test_a_lease_that_still_runs_is_left_alone(world: World) -> None:
    world.enqueue()
    world.enqueue()
    over, running = world.claim("A", 2)
    world.expire(over.lease)
    assert [swept.id for swept in world.sweep()] == [over.id]
    assert world.run(verbs.sweep_pages()) == []
    assert world.complete(running.lease).standing == "applied"


def test_pending_rows_are_none_of_the_sweeps_business(world: World) -> None:
    world.enqueue()
    assert world.sweep() == world.run(verbs.sweep_pages()) == []
    assert world.count("attempts") == 0


def test_the_row_comes_back_after_a_backoff_with_jitter(world: World) -> None:
    for _ in range(30):
        world.enqueue()
    jobs = world.claim("A", 30)
    world.expire(*[job.lease for job in jobs])
    world.sweep()
    waits = [
        float(wait)
        for (wait,) in world.sql(
            "SELECT extract(epoch FROM i.available_at - t.ended_at) FROM live i JOIN attempts t ON t.row_id = i.id"
        )
    ]
    assert len(waits) == 30
    assert all(1.9 <= wait <= 2.6 for wait in waits)
    assert max(waits) - min(waits) > 0.05  # the rows of one dead worker do not return in one instant


def test_a_row_that_is_locked_is_passed_over_and_never_waited_for(world: World) -> None:
    for _ in range(5):
        world.enqueue()
    jobs = world.claim("A", 5)
    world.expire(*[job.lease for job in jobs])
    other = user_connection(world)
    other.execute("SELECT 1 FROM live WHERE id = %s FOR UPDATE", [jobs[2].id])
    swept = Beside(lambda: {each.id for each in world.sweep()}).result()
    assert swept == {job.id for job in jobs} - {jobs[2].id}
    other.rollback()
    assert [each.id for each in world.sweep()] == [jobs[2].id]


def test_a_sweep_ends_at_most_n_attempts(world: World) -> None:
    for _ in range(5):
        world.enqueue()
    world.expire(*[job.lease for job in world.claim("A", 5)])
    assert [len(world.sweep(n=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_sweeps_at_once_end_each_attempt_once(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(100)]))
    world.expire(*[job.lease for job in world.claim("A", 100)])
    connections = [world.connect() for _ in range(4)]
    swept = [each.id for part in together(4, lambda n: world.run(verbs.sweep(), connections[n])) for each in part]
    swept += [each.id for each in world.sweep()]
    assert len(swept) == len(set(swept)) == 100
    assert world.sql("SELECT DISTINCT attempts FROM live") == [(1,)]
    assert world.count("attempts") == 100


def test_every_lane_and_the_ordered_rows_are_swept(world: World) -> None:
    world.enqueue(queue="mail", priority=7)
    world.enqueue(queue="web", priority=-3)
    world.enqueue(key="order:1", ordered=True)
    jobs = world.claim("A", 10, lanes=[Lane("mail", 7), Lane("web", -3)]) + world.claim_ordered("A")
    world.expire(*[job.lease for job in jobs])
    assert {each.id for each in world.sweep()} == {job.id for job in jobs}
    assert len(jobs) == 3


def test_a_held_row_behind_many_pending_ones_is_swept(world: World) -> None:
    held = world.enqueue(key="order:1")
    job = world.claim_one("A")
    world.run(verbs.enqueue_many([NewRow("send_receipt", key="order:1") for _ in range(40)]))
    world.sql("UPDATE live SET available_at = available_at - interval '1 hour' WHERE status = 'pending'")
    world.expire(job.lease)
    assert [each.id for each in world.sweep()] == [held]


def test_a_sweep_that_looks_everywhere_finds_every_held_row(world: World) -> None:
    world.enqueue(key="order:1")
    world.enqueue(key="order:2", ordered=True)
    jobs = [world.claim_one("A"), *world.claim_ordered("A")]
    world.run(verbs.enqueue_many([NewRow("send_receipt", key="order:1") for _ in range(40)]))
    world.sql("UPDATE live SET available_at = available_at - interval '1 hour' WHERE status = 'pending'")
    world.expire(*[job.lease for job in jobs])
    assert {each.id for each in world.run(verbs.sweep_pages())} == {job.id for job in jobs}


@pytest.mark.parametrize("sweep", [verbs.sweep, verbs.sweep_pages])
def test_a_lease_that_ends_during_the_sweeps_own_transaction_is_swept(
    world: World, sweep: Callable[[], Statement[list[Swept]]]
) -> None:
    world.enqueue()
    job = world.claim_one("A")
    conn = user_connection(world)
    conn.execute("SELECT now()")
    world.sql("UPDATE claims SET until = clock_timestamp()")
    world.sql("UPDATE live SET lease_expires_at = clock_timestamp()")  # after that transaction's now()
    assert [each.id for each in world.run(sweep(), conn)] == [job.id]


def test_a_lease_renewed_just_in_time_is_not_swept(world: World) -> None:
    world.enqueue()
    job = world.claim_one("A", lease_seconds=0.5)
    renewed = world.run(verbs.renew([job.lease], lease_seconds=60))
    assert [lease.id for lease in renewed.kept] == [job.id]
    assert renewed.kept[0].expires_at > job.lease.expires_at
    expires_at = world.row(job.id).lease_expires_at
    assert expires_at is not None
    assert abs(expires_at - renewed.kept[0].expires_at) < timedelta(milliseconds=1)
    assert world.sweep() == []
