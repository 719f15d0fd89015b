"""Guarantee 2: concurrent claims never share a row generation, and a claim takes only what it may take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from guarantees.facts import Beside, together, user_connection
from patience import SECONDS_MAX
from tenure import verbs
from tenure.errors import BadSettings, InvalidPayload
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import fleet, questions
from world import World


class Way(NamedTuple):
    """A claim of named buckets, or of all; or where many claim at once."""

    world: World
    buckets: Sequence[int] | None
    in_crowd: bool = False

    def claim(self, worker: str = "A", n: int = 1, conn: Any = None, **options: Any) -> list[Claimed]:
        return self.world.run(verbs.claim(worker, n, buckets=self.buckets, in_crowd=self.in_crowd, **options), conn)

    def ids(self, n: int = 10, **options: Any) -> list[UUID]:
        return [job.id for job in self.claim(n=n, **options)]


@pytest.fixture(params=["by_bucket", "any_bucket", "in_crowd"])
def way(world: World, request: pytest.FixtureRequest) -> Way:
    return Way(world, verbs.ALL_BUCKETS if request.param == "by_bucket" else None, request.param == "in_crowd")


def test_many_claimers_at_once_never_share_a_row_generation(way: Way) -> None:
    world = way.world
    world.run(verbs.enqueue_many([NewRow("send_receipt", {"n": n}) for n in range(240)]))
    connections = [world.connect() for _ in range(8)]
    deadline = time.monotonic() + SECONDS_MAX

    def claim_until_empty(number: int) -> list[Claimed]:
        mine: list[Claimed] = []
        while time.monotonic() < deadline:
            jobs = way.claim(f"w{number}", 7, connections[number])
            mine += jobs
            left = connections[number].execute("SELECT 1 FROM live WHERE status = 'pending' LIMIT 1").fetchone()
            if not jobs and left is None:
                break
        return mine

    taken = [job for jobs in together(8, claim_until_empty) for job in jobs]
    tokens = [(job.id, job.lease.generation) for job in taken]
    assert len(tokens) == len(set(tokens)) == 240
    assert {generation for _, generation in tokens} == {1}
    held = world.sql("SELECT id, claimed_by, fence_token FROM live WHERE status = 'processing'")
    assert sorted(held) == sorted((job.id, job.lease.worker, job.lease.fence) for job in taken)


def test_claimers_that_also_lose_leases_never_share_a_row_generation(way: Way) -> None:
    world = way.world
    world.run(verbs.enqueue_many([NewRow("send_receipt", max_attempts=10_000) for _ in range(12)]))
    connections = [world.connect() for _ in range(6)]

    def claim_and_lose(number: int) -> list[tuple[Any, int, int]]:
        conn, tokens = connections[number], []
        for _ in range(30):
            for job in way.claim(f"w{number}", 3, conn):
                tokens.append((job.id, job.lease.generation, job.lease.fence))
                conn.execute("UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = %s", [job.id])
            world.run(verbs.sweep_pages(), conn)
            conn.execute(
                "UPDATE live SET available_at = clock_timestamp() WHERE id IN"
                " (SELECT id FROM live WHERE status = 'pending' ORDER BY id FOR UPDATE SKIP LOCKED)"
            )
        return tokens

    taken = [token for tokens in together(6, claim_and_lose) for token in tokens]
    generations = [(id, generation) for id, generation, _ in taken]
    assert len(taken) > 12
    assert len(set(generations)) == len(generations)
    fences = [(id, fence) for id, _, fence in taken]
    assert len(set(fences)) == len(fences)


def test_a_claim_passes_over_rows_that_another_claim_has_locked(way: Way) -> None:
    world = way.world
    ids = {world.enqueue() for _ in range(5)}
    other = user_connection(world)
    theirs = {job.id for job in way.claim("B", 3, other)}
    ours = Beside(lambda: {job.id for job in way.claim("A", 5)}).result()  # does not wait for the open transaction
    assert len(theirs) == 3
    assert ours == ids - theirs
    other.rollback()
    assert {job.id for job in way.claim("A", 5)} == theirs


def test_a_held_row_is_not_claimed_again(way: Way) -> None:
    world = way.world
    world.enqueue()
    assert len(way.claim("A", 10)) == 1
    assert way.claim("B", 10) == []
    assert way.claim("A", 10) == []


def test_a_row_whose_lease_ran_out_is_not_claimed_before_its_attempt_was_ended(way: Way) -> None:
    world = way.world
    world.enqueue()
    world.expire(way.claim()[0].lease)
    assert way.claim("B") == []


def test_a_claim_stamps_the_whole_lease(way: Way) -> None:
    world = way.world
    before = datetime.now(UTC)
    id = world.enqueue("send_receipt", {"order_id": 9182}, key="order:9182", max_attempts=7)
    job = way.claim("A", lease_seconds=60, claim_id=77)[0]
    row = world.row(id)
    assert (row.status, row.claimed_by, row.attempts, row.lease_generation) == ("processing", "A", 1, 1)
    assert job.lease[:4] == (id, "A", 1, row.fence_token)
    assert (job.id, job.kind, job.queue, job.partition_key) == (id, "send_receipt", "default", "order:9182")
    assert (job.attempts, job.max_attempts) == (1, 7)
    assert job.partition_bucket == row.partition_bucket
    assert abs(job.available_at - row.available_at) < timedelta(milliseconds=1)
    assert job.decode() == {"order_id": 9182}
    assert row.claimed_at is not None
    assert row.lease_expires_at is not None
    assert abs(job.lease.expires_at - row.lease_expires_at) < timedelta(milliseconds=1)
    assert row.claimed_at > before - timedelta(seconds=1)
    assert abs((row.lease_expires_at - row.claimed_at).total_seconds() - 60) < 1
    assert world.sql("SELECT claim_id FROM live") == [(77,)]


def test_the_lease_begins_with_the_claim_and_not_with_its_transaction(way: Way) -> None:
    world = way.world
    world.enqueue()
    conn = user_connection(world)
    conn.execute("SELECT now(), pg_sleep(0.05)")
    (job,) = way.claim("A", 1, conn, lease_seconds=1)
    late = conn.execute("SELECT %s - interval '1 second' >= now() + interval '50 ms'", [job.lease.expires_at])
    assert late.fetchone() == (True,)
    assert conn.execute("SELECT claimed_at >= now() + interval '50 ms' FROM live").fetchone() == (True,)


@pytest.mark.parametrize("status", ["draining", "dead"])
def test_a_worker_that_drains_or_was_declared_dead_claims_nothing(way: Way, status: str) -> None:
    world = way.world
    world.enqueue()
    world.run(fleet.register("A"))
    world.sql("UPDATE workers SET status = %s", status)
    assert way.claim("A") == []
    world.sql("UPDATE workers SET status = 'alive'")
    assert len(way.claim("A")) == 1


def test_a_worker_nobody_registered_may_claim(way: Way) -> None:
    world = way.world
    world.enqueue()
    world.run(fleet.register("B"))
    world.run(fleet.drain("B"))
    assert len(way.claim("A")) == 1


def test_more_urgent_lanes_come_first(way: Way) -> None:
    world = way.world
    low, high, middle = (world.enqueue(priority=priority) for priority in (0, 10, 5))
    lanes = world.run(questions.lanes())
    assert lanes == [Lane("default", 10), Lane("default", 5), Lane("default", 0)]
    assert [job.id for _ in range(3) for job in way.claim(lanes=lanes)] == [high, middle, low]


def test_a_lane_is_a_queue_at_one_priority(way: Way) -> None:
    world = way.world
    here = world.enqueue(queue="mail", priority=5)
    world.enqueue(queue="mail", priority=4)
    world.enqueue(queue="mail", priority=6)
    world.enqueue(queue="other", priority=5)
    assert [job.id for job in way.claim(n=10, lanes=[Lane("mail", 5)])] == [here]
    assert way.claim(n=10) == []
    assert world.run(questions.lanes()) == [("mail", 6), ("mail", 5), ("other", 5), ("mail", 4)]


def test_a_queue_gives_nothing_to_a_claim_of_another(way: Way) -> None:
    world = way.world
    mail, web = world.enqueue(queue="mail"), world.enqueue(queue="web")
    assert [job.id for job in way.claim(n=10, lanes=[Lane("web")])] == [web]
    assert [job.id for job in way.claim(n=10, lanes=[Lane("mail"), Lane("web")])] == [mail]


def test_only_the_named_buckets_are_claimed(world: World) -> None:
    here, elsewhere = world.enqueue(key="order:1"), world.enqueue(key="order:2")
    bucket = world.row(here).partition_bucket
    assert bucket != world.row(elsewhere).partition_bucket
    assert world.claim(n=10, buckets=[(bucket + 1) % 1024]) == []
    assert [job.id for job in world.claim(n=10, buckets=[bucket])] == [here]


def test_a_bucket_is_a_matter_of_the_key_alone(world: World) -> None:
    buckets = {
        world.row(world.enqueue(f"kind-{n}", queue=f"q{n}", key="order:9182")).partition_bucket for n in range(5)
    }
    assert buckets == {world.sql("SELECT bucket('order:9182')")[0][0]}
    spread = [world.row(world.enqueue()).partition_bucket for _ in range(20)]
    assert len(set(spread)) > 10  # without a key, each row is a stream of its own
    assert all(0 <= bucket < 1024 for bucket in spread)


def test_a_scheduled_row_is_not_claimed_before_its_time(way: Way) -> None:
    world = way.world
    delayed = world.enqueue(delay_seconds=3600)
    later = world.enqueue(at=datetime.now(UTC) + timedelta(days=1))
    now = world.enqueue(at=datetime.now(UTC) - timedelta(days=1))
    assert [job.id for job in way.claim(n=10)] == [now]
    world.due()
    assert {job.id for job in way.claim(n=10)} == {delayed, later}


def test_a_floor_leaves_out_what_was_available_before_it(world: World) -> None:
    id = world.enqueue(key="order:1")
    bucket = world.row(id).partition_bucket
    available = world.row(id).available_at.timestamp()
    assert world.claim(buckets=[bucket], floors=[available + 0.001]) == []
    assert world.claim(buckets=None, floors=[available + 0.001]) == []
    assert len(world.claim(buckets=[bucket], floors=[available - 0.001])) == 1
    world.enqueue(key="order:1")
    assert len(world.claim(buckets=None, floors=[available - 0.001])) == 1


def test_a_claim_takes_at_most_n(way: Way) -> None:
    world = way.world
    for _ in range(5):
        world.enqueue()
    assert [len(way.claim(n=n)) for n in (2, 1, 10, 10)] == [2, 1, 2, 0]


def test_the_oldest_row_of_a_bucket_goes_first(way: Way) -> None:
    world = way.world
    ids = [world.enqueue(key="order:1") for _ in range(6)]
    assert [job.id for _ in range(6) for job in way.claim()] == ids


def test_ordered_rows_are_left_to_the_ordered_claim(way: Way) -> None:
    world = way.world
    ordered = world.enqueue(key="order:1", ordered=True)
    plain = world.enqueue(key="order:1")
    assert [job.id for job in way.claim(n=10)] == [plain]
    assert [job.id for job in world.claim_ordered()] == [ordered]


def test_after_a_lost_reply_the_claim_is_found_again(way: Way) -> None:
    world = way.world
    for _ in range(3):
        world.enqueue()
    jobs = way.claim("A", 2, claim_id=4711)
    way.claim("A", 1, claim_id=4712)
    found = world.run(questions.claimed("A", 4711))
    assert sorted(found) == sorted(jobs)
    assert world.run(questions.claimed("B", 4711)) == []
    assert world.run(questions.claimed("A", 4713)) == []
    world.complete(jobs[0].lease)
    world.retry(jobs[1].lease)
    assert world.run(questions.claimed("A", 4711)) == []
    world.due()
    assert [job.id for job in way.claim("A", 2, claim_id=4714)] == [jobs[1].id]
    assert world.run(questions.claimed("A", 4711)) == []  # the same row and worker, but another claim


def test_a_claim_found_again_and_given_back_costs_no_attempt(world: World) -> None:
    id = world.enqueue()
    world.claim("A", claim_id=4711)
    (job,) = world.run(questions.claimed("A", 4711))
    assert world.release(job.lease).standing == "applied"
    assert (world.row(id).attempts, world.status(id)) == (0, "pending")


def test_a_payload_that_cannot_be_decoded_concerns_its_own_row_alone(world: World) -> None:
    world.enqueue(payload={"order_id": 9182})
    world.sql(
        """INSERT INTO live (kind, payload) VALUES ('send_receipt', ('{"n": 1' || repeat('0', 5000) || '}')::jsonb)"""
    )
    jobs = world.claim(n=10)
    assert len(jobs) == 2
    good = [job.decode() for job in jobs if "order_id" in job.payload]
    assert good == [{"order_id": 9182}]
    (bad,) = [job for job in jobs if "order_id" not in job.payload]
    with pytest.raises((msgspec.DecodeError, ValueError)):
        bad.decode()


@pytest.mark.parametrize("n", [0, -1])
def test_a_claim_of_nothing_is_refused(n: int) -> None:
    with pytest.raises(BadSettings, match=f"n={n}"):
        verbs.claim("A", n)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_lease_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(BadSettings, match="lease_seconds"):
        verbs.claim("A", 1, lease_seconds=seconds)


@pytest.mark.parametrize("worker", ["", "w\0", "w" * 129])
def test_a_worker_name_that_cannot_be_is_refused(worker: str) -> None:
    with pytest.raises(InvalidPayload, match="worker"):
        verbs.claim(worker, 1)
