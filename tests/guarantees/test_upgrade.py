"""A schema of 0.1.0 is migrated with rows, keys, permits and leases in flight: nothing is lost, or held twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import psycopg
import pytest

from crew import working
from guarantees.facts import until
from tenure import postgres, verbs
from tenure.app.inbox import Inbox
from tenure.errors import NO, TRY_LATER, OldWorkersAlive
from tenure.model.rows import Lease
from tenure.postgres import migrate
from tenure.verbs import fleet, operators, questions, queues
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


# -- workers of the release before: what a contracting migration removes is what they use


def _joined(old: Old, worker: str = "old", **says: object) -> None:
    """A worker of 0.1.0 in the registry: it does not say which migration it knows."""
    old.run(fleet.register(worker, {"version": "0.1.0", "queues": ["default"], **says}))


def _at(old: Old) -> int:
    return len(migrate.applied(old.conn, old.schema))


def _tenure(old: Old, *arguments: str) -> subprocess.CompletedProcess[str]:
    old.sql("UPDATE workers SET last_seen_at = clock_timestamp()")  # it lives, however slow this machine is
    given = ["--database-url", old.url, "--schema", old.schema]
    return subprocess.run(
        [sys.executable, "-m", "tenure", *arguments, *given], capture_output=True, text=True, timeout=120
    )


def test_workers_that_are_alive_are_to_be_drained_first(old: Old) -> None:
    _joined(old, "b")
    _joined(old, "a")
    with pytest.raises(OldWorkersAlive) as refused:
        migrate.apply(old.conn, old.schema)
    assert (refused.value.workers, refused.value.exit_code, _at(old)) == (["a", "b"], TRY_LATER, FIRST)
    assert str(refused.value) == (
        "workers of an older version are alive (a, b), and migration 10 removes what they use: drain each with "
        f"`tenure workers drain ID --schema {old.schema}`, and try again when they have left; --force does not wait"
    )


def test_many_of_them_are_named_in_short(old: Old) -> None:
    for n in range(9):
        _joined(old, f"w{n}")
    with pytest.raises(OldWorkersAlive, match=r"are alive \(w0, w1, w2, w3, w4 and 4 more\), and"):
        migrate.apply(old.conn, old.schema)


def test_a_drained_fleet_is_upgraded_with_its_rows_in_flight(old: Old) -> None:
    """From the first look to the first claim, by the commands that the sentences name."""
    id = old.send(partition_key="k", ordered=True)
    _joined(old)
    old.hold(id)
    checked = _tenure(old, "migrate", "--check")
    assert checked.returncode == NO
    assert "run `tenure migrate" in checked.stdout
    assert "workers of an older version are alive (old)" in checked.stderr
    told = json.loads(_tenure(old, "migrate", "--check", "--json").stdout)
    assert (told["ok"], told["drain_first"]) == (False, ["old"])
    refused = _tenure(old, "migrate")
    assert (refused.returncode, refused.stdout, _at(old)) == (TRY_LATER, "", FIRST)
    assert refused.stderr.startswith("tenure: workers of an older version are alive (old), and migration 10 removes")
    assert "old" in _tenure(old, "workers").stdout
    assert _tenure(old, "workers", "drain", "old").returncode == 0
    assert old.sql("SELECT status FROM workers") == [("draining",)]
    assert _tenure(old, "migrate").returncode == TRY_LATER  # it still holds its row
    old.sql(
        "UPDATE live SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,"
        " claim_id = NULL, attempts = attempts - 1"
    )
    old.sql("DELETE FROM keys")
    old.run(fleet.leave("old"))
    assert json.loads(_tenure(old, "migrate", "--check", "--json").stdout)["drain_first"] == []
    assert _tenure(old, "migrate").returncode == 0
    assert [job.id for job in old.claim_ordered()] == [id]


def test_force_does_not_wait(old: Old) -> None:
    _joined(old)
    assert _tenure(old, "migrate", "--force").returncode == 0
    assert _at(old) == migrate.newest()


def _dead(old: Old) -> None:
    old.sql("UPDATE workers SET status = 'dead'")


def _killed(old: Old) -> None:
    session = old.connect()
    old.run(fleet.appear("old"), session)
    session.close()
    until(lambda: old.run(questions.workers())[0].present is False, "its lock is gone")


def _silent_behind_a_pooler(old: Old) -> None:
    old.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '31 seconds'")


def _knows(old: Old) -> None:
    old.sql("UPDATE workers SET metadata = metadata || %s::jsonb", json.dumps({"migration": migrate.newest()}))


@pytest.mark.parametrize("how", [_dead, _killed, _silent_behind_a_pooler, _knows])
def test_workers_that_are_gone_or_new_are_not_in_the_way(old: Old, how: Callable[[Old], None]) -> None:
    _joined(old)
    how(old)
    old.upgrade()


def test_a_worker_that_shows_its_session_is_in_the_way_however_long_it_was_silent(old: Old) -> None:
    _joined(old)
    old.run(fleet.appear("old"), old.connect())
    _silent_behind_a_pooler(old)
    with pytest.raises(OldWorkersAlive):
        migrate.apply(old.conn, old.schema)


def test_migrations_that_only_add_ask_for_nothing(old: Old) -> None:
    last = max(each.version for each in migrate.known()[:14] if each.kind == "contract")
    migrate.apply(old.conn, old.schema, to=last)
    _joined(old, "new", migration=last)
    assert [each.kind for each in migrate.apply(old.conn, old.schema, to=14)] == ["expand"]


def test_the_printed_sql_asks_too(old: Old) -> None:
    script = migrate.script(old.schema, after=FIRST)
    _joined(old)
    with psycopg.connect(old.url, autocommit=True) as plain:
        with pytest.raises(psycopg.errors.RaiseException, match=r"workers of an older version are alive \(old\)"):
            plain.execute(script.encode())
        plain.execute(b"ROLLBACK")
        assert _at(old) == FIRST
        _dead(old)
        plain.execute(script.encode())
    assert _at(old) == migrate.newest()


def test_the_printed_sql_does_not_ask_with_force(old: Old) -> None:
    _joined(old)
    with psycopg.connect(old.url, autocommit=True) as plain:
        plain.execute(migrate.script(old.schema, after=FIRST, force=True).encode())
    assert _at(old) == migrate.newest()


def test_a_worker_says_which_migration_it_knows(world: World) -> None:
    inbox = Inbox()
    inbox.handler("nap")(lambda: None)
    with working(world, inbox):
        assert world.sql("SELECT (metadata ->> 'migration')::int FROM workers") == [(migrate.newest(),)]
