"""fenced(keep=True): writes commit only under a current lease, and the row stays held; a job knows its number."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from guarantees.facts import Beside, user_connection, waits_for_a_lock
from tenure import postgres, verbs
from tenure.app.fence import fenced
from tenure.app.job import Job
from tenure.errors import StaleLease
from tenure.model.rows import Lease
from tenure.verbs import questions, queues
from world import World


@pytest.fixture
def shop(world: World) -> World:
    """A world with a table of the user's own and one row in the inbox."""
    world.sql("CREATE TABLE receipts (n int)")
    world.enqueue(max_attempts=100)
    return world


def _receipts(world: World) -> list[int]:
    return [n for (n,) in world.sql("SELECT n FROM receipts ORDER BY n")]


def _write(world: World, lease: Lease, n: int, meanwhile: str = "") -> None:
    with fenced(world.conn, lease, schema=world.schema, keep=True) as tx:
        tx.execute("INSERT INTO receipts VALUES (%s)", [n])
        if meanwhile:
            with world.connect() as elsewhere:
                elsewhere.execute(meanwhile.encode())


def test_writes_commit_and_the_row_stays_held(shop: World) -> None:
    lease = shop.claim_one("A").lease
    _write(shop, lease, 1)
    _write(shop, lease, 2)
    assert _receipts(shop) == [1, 2]
    assert shop.status(lease.id) == "processing"
    assert shop.complete(lease).standing == "applied"


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        ("UPDATE live SET lease_expires_at = clock_timestamp()", "lease_expired"),
        ("UPDATE live SET lease_generation = lease_generation + 1", "token_mismatch"),
        ("UPDATE live SET fence_token = fence_token + 1", "token_mismatch"),
    ],
)
def test_a_lease_lost_meanwhile_leaves_nothing(shop: World, meanwhile: str, reason: str) -> None:
    lease = shop.claim_one("A").lease
    with pytest.raises(StaleLease, match="guard") as refused:
        _write(shop, lease, 1, meanwhile)
    assert refused.value.reason == reason
    assert _receipts(shop) == []


def test_only_this_row_is_looked_at(shop: World) -> None:
    shop.enqueue()
    first, second = shop.claim("A", 2)
    shop.complete(second.lease)
    with pytest.raises(StaleLease):
        shop.run(verbs.guard(second.lease))
    assert shop.run(verbs.guard(first.lease)) > 0


def test_who_takes_the_row_waits_for_the_commit_of_the_guarded_writes(shop: World) -> None:
    lease = shop.claim_one("A").lease
    other = shop.connect()
    with shop.conn.transaction():
        shop.sql("INSERT INTO receipts VALUES (1)")
        shop.run(verbs.guard(lease))
        taking = Beside(lambda: other.execute("UPDATE live SET lease_generation = 9").rowcount)
        waits_for_a_lock(shop, other)
        assert not taking.done
    assert taking.result() == 1
    assert _receipts(shop) == [1]


def test_a_job_goes_on_after_it_and_completes_later(shop: World) -> None:
    job = Job(shop.claim_one("A"), schema=shop.schema)
    conn = user_connection(shop, autocommit=True)
    with job.fenced(conn, keep=True) as tx:
        tx.execute("INSERT INTO receipts VALUES (1)")
    assert (job.completion, shop.status(job.id)) == ("open", "processing")
    with job.fenced(conn) as tx:
        tx.execute("INSERT INTO receipts VALUES (2)")
    assert (job.completion, shop.status(job.id), _receipts(shop)) == ("committed", "completed", [1, 2])


def test_the_same_with_await(shop: World) -> None:
    job = Job(shop.claim_one("A"), schema=shop.schema)

    async def body(meanwhile: str) -> None:
        async with await psycopg.AsyncConnection.connect(shop.url, autocommit=True) as conn:
            await conn.execute(f'SET search_path = "{shop.schema}"'.encode())
            async with job.fenced(conn, keep=True) as tx:
                await tx.execute("INSERT INTO receipts VALUES (1)")
                shop.sql(meanwhile)

    asyncio.run(body("SELECT 1"))
    with pytest.raises(StaleLease):
        asyncio.run(body("UPDATE live SET lease_generation = lease_generation + 1"))
    assert (job.completion, _receipts(shop)) == ("open", [1])


@pytest.mark.parametrize("way", ["any", "bucket", "ordered", "limited", "asked again"])
def test_a_job_knows_its_number_in_the_order_of_arrival(world: World, way: str) -> None:
    ordered = way == "ordered"
    ids = [world.enqueue(key="k", ordered=ordered) for _ in range(2)]
    numbers = dict(world.sql("SELECT id, seq FROM live"))
    if ordered:
        jobs = world.claim_ordered(run_length=2)
    elif way == "limited":
        world.sql("INSERT INTO queues (queue, max_running) VALUES ('default', 5)")
        jobs = world.run(queues.claim_limited("A", 2, "default"))
    else:
        jobs = world.claim(n=2, buckets=None if way == "any" else verbs.ALL_BUCKETS, claim_id=7)
    if way == "asked again":
        jobs = postgres.run(world.conn, questions.claimed("A", 7), world.schema)
    assert {job.id: Job(job).seq for job in jobs} == {id: numbers[id] for id in ids}
