"""A schema of 0.1.0 is migrated with rows, keys, permits and leases in flight: nothing is lost, or held twice."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from tenure import postgres, verbs
from tenure.model.rows import Lease
from tenure.postgres import migrate
from tenure.verbs import operators, queues
from world import World

FIRST = 9  # the newest migration of 0.1.0

# What its claims wrote, without what they chose by.
CLAIM = """
UPDATE live SET status = 'processing', claimed_by = %(worker)s, claimed_at = clock_timestamp(), claim_id = 1,
  lease_expires_at = clock_timestamp() + %(seconds)s * interval '1 second', lease_generation = lease_generation + 1,
  fence_token = next_fence(0), attempts = attempts + 1, limited = %(limited)s
WHERE id = %(id)s
RETURNING lease_generation, fence_token
"""


class Old(World):
    """A world as 0.1.0 left it, until it is migrated."""

    def send(self, **options: object) -> UUID:
        names = ", ".join(f"{name} => %s" for name in options)
        more = f", {names}" if names else ""
        ((id,),) = self.sql(f"SELECT row_id FROM enqueue('work', '{{}}'{more})", *options.values())
        return UUID(str(id))

    def hold(self, id: UUID, *, seconds: float = 3600.0, limited: bool = False) -> Lease:
        terms = {"worker": "old", "seconds": seconds, "limited": limited, "id": id}
        ((generation, fence),) = self.conn.execute(CLAIM, terms).fetchall()
        self.sql(
            "INSERT INTO keys SELECT queue, partition_key, id FROM live WHERE id = %s AND ordered",
            id,
        )
        return Lease(id, "old", generation, fence, 0.0)

    def upgrade(self) -> None:
        assert [each.version for each in migrate.apply(self.conn, self.schema)] == list(
            range(FIRST + 1, migrate.newest() + 1)
        )


@pytest.fixture
def old(server_url: str) -> Iterator[Old]:
    schema = f"old_{uuid4().hex[:12]}"
    with postgres.connect(server_url) as conn:
        migrate.apply(conn, schema, to=FIRST)
    world = Old(server_url, schema)
    try:
        yield world
    finally:
        world.sql(f"DROP SCHEMA {schema} CASCADE")
        world.close()


def test_rows_that_wait_are_claimed(old: Old) -> None:
    plain = old.send()
    first, second = (old.send(partition_key="k", ordered=True) for _ in range(2))
    old.upgrade()
    assert [job.id for job in old.claim()] == [plain]
    assert [job.id for job in old.claim_ordered(run_length=5)] == [first, second]


def test_a_lease_in_flight_is_good_and_its_key_is_taken_until_it_ends(old: Old) -> None:
    first, second = (old.send(partition_key="k", ordered=True) for _ in range(2))
    lease = old.hold(first)
    old.upgrade()
    assert old.claim_ordered() == []
    assert old.complete(lease).ok
    assert [job.id for job in old.claim_ordered()] == [second]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_lease_that_runs_out_is_swept(old: Old, ordered: bool) -> None:
    id = old.send(partition_key="k", ordered=ordered)
    old.hold(id, seconds=-1.0)
    old.upgrade()
    assert [swept.id for swept in old.run(verbs.sweep(9))] == [id]
    old.due()
    assert [job.id for job in (old.claim_ordered() if ordered else old.claim())] == [id]


def test_a_row_that_has_begun_keeps_its_key(old: Old) -> None:
    first, second = (old.send(partition_key="k", ordered=True) for _ in range(2))
    old.sql("UPDATE live SET attempts = 1, lease_generation = 1 WHERE id = %s", second)
    old.upgrade()
    assert [job.id for job in old.claim_ordered()] == [second]
    assert first != second


def test_a_key_that_waits_for_an_operator_waits_on_and_can_be_freed(old: Old) -> None:
    first, second = (old.send(partition_key="k", ordered=True, hold=True) for _ in range(2))
    old.hold(first)
    old.sql(
        "WITH gone AS (DELETE FROM live WHERE id = %s RETURNING *) INSERT INTO dead (id, seq, created_at, available_at,"
        " finished_at, lease_generation, fence_token, attempts, max_attempts, priority, ordered, hold, status, kind,"
        " queue, partition_key, payload) SELECT id, seq, created_at, available_at, clock_timestamp(), lease_generation,"
        " fence_token, attempts, max_attempts, priority, ordered, hold, 'dead_letter', kind, queue, partition_key,"
        " payload FROM gone",
        first,
    )
    old.upgrade()
    assert old.claim_ordered() == []
    old.run(operators.free_key("default", "k"))
    assert [job.id for job in old.claim_ordered()] == [second]


def test_permits_in_flight_count(old: Old) -> None:
    ids = [old.send(queue="mail") for _ in range(2)]
    old.run(queues.limit("mail", max_running=1))
    lease = old.hold(ids[0], limited=True)
    old.sql("INSERT INTO permits (queue, partition_key, slot, row_id) VALUES ('mail', '', 1, %s)", ids[0])
    old.upgrade()
    assert old.run(queues.claim_limited("A", 9, "mail")) == []
    assert old.complete(lease).ok
    assert [job.id for job in old.run(queues.claim_limited("A", 9, "mail"))] == [ids[1]]
