"""Through the real PgBouncer in transaction mode: every family of verbs gives the right answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from chaos.pgbouncer import PROGRAM, pgbouncer
from crew import Hired, eventually, working
from guarantees.facts import together
from tenure import Inbox, Job, postgres, verbs
from tenure.app.fence import fenced
from tenure.errors import StaleFence, StaleLease
from tenure.events import JobRetried
from tenure.model.backoff import Fixed
from tenure.model.rows import Lane, NewRow
from tenure.postgres import handler_pool
from tenure.postgres.connection import PLANS
from tenure.postgres.sqlstates import trouble_of
from tenure.verbs import fleet, questions, settle
from world import World, new_world

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed (tools/pgbouncer)")

THREADS, TURNS = 4, 3  # more threads than the pool has sessions
FENCED_JOBS = int(os.environ.get("TENURE_TEST_FENCED_JOBS", "150"))  # of each of two services
GUIDE = Path(__file__).parents[2] / "docs/guides/pgbouncer.md"


@pytest.fixture(scope="module")
def pool_url(server_url: str) -> Iterator[str]:
    with pgbouncer(server_url) as url:
        yield url


def test_a_pooler_in_between_is_found_out(server_url: str, pool_url: str) -> None:
    with postgres.connect(pool_url) as through, postgres.connect(server_url) as direct:
        assert (through.pooled, through.prepare_threshold) == (True, None)
        assert not direct.pooled


def test_also_awaiting(world: World, pool_url: str) -> None:
    async def enqueue() -> bool:
        async with await postgres.connect_async(pool_url) as conn:
            await postgres.run(conn, verbs.enqueue(NewRow("send_receipt")), world.schema)
            return conn.pooled

    assert asyncio.run(enqueue())
    assert world.count("live") == 1


def test_a_pooler_with_the_settings_of_the_guide_is_found_out_as_well(server_url: str) -> None:
    settings: dict[str, Any] = dict(line.split(" = ") for line in _of_guide("ini") if not line.startswith(";"))
    assert settings["ignore_startup_parameters"] == "options"
    with pgbouncer(server_url, **settings) as url, postgres.connect(url) as conn:
        assert (conn.pooled, conn.prepare_threshold) == (True, None)


def test_the_settings_of_the_guide_give_a_role_the_plans_of_a_direct_connection(world: World) -> None:
    role = world.schema
    world.sql(f"CREATE ROLE {role}")
    for line in _of_guide("sql"):
        world.sql(line.replace("tenure_worker", role))
    (given,) = world.sql("SELECT setconfig FROM pg_db_role_setting WHERE setrole = %s::regrole", role)
    world.sql(f"DROP ROLE {role}")
    assert {f"{name}={value}".replace("\\", "") for name, value in PLANS.items()} < set(given[0])


def _of_guide(language: str) -> list[str]:
    """The lines of the guide's one block in that language."""
    _, _, rest = GUIDE.read_text().partition(f"```{language}\n")
    return rest.partition("\n```")[0].splitlines()


def test_a_pooler_that_is_full_is_away(server_url: str) -> None:
    with pgbouncer(server_url, max_client_conn=1) as url, postgres.connect(url):
        with pytest.raises(psycopg.OperationalError, match="no more connections allowed") as raised:
            postgres.connect(url)
        assert trouble_of(raised.value) == "away"


def test_prepared_statements_would_break_where_ours_do_not(server_url: str) -> None:
    def two(connect: Callable[[], psycopg.Connection[Any]]) -> None:
        with connect() as one, connect() as other:
            for _ in range(8):
                one.execute("SELECT 1")
                other.execute("SELECT 1")

    with pgbouncer(server_url, pool_size=1) as url:
        with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
            two(lambda: psycopg.connect(url, autocommit=True))
        two(lambda: postgres.connect(url))


def test_what_a_caller_enqueues_on_its_own_connection_is_never_prepared(world: World, server_url: str) -> None:
    """Two producers, psycopg's defaults, one session: the second would be told that the statement exists already."""
    with pgbouncer(server_url, pool_size=1) as url:
        with psycopg.connect(url, autocommit=True) as one, psycopg.connect(url, autocommit=True) as other:
            for _ in range(8):
                for conn in (one, other):
                    postgres.run(conn, verbs.enqueue(NewRow("send_receipt")), world.schema)

        async def enqueue() -> None:
            connect = psycopg.AsyncConnection.connect
            async with await connect(url, autocommit=True) as one, await connect(url, autocommit=True) as other:
                for _ in range(8):
                    for conn in (one, other):
                        await postgres.run(conn, verbs.enqueue(NewRow("send_receipt")), world.schema)

        asyncio.run(enqueue())
    assert world.count("live") == 32


@pytest.mark.one_server
@pytest.mark.parametrize("awaiting", [True, False], ids=["async", "thread"])
def test_two_services_behind_one_pooler_never_write_into_each_others_tables(
    world: World, pool_url: str, awaiting: bool
) -> None:
    with _two_services(world, pool_url, awaiting=awaiting) as both:
        for each in both:
            eventually(lambda each=each: each.world.count("live") == 0, seconds=90 + FENCED_JOBS / 20)  # type: ignore[misc]
        assert [each.harm() for each in both] == [0, 0]


@pytest.mark.one_server
def test_they_would_if_the_pooler_were_not_found_out(
    world: World, pool_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look_away(_conn: object) -> None: ...

    monkeypatch.setattr(handler_pool, "find_pooler_async", look_away)
    with _two_services(world, pool_url, awaiting=True) as both:
        eventually(lambda: any(each.harm() for each in both))


class Service(NamedTuple):
    """A service at work, and its tables."""

    world: World
    hired: Hired

    def harm(self) -> int:
        """Attempts that failed, and receipts that stand in another's table."""
        return len(self.hired.of(JobRetried)) + _strayed(self.world)


@contextmanager
def _two_services(world: World, url: str, *, awaiting: bool) -> Iterator[list[Service]]:
    """Fenced jobs of two services through one pooler."""
    with new_world(world.url) as second:
        both = (world, second)
        for each in both:
            each.sql("CREATE TABLE receipts (row_id uuid)")
            each.run(verbs.enqueue_many([NewRow("receipt") for _ in range(FENCED_JOBS)]))
        terms: dict[str, Any] = {"url": url, "slots": 6, "poll_seconds": 0.2}
        with (
            working(world, _service(world, awaiting=awaiting), **terms) as one,
            working(second, _service(second, awaiting=awaiting), **terms) as other,
        ):
            yield [Service(world, one), Service(second, other)]


def _service(world: World, *, awaiting: bool) -> Inbox:
    """One service: each job writes one receipt into the service's own table, with its completion."""
    inbox, insert = Inbox(), f"INSERT INTO {world.schema}.receipts VALUES (%s)".encode()

    async def receipt(job: Job) -> None:
        async with job.fenced() as tx:
            await tx.execute(insert, [job.id])

    def plain_receipt(job: Job) -> None:
        with job.fenced() as tx:
            tx.execute(insert, [job.id])

    inbox.handler("receipt", backoff=Fixed(0.1), max_attempts=50)(receipt if awaiting else plain_receipt)
    return inbox


def _strayed(world: World) -> int:
    """Completed rows without exactly one receipt, and receipts of nobody's here."""
    (found,) = world.sql(
        "SELECT count(*) FROM (SELECT id FROM inbox WHERE status = 'completed') done"
        " FULL JOIN (SELECT row_id, count(*) FROM receipts GROUP BY row_id) got ON got.row_id = done.id"
        " WHERE got.count IS DISTINCT FROM 1 OR done.id IS NULL"
    )
    return int(found[0])


def test_every_family_of_verbs_works_from_threads_that_share_few_sessions(world: World, pool_url: str) -> None:
    def lives(number: int) -> None:
        for turn in range(TURNS):
            _live(world, pool_url, f"w{number}-{turn}")

    world.sql("CREATE TABLE receipts (row_id uuid)")
    together(THREADS, lives)
    assert world.count("receipts") == THREADS * TURNS
    assert dict(world.sql("SELECT status, count(*) FROM inbox GROUP BY status")) == {
        status: THREADS * TURNS * each
        for status, each in (("completed", 6), ("pending", 2), ("failed", 1), ("dead_letter", 1))
    }


def _live(world: World, url: str, name: str) -> None:
    """The whole life of one worker, in a queue of its own."""
    schema, queue = world.schema, Lane(name)
    with postgres.connect(url) as conn:
        postgres.run(conn, fleet.register(name), schema)
        assert postgres.run(conn, fleet.heartbeat(name), schema) == "alive"
        first = postgres.run(conn, verbs.enqueue(NewRow("k", queue=name, idempotency_key=name)), schema)
        again = postgres.run(conn, verbs.enqueue(NewRow("k", queue=name, idempotency_key=name)), schema)
        assert (again.id, again.outcome) == (first.id, "duplicate")
        postgres.run(conn, verbs.enqueue_many([NewRow("k", queue=name) for _ in range(5)]), schema)
        assert postgres.copy(conn, [NewRow("k", queue=name) for _ in range(2)], schema) == 2
        for _ in range(2):
            postgres.run(conn, verbs.enqueue(NewRow("k", queue=name, key=name, ordered=True)), schema)

        one, two, three, four = postgres.run(conn, verbs.claim(name, 4, lanes=[queue]), schema)
        assert len(postgres.run(conn, verbs.renew([one.lease, two.lease]), schema).kept) == 2
        assert postgres.run(conn, verbs.holding(three), schema) > 0
        done, more = postgres.run_both(conn, settle.complete([one]), verbs.claim(name, 9, lanes=[queue]), schema)
        assert [each.standing for each in done] == ["applied"]
        assert len(more) == 4
        # A claim leaves a new key to another one that makes such a head at this moment.
        (head,) = eventually(lambda: postgres.run(conn, verbs.claim_ordered(name, 5, queues=[name]), schema))
        assert postgres.run(conn, verbs.claim_ordered(name, 5, queues=[name]), schema) == []

        with fenced(conn, two, schema=schema) as tx:
            assert postgres.run(tx, verbs.once(two, "receipt"), schema)
            tx.execute(f"INSERT INTO {schema}.receipts VALUES (%s)".encode(), [two.id])
        postgres.run(conn, verbs.fence(name, three.fence), schema)
        with pytest.raises(StaleFence):
            postgres.run(conn, verbs.fence(name, three.fence - 1), schema)
        assert postgres.run(conn, settle.fail([three], ["boom"]), schema)[0].ok
        assert postgres.run(conn, settle.dead_letter([four], ["boom"]), schema)[0].ok
        assert postgres.run(conn, settle.retry(more[:1], ["boom"], delays=[600.0]), schema)[0].ok
        assert postgres.run(conn, settle.release(more[1:2], delays=[600.0]), schema)[0].ok
        assert [each.ok for each in postgres.run(conn, settle.complete([head, *more[2:]]), schema)] == [True] * 3
        (tail,) = postgres.run(conn, verbs.claim_ordered(name, 5, queues=[name]), schema)
        assert postgres.run(conn, settle.complete([tail]), schema)[0].ok

        assert [each.outcome for each in postgres.run(conn, questions.tape(first.id), schema)] != []
        assert postgres.run(conn, questions.why(four.id), schema).startswith("It is a dead letter")
        assert postgres.run(conn, verbs.sweep(), schema) == []
        assert postgres.run(conn, fleet.drain(name), schema) == "draining"


def test_the_lease_race_has_the_same_end_through_a_pooler(world: World, pool_url: str) -> None:
    world.sql("CREATE TABLE receipts (row_id uuid, token bigint)")
    with postgres.connect(pool_url) as of_a, postgres.connect(pool_url) as of_b:
        for _ in range(20):
            id = world.enqueue()
            (a,) = world.run(verbs.claim("A", 1), of_a)
            world.expire(a.lease)
            assert [swept.id for swept in world.run(verbs.sweep(), of_b)] == [id]
            world.due()
            (b,) = world.run(verbs.claim("B", 1), of_b)
            for conn, job in ((of_a, a), (of_b, b), (of_a, a)):
                try:
                    with fenced(conn, job, schema=world.schema) as tx:
                        receipt = f"INSERT INTO {world.schema}.receipts VALUES (%s, %s)"
                        tx.execute(receipt.encode(), [job.id, job.generation])
                except StaleLease:
                    assert job is a
            (refused,) = world.run(settle.complete([a], accept_late=True), of_a)
            assert (refused.standing, refused.reason, refused.current) == ("stale", "token_mismatch", 2)
    assert world.sql("SELECT count(*), count(DISTINCT row_id), min(token) FROM receipts") == [(20, 20, 2)]
