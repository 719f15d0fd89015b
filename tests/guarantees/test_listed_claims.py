"""The list of claims: a lease that ran out is found by it, at a price that follows what was claimed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from psycopg.errors import CheckViolation

from guarantees.facts import Beside, user_connection
from plans import Plans
from slices import slice_of
from tenure import verbs
from tenure.model.rows import Lane, NewRow
from tenure.verbs import questions
from world import World

_BACKLOG = """
INSERT INTO live (kind, payload, queue, available_at)
SELECT 'send_receipt', '{}', 'q' || k %% 100, clock_timestamp() - k * interval '1 ms' FROM generate_series(1, %s) AS k
"""


def _listed(world: World) -> list[tuple[Any, ...]]:
    return world.sql("SELECT claim_id, cardinality(ids), until > clock_timestamp() FROM claims ORDER BY id")


def _over(world: World) -> None:
    """Let every entry be due to be looked at."""
    world.sql("UPDATE claims SET until = clock_timestamp() - interval '1 minute'")


@pytest.mark.parametrize("buckets", [None, verbs.ALL_BUCKETS], ids=["any_bucket", "by_bucket"])
def test_a_claim_is_listed_with_its_rows_for_when_its_leases_are_over(world: World, buckets: Any) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(3)]))
    jobs = world.claim("A", 10, buckets=buckets, claim_id=7, lease_seconds=60)
    assert world.claim("A", 10, buckets=buckets, claim_id=8) == []
    assert _listed(world) == [(7, 3, True)]
    ((ids, ends, latest),) = world.sql(
        "SELECT ids, date_part('epoch', until), date_part('epoch', clock_timestamp()) + 60 FROM claims"
    )
    assert set(ids) == {job.id for job in jobs}
    assert max(job.lease.ends_seconds for job in jobs) <= ends <= latest


def test_what_has_ended_is_forgotten_and_what_was_renewed_is_listed_again(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(4)]))
    done, kept, lost, cut = world.claim("A", 4, claim_id=7, lease_seconds=60)
    world.complete(done.lease)
    world.run(verbs.renew([kept.lease], lease_seconds=600))
    world.expire(lost.lease, cut.lease)
    assert {swept.id for swept in world.sweep()} == {lost.id, cut.id}
    ((ids, until),) = world.sql("SELECT ids, until FROM claims")
    assert ids == [kept.id]
    assert until == world.row(kept.id).lease_expires_at
    world.complete(kept.lease)
    _over(world)
    assert world.sweep() == []
    assert world.count("claims") == 0


def test_a_row_that_somebody_has_locked_is_looked_at_again(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(3)]))
    jobs = world.claim("A", 3)
    world.expire(*[job.lease for job in jobs])
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [jobs[1].id])
    assert {swept.id for swept in world.sweep()} == {jobs[0].id, jobs[2].id}
    other.rollback()
    assert [swept.id for swept in world.sweep()] == [jobs[1].id]


def test_more_than_one_sweep_ends_is_left_to_the_next(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(5)]))
    world.expire(*[job.lease for job in world.claim("A", 2) + world.claim("A", 3)])
    assert [len(world.sweep(n=2)) for _ in range(4)] == [2, 2, 1, 0]
    assert world.count("claims") == 0


def test_a_lease_that_is_made_shorter_is_looked_at_sooner(world: World) -> None:
    world.enqueue()
    (job,) = world.claim("A", 1, lease_seconds=600)
    world.run(verbs.renew([job.lease], lease_seconds=900))
    assert world.count("claims") == 1
    world.run(verbs.renew([job.lease], lease_seconds=0.001))
    time.sleep(0.01)
    assert [swept.id for swept in world.sweep()] == [job.id]


def test_a_row_that_was_claimed_again_is_not_ended_for_its_first_claim(world: World) -> None:
    world.enqueue()
    (first,) = world.claim("A", 1, claim_id=7)
    world.release(first.lease)
    (second,) = world.claim("B", 1, claim_id=8)
    _over(world)
    assert world.sweep() == []
    assert _listed(world) == [(8, 1, True)]
    world.expire(second.lease)
    assert [swept.id for swept in world.sweep()] == [second.id]


def test_what_is_not_due_to_be_looked_at_stays_as_it_is(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(2)]))
    (over,) = world.claim("A", 1, claim_id=7)
    world.expire(over.lease)
    world.claim("A", 1, claim_id=8)
    before = world.sql("SELECT id, until FROM claims WHERE claim_id = 8")
    assert [swept.id for swept in world.sweep()] == [over.id]
    assert world.sql("SELECT id, until FROM claims") == before


def test_two_sweeps_at_once_list_a_renewed_row_once_and_do_not_wait(world: World) -> None:
    world.enqueue()
    world.claim_one("A")
    _over(world)
    other = user_connection(world)
    assert world.run(verbs.sweep(), other) == []
    assert Beside(world.sweep).result() == []
    other.commit()
    assert world.count("claims") == 1


def test_a_row_that_somebody_has_locked_does_not_stop_the_net(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(3)]))
    jobs = world.claim("A", 3)
    world.expire(*[job.lease for job in jobs[1:]])
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [jobs[1].id])
    swept = Beside(lambda: world.run(verbs.sweep_pages())).result()
    assert [each.id for each in swept] == [jobs[2].id]
    other.rollback()
    assert [each.id for each in world.run(verbs.sweep_pages())] == [jobs[1].id]


def test_a_number_that_no_index_would_find_is_refused(world: World) -> None:
    """Both indexes of due rows leave out what cannot be: a row with such a number would never be claimed."""
    for seq in (0, -1, 9223372036854775807):
        with pytest.raises(CheckViolation, match=f"seq={seq} must be between 1 and"):
            world.sql("INSERT INTO live (kind, payload, seq) OVERRIDING SYSTEM VALUE VALUES ('k', '{}', %s)", seq)


def test_a_claim_that_is_rolled_back_is_not_listed(world: World) -> None:
    world.enqueue()
    other = user_connection(world)
    assert len(world.run(verbs.claim("A", 1), other)) == 1
    other.rollback()
    assert world.count("claims") == 0


def test_the_net_finds_what_no_claim_lists_page_by_page(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(300)]))
    jobs = world.claim("A", 300)
    world.sql("DELETE FROM claims")
    world.sql("UPDATE live SET lease_expires_at = clock_timestamp() - interval '1 second'")
    assert world.sweep() == []
    pages = int(world.sql("SELECT max((ctid::text::point)[0]) FROM live")[0][0]) + 1
    assert pages > 2
    parts = [{swept.id for swept in world.run(verbs.sweep_pages(page, 1))} for page in (1, 0, *range(2, pages))]
    assert all(parts)
    assert sum(map(len, parts)) == 300
    assert set().union(*parts) == {job.id for job in jobs}
    assert world.run(verbs.sweep_pages(pages, 1)) == []


def test_a_sweep_takes_no_longer_with_a_backlog_behind(world: World) -> None:
    """Read through, the backlog takes hundreds of milliseconds; bucket by bucket it took seconds."""
    world.run(verbs.enqueue_many([NewRow("send_receipt") for _ in range(100)]))
    world.claim("A", 100)
    plans = Plans(world)
    world.sql(_BACKLOG, slice_of(1_000_000, 60_000))
    _over(world)
    assert plans.of(verbs.sweep()) == {"live_pkey", "live_heads"}
    assert plans.buffers < slice_of(10_000, 2_000)  # read through, the hot table is 37,000 pages or 2,200


def test_the_rows_of_a_lost_reply_are_found_by_the_list_and_not_by_reading_through(world: World) -> None:
    world.sql(_BACKLOG, 5000)
    jobs = world.claim("A", 10, lanes=[Lane("q7")], claim_id=7)
    world.claim("A", 10, lanes=[Lane("q8")], claim_id=8)
    world.run(verbs.renew([jobs[0].lease]))
    world.complete(jobs[1].lease)
    world.sql("UPDATE claims SET until = clock_timestamp() WHERE claim_id = 7")
    assert world.sweep() == []  # lists what is held once more
    plans = Plans(world)
    assert plans.of(questions.claimed("A", 7)) == {"live_pkey"}
    assert plans.buffers < 100
    assert {job.id for job in world.run(questions.claimed("A", 7))} == {job.id for job in jobs} - {jobs[1].id}
