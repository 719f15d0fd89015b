"""Results: what a handler returned is kept with its completion, for whoever waits; progress is seen while it runs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from apps import crunch
from crew import working
from guarantees.facts import Beside, user_connection
from tenure import verbs
from tenure.app.codec import Codec
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.app.progress import tell_progress
from tenure.errors import BadSettings, InvalidPayload, StaleLease
from tenure.events import JobCompleted
from tenure.model.ended import Ended
from tenure.model.outcome import Completed, Fail
from tenure.model.rows import Lane
from tenure.verbs import operators, queues, results, settle
from tenure.verbs.results import progress
from world import World


def _value(world: World, id: UUID) -> Any:
    return world.run(results.ended([id]))[0].value


def test_a_value_is_kept_with_the_completion_or_not_at_all(world: World) -> None:
    ids = [world.enqueue() for _ in range(3)]
    jobs = world.claim(n=3)
    stale = jobs[2].lease._replace(generation=9)
    world.run(settle.complete([jobs[0].lease, jobs[1].lease, stale], results=['{"a": 1}', None, '"late"']))
    found = {row.id: row for row in world.run(results.ended(ids))}
    assert (found[jobs[0].id].status, found[jobs[0].id].value) == ("completed", '{"a": 1}')
    assert (found[jobs[1].id].status, found[jobs[1].id].value) == ("completed", None)
    assert (found[jobs[2].id].status, found[jobs[2].id].value) == ("processing", None)
    assert world.count("results") == 1


def test_ends_are_told_in_the_order_of_the_ids(world: World) -> None:
    ids = [world.enqueue(max_attempts=1) for _ in range(3)]
    done, failed = world.claim(n=2, buckets=None)
    world.complete(done.lease)
    world.fail(failed.lease, "broken")
    nobody = uuid4()
    asked = [failed.id, nobody, done.id, *(id for id in ids if id not in (done.id, failed.id))]
    told = world.run(results.ended(asked))
    assert [(row.id, row.status, row.error) for row in told] == [
        (failed.id, "failed", "broken"),
        (nobody, "unknown", None),
        (done.id, "completed", None),
        (asked[3], "pending", None),
    ]


def test_results_for_each_lease_or_none(world: World) -> None:
    world.enqueue()
    with pytest.raises(BadSettings, match="one entry"):
        settle.complete([world.claim_one().lease], results=[])


def test_a_worker_keeps_what_a_handler_returns_if_it_asks_for_it(world: World) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("add", result=True)
    async def add(left: int, right: int) -> int:
        return left + right

    @inbox.handler("plain", result=True)
    def plain(job: Job, n: int) -> Any:
        return Fail("odd") if n % 2 else {"half": n // 2}

    @inbox.handler("quiet")
    async def quiet() -> int:
        return 5

    @inbox.handler("nothing", result=True)
    async def nothing() -> Completed:
        return Completed()

    ids = [
        add.enqueue(world.conn, left=2, right=3).id,
        plain.enqueue(world.conn, n=8).id,
        plain.enqueue(world.conn, n=7).id,
        quiet.enqueue(world.conn).id,
        nothing.enqueue(world.conn).id,
    ]
    with working(world, inbox):
        found = [inbox.result_blocking(id, timeout_seconds=60, url=world.url) for id in ids]
    assert [(end.status, end.value) for end in found] == [
        ("completed", 5),
        ("completed", {"half": 4}),
        ("failed", None),
        ("completed", None),
        ("completed", None),
    ]
    assert found[2].error == "odd"
    assert world.count("results") == 3


def test_a_child_process_sends_its_value_up(world: World) -> None:
    crunch.inbox.use_schema(world.schema)
    sent = crunch.doubled.enqueue(world.conn, n=21)
    with working(world, crunch.inbox):
        assert crunch.inbox.result_blocking(sent.id, timeout_seconds=90, url=world.url) == Ended("completed", 42, None)


def test_who_waits_is_told_by_a_note_and_nobody_else(world: World) -> None:
    inbox = Inbox(schema=world.schema)
    waited, other = world.enqueue(), world.enqueue()
    jobs = {job.id: job for job in world.claim(n=2)}
    listener = user_connection(world, autocommit=True)
    (channel,) = world.sql("SELECT channel() || '_ended'")[0]
    listener.execute(f'LISTEN "{channel}"'.encode())
    waiting = Beside(lambda: asyncio.run(inbox.result(waited, timeout_seconds=60, url=world.url)))
    while not world.count("watched"):
        time.sleep(0.01)
    for id in (other, waited):
        world.run(settle.complete([jobs[id].lease], results=['"v"']))
    assert waiting.result() == Ended("completed", "v", None)
    assert [note.payload for note in listener.notifies(stop_after=1)] == [str(waited)]
    assert world.sql("SELECT row_id FROM watched") == [(waited,)]


def test_a_wait_that_is_too_short_says_so(world: World) -> None:
    inbox, id = Inbox(schema=world.schema), world.enqueue()
    with pytest.raises(TimeoutError, match="has not ended within"):
        inbox.result_blocking(id, timeout_seconds=0.2, url=world.url)
    with pytest.raises(InvalidPayload, match="there is no row"):
        inbox.result_blocking(uuid4(), timeout_seconds=1, url=world.url)
    with pytest.raises(BadSettings, match="timeout_seconds"):
        inbox.result_blocking(id, timeout_seconds=0, url=world.url)


def test_the_result_of_an_encrypted_row_is_sealed(world: World) -> None:
    inbox = Inbox(schema=world.schema, codec=Codec({"k1": b"1" * 32}))

    @inbox.handler("secret", result=True, encrypt=True)
    async def secret(word: str) -> str:
        return f"{word} again"

    sent = secret.enqueue(world.conn, word="swordfish")
    with working(world, inbox):
        assert inbox.result_blocking(sent.id, timeout_seconds=60, url=world.url).value == "swordfish again"
    kept = str(_value(world, sent.id))
    assert "$encrypted" in kept
    assert "swordfish" not in kept
    strangers = Inbox(schema=world.schema)
    with pytest.raises(Exception, match="no codec"):
        strangers.result_blocking(sent.id, timeout_seconds=5, url=world.url)


def test_a_value_that_cannot_be_kept_is_a_failure_that_says_why(world: World) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("large", result=True, max_attempts=1)
    async def large() -> str:
        return "x" * 300_000

    sent = large.enqueue(world.conn)
    with working(world, inbox):
        found = inbox.result_blocking(sent.id, timeout_seconds=60, url=world.url)
    assert found.status == "dead_letter"
    assert "return its address" in (found.error or "")


def test_a_fenced_completion_keeps_the_value_it_is_given(world: World) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("fenced", result=True)
    async def within(job: Job) -> str:
        async with job.fenced():
            job.returns({"n": 1})
        return "too late"

    sent = within.enqueue(world.conn)
    with working(world, inbox) as hired:
        assert inbox.result_blocking(sent.id, timeout_seconds=60, url=world.url).value == {"n": 1}
        hired.saw(JobCompleted)
    world.enqueue()
    with pytest.raises(BadSettings, match="result=True"):
        Job(world.claim_one()).returns(1)


def test_deleting_and_erasing_take_the_result_and_the_progress_of_that_row(world: World) -> None:
    world.enqueue()
    kept = world.claim_one().lease
    world.run(progress(kept, 0.5, "half"))
    world.run(settle.complete([kept], results=["1"]))
    for act in (operators.delete, operators.erase):
        id = world.enqueue()
        lease = world.claim_one().lease
        world.run(progress(lease, 0.5, "half"))
        world.run(settle.complete([lease], results=["1"]))
        world.run(act([id]))
        for table in ("results", "progress"):
            assert world.sql(f"SELECT row_id FROM {table}") == [(kept.id,)]


def test_what_is_left_of_a_row_that_is_gone_is_erased(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    world.run(progress(lease, 0.5, "half"))
    world.run(settle.complete([lease], results=["1"]))
    assert world.run(operators.erase_rest([lease.id])) == 0
    world.sql("DELETE FROM archive")
    assert world.run(operators.erase_rest([lease.id])) == 2
    assert (world.count("results"), world.count("progress")) == (0, 0)


def test_results_go_with_retention_also_that_of_a_queue(world: World) -> None:
    for queue in ("default", "short"):
        world.enqueue(queue=queue)
    jobs = [*world.claim(n=1), *world.claim(n=1, lanes=[Lane("short", 0)])]
    world.run(settle.complete([job.lease for job in jobs], results=["1", "2"]))
    world.run(queues.retain("short", 3600))
    world.sql("UPDATE results SET ended_at = clock_timestamp() - interval '2 hours'")
    assert world.run(verbs.archive())["results_forgotten"] == 1
    assert world.sql("SELECT queue FROM results") == [("default",)]
    world.sql("UPDATE results SET ended_at = clock_timestamp() - interval '20 days'")
    world.run(verbs.archive())
    assert world.count("results") == 0


def test_a_day_past_retention_is_dropped_and_a_late_result_of_it_stays(world: World) -> None:
    day = datetime.now(UTC) - timedelta(days=30)
    name = f"results_{day:%Y%m%d}"
    world.sql(
        f"CREATE TABLE {name} PARTITION OF results FOR VALUES FROM ('{_id(day)}') TO ('{_id(day + timedelta(days=1))}')"
    )
    late = UUID(int=_id(day).int + 5)
    world.sql("INSERT INTO results (row_id, queue, value) VALUES (%s, 'default', '1')", late)
    world.run(verbs.archive())
    assert world.sql("SELECT to_regclass(%s)", name) == [(None,)]
    assert world.sql("SELECT row_id, tableoid::regclass::text FROM results") == [(late, "results_rest")]
    today = f"results_{datetime.now(UTC):%Y%m%d}"
    assert world.sql("SELECT to_regclass(%s) IS NOT NULL", today) == [(True,)]


def _id(day: datetime) -> UUID:
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
    return UUID(int=int(midnight.timestamp() * 1000) << 80)


def test_progress_is_noted_in_place_and_only_by_the_holder(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    world.run(progress(lease, 0.25, "decoding"))
    world.run(progress(lease, 0.5))
    assert world.sql("SELECT share, note FROM progress") == [(0.5, None)]
    for stale in (lease._replace(generation=9), lease._replace(fence=9), lease._replace(id=uuid4())):
        with pytest.raises(StaleLease, match="progress"):
            world.run(progress(stale, 0.9))
    world.release(lease)
    with pytest.raises(StaleLease):
        world.run(progress(lease, 0.9))
    assert world.sql("SELECT share FROM progress") == [(0.5,)]
    for share in (40, True):
        with pytest.raises(BadSettings, match="from 0 to 1"):
            progress(lease, share)
    for note in (5, b"decoding"):
        with pytest.raises(BadSettings, match="must be text"):
            tell_progress(None, 0.5, note)  # type: ignore[arg-type]


def test_a_job_tells_its_progress_once_a_second_at_most(world: World) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("awaiting")
    async def awaiting(job: Job) -> None:
        for share in (0.1, 0.2, 0.3):
            await job.progress(share, f"at {share}")

    @inbox.handler("blocking")
    def blocking(job: Job) -> None:
        for share in (0.1, 0.2, 1):
            job.progress(share, f"at {share}")

    ids = [awaiting.enqueue(world.conn).id, blocking.enqueue(world.conn).id]
    with working(world, inbox) as hired:
        hired.saw(JobCompleted, 2)
    noted = dict(world.sql("SELECT row_id, note FROM progress"))
    assert noted == {ids[0]: "at 0.1", ids[1]: "at 1"}


def test_progress_of_rows_that_are_gone_and_waits_that_are_over_are_forgotten(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    world.run(progress(lease, 0.5))
    world.run(results.await_end(lease.id, 3600))
    world.sql("UPDATE progress SET at = clock_timestamp() - interval '2 hours'")
    world.run(verbs.archive())
    assert (world.count("progress"), world.count("watched")) == (1, 1)
    world.complete(lease)
    world.sql("UPDATE watched SET until = clock_timestamp()")
    world.run(verbs.archive())
    assert (world.count("progress"), world.count("watched")) == (0, 0)


@dataclass
class Thumbnail:
    """What a handler returns."""

    path: str
    width: int


@pytest.mark.one_server
def test_a_handler_gives_its_result_as_the_type_it_returns(world: World) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("shrink", result=True)
    async def shrink(width: int) -> Thumbnail:
        return Thumbnail("a.png", width)

    @inbox.handler("untyped", result=True)
    def untyped():  # type: ignore[no-untyped-def]
        return {"path": "a.png"}

    with working(world, inbox):
        sent, other = shrink.enqueue(world.conn, width=10), untyped.enqueue(world.conn)
        ended = asyncio.run(shrink.result(sent, timeout_seconds=60, url=world.url))
        assert ended == Ended("completed", Thumbnail("a.png", 10))
        assert untyped.result_blocking(other.id, timeout_seconds=60, url=world.url).value == {"path": "a.png"}
        with pytest.raises(InvalidPayload, match="the result of 'shrink' is not what its function returns"):
            shrink.result_blocking(other, timeout_seconds=60, url=world.url)
