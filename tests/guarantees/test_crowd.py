"""Where many claim at once, a few search at a time: the others wait a moment, hold nothing, and never fail for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

import pytest
from psycopg.errors import RaiseException

from crew import working
from guarantees.facts import Beside, until, waits_for_a_lock
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import ServerBehind
from tenure.model.rows import Claimed, Lane, NewRow, Offer
from tenure.verbs.statement import Statement
from tenure.worker import crowding
from tenure.worker.claim_rule import ClaimRule, SentClaim
from tenure.worker.crowding import ROW_SECONDS, TRIP_SECONDS, Crowd
from world import World

PLACES = 8  # of claims of a hundred rows
NEVER = """
CREATE OR REPLACE FUNCTION wait_for_place(space int, place int) RETURNS void LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'it would wait for place %', place; END $$
"""


def claim(n: int = 100, **options: Any) -> Statement[list[Claimed]]:
    return verbs.claim("A", n, in_crowd=True, **options)


@contextmanager
def full(world: World, n: int = 100, claims: int = PLACES) -> Iterator[list[Any]]:
    """So many claims that have not committed."""
    with ExitStack() as stack:
        held = [world.connect() for _ in range(claims)]
        for conn in held:
            stack.enter_context(conn.transaction())
            world.run(claim(n), conn)
        yield held


def test_who_finds_no_place_waits_for_one_and_takes_what_has_come_meanwhile(world: World) -> None:
    world.sql("ALTER FUNCTION wait_for_place SET lock_timeout = 0")
    waiting = world.connect()
    with full(world):
        claimer = Beside(lambda: world.run(claim(), waiting))
        waits_for_a_lock(world, waiting)
        id = world.enqueue()
        assert not claimer.done
    assert [job.id for job in claimer.result()] == [id]


def test_a_place_is_free_again_when_its_claim_has_ended_well_or_badly(world: World) -> None:
    world.sql(NEVER)
    world.enqueue()
    for conn in [world.connect() for _ in range(PLACES)]:
        with pytest.raises(ServerBehind):
            world.run(claim(seen_epoch=1 << 20), conn)
    with full(world), pytest.raises(RaiseException, match="it would wait for place"):
        world.run(claim())
    assert world.run(claim()) == []


def test_nobody_waits_longer_than_a_moment_whatever_the_session_says(world: World) -> None:
    waiting = world.connect()
    waiting.execute("SET lock_timeout = '1ms'")
    with full(world):
        id = world.enqueue()
        assert [job.id for job in world.run(claim(), waiting)] == [id]
    assert waiting.execute("SHOW lock_timeout").fetchone() == ("1ms",)


def test_who_has_written_waits_for_nobody(world: World) -> None:
    """A claim with a place may wait for the end of that transaction: neither would end."""
    world.sql(NEVER)
    writer = world.connect()
    with full(world), writer.transaction():
        world.run(verbs.enqueue(NewRow("send_receipt")), writer)
        assert len(world.run(claim(), writer)) == 1


def test_small_claims_have_more_places(world: World) -> None:
    world.sql(NEVER)
    with full(world, n=50, claims=16):
        pass
    with full(world, n=1, claims=PLACES + 1):
        assert world.run(claim(1)) == []


def test_another_inbox_of_the_database_has_places_of_its_own(world: World) -> None:
    with full(world):
        ((places,),) = world.sql(
            "SELECT array_agg(objid::int ORDER BY objid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND objsubid = 2 AND classid = 'claims'::regclass"
        )
    assert places == list(range(PLACES))


def test_a_claim_in_a_crowd_looks_from_its_floor_and_into_its_buckets(world: World) -> None:
    id = world.enqueue(key="order:1")
    row = world.row(id)
    available = row.available_at.timestamp()
    assert world.run(claim(buckets=[(row.partition_bucket + 1) % 1024])) == []
    assert world.run(claim(floors=[available + 0.001])) == []
    (job,) = world.run(claim(buckets=[row.partition_bucket], floors=[available - 0.001]))
    assert job.id == id


def test_what_it_takes_is_listed_for_the_sweep(world: World) -> None:
    ids = {world.enqueue() for _ in range(3)}
    jobs = world.run(claim(lease_seconds=60.0))
    ((listed, ends, at),) = world.sql(
        "SELECT ids, date_part('epoch', until), date_part('epoch', clock_timestamp()) FROM claims"
    )
    assert set(listed) == ids
    assert max(job.lease.ends_seconds for job in jobs) <= ends <= at + 60


def test_a_claim_that_takes_long_for_its_rows_is_one_of_a_crowd_until_one_is_quick() -> None:
    crowd = Crowd()
    crowd.answered(100, TRIP_SECONDS + 99 * ROW_SECONDS)
    assert not crowd.is_thick
    crowd.answered(100, TRIP_SECONDS + 101 * ROW_SECONDS)
    assert crowd.is_thick
    crowd.answered(0, TRIP_SECONDS / 2)
    assert not crowd.is_thick


def test_the_next_claim_goes_by_how_long_the_last_one_took() -> None:
    rule = ClaimRule({"default": 1.0}, 90.0, chance=lambda: 0.5)
    rule.learn([Offer("default", 0, False, False, -1.0, 0.0)])

    def sent() -> SentClaim:
        rule.look_again()
        found = rule.next("A", 1, 0.0, everywhere=set())
        assert found is not None
        assert found.lanes == (Lane(),)
        return found

    first = sent()
    assert (first.statement.name, first.in_crowd) == ("claim", False)
    rule.answered(first, [], 10.0)
    second = sent()
    assert (second.statement.name, second.in_crowd) == ("claim_in_crowd", True)
    rule.answered(second, [], 0.001)
    assert sent().statement.name == "claim"


@pytest.mark.one_server
def test_in_a_crowd_a_worker_ends_its_rows_first_and_claims_in_a_trip_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowding, "TRIP_SECONDS", -1.0)
    world.sql("CREATE TABLE alone (held bool)")
    world.sql(
        "CREATE OR REPLACE FUNCTION join_crowd(n int) RETURNS void LANGUAGE sql AS"
        f" 'INSERT INTO {world.schema}.alone SELECT pg_current_xact_id_if_assigned() IS NOT NULL'"
    )
    inbox, done = Inbox(), list[UUID]()

    @inbox.handler("work")
    async def work(job: Job) -> None:
        done.append(job.id)

    ids = {world.enqueue("work") for _ in range(30)}
    with working(world, inbox, slots=3, poll_seconds=0.2):
        until(lambda: world.count("archive") == 30, "all rows are done")
    assert set(done) == ids
    assert set(world.sql("SELECT held FROM alone")) == {(False,)}


@pytest.mark.one_server
def test_a_worker_whose_claims_in_a_crowd_are_refused_claims_as_if_it_were_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowding, "TRIP_SECONDS", -1.0)
    world.sql(
        "CREATE OR REPLACE FUNCTION join_crowd(n int) RETURNS void LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'deadlock_detected'; END $$"
    )
    inbox = Inbox()

    @inbox.handler("work")
    async def work() -> None: ...

    for _ in range(4):
        world.enqueue("work")
    with working(world, inbox, slots=2, poll_seconds=0.2):
        until(lambda: world.count("archive") == 4, "all rows are done")
