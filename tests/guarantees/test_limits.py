"""Limits are exact across workers: rows in flight by queue and by key, starts in a second; a paused queue has none."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from guarantees.facts import Beside, together, until, user_connection, waits_for_a_lock
from patience import SECONDS_MAX
from tenure import verbs
from tenure.app import fence
from tenure.cli import queues as face
from tenure.errors import BadSettings
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import fleet, questions, queues, settle
from tenure.verbs.statement import Statement
from world import World

MAIL = "mail"


def _limit(world: World, queue: str = MAIL, **given: Any) -> None:
    world.run(queues.limit(queue, **given))


def _send(world: World, n: int = 1, **options: Any) -> list[Any]:
    sent = world.run(verbs.enqueue_many([NewRow("send_receipt", **{"queue": MAIL, **options}) for _ in range(n)]))
    return [each.id for each in sent]


def _claim(
    world: World, n: int = 100, worker: str = "A", queue: str = MAIL, conn: Any = None, **more: Any
) -> list[Claimed]:
    return world.run(queues.claim_limited(worker, n, queue, **more), conn)


def _keys(world: World, bucket: int, n: int) -> list[str]:
    query = "SELECT key FROM generate_series(1, 29999) AS s (n), concat('order:', n) AS key WHERE bucket(key) = %s"
    return [key for (key,) in world.sql(f"{query} LIMIT %s", bucket, n)]


def _weaken(world: World, function: str, guard: str, instead: str = "") -> None:
    """The same function without a guard, in this world alone."""
    ((text,),) = world.sql("SELECT pg_get_functiondef(%s::regproc)", f"{world.schema}.{function}")
    assert text.count(guard) == 1
    world.sql(text.replace(guard, instead))


# -- rows in flight, of a queue and of a key

COUNTS = {
    "queue": "SELECT count(*) FROM live WHERE status = 'processing'",
    "key": "SELECT count(*) FROM live WHERE status = 'processing' GROUP BY partition_key ORDER BY 1 DESC LIMIT 1",
}


def _most_in_flight(world: World, of: str, rows: int = 160, threads: int = 8) -> int:
    """The most rows in flight that any of these workers ever saw while they worked the queue off."""
    world.run(verbs.enqueue_many([NewRow("k", queue=MAIL, key=f"k{n % 3}", ordered=n % 7 == 0) for n in range(rows)]))
    connections = [world.connect() for _ in range(threads)]
    deadline = time.monotonic() + SECONDS_MAX
    seen: list[int] = []

    def work(number: int) -> None:
        conn = connections[number]
        while time.monotonic() < deadline:
            jobs = _claim(world, 2 if of == "queue" else 12, f"w{number}", conn=conn)
            if jobs:
                seen.append(conn.execute(COUNTS[of].encode()).fetchone()[0])  # type: ignore[index]
                ending = settle.release if number == 0 and jobs[0].generation == 1 else settle.complete
                assert all(answer.ok for answer in world.run(ending([job.lease for job in jobs]), conn))
            elif conn.execute("SELECT 1 FROM live LIMIT 1").fetchone() is None:
                return

    together(threads, work)
    assert world.count("live") == world.count("permits") == 0
    return max(seen)


@pytest.mark.parametrize("of", COUNTS)
def test_eight_workers_at_once_never_have_more_in_flight_than_the_limit(world: World, of: str) -> None:
    world.run(queues.limit(MAIL, max_running=3) if of == "queue" else queues.limit(MAIL, max_per_key=3))
    assert 1 <= _most_in_flight(world, of) <= 3


def _unguarded(world: World, of: str) -> None:
    """Claims of one queue go side by side, each long enough to meet another, or admit any row of a key."""
    if of == "queue":
        _limit(world, max_running=3)
        _weaken(world, "claim_limited", "FOR UPDATE;", ";")
        _weaken(world, "claim_limited", "missing := room;", "missing := room; PERFORM pg_sleep(0.003);")
    else:
        _limit(world, max_per_key=3)
        _weaken(world, "admitted", "<= slots_per_key", "<= 99")


@pytest.mark.parametrize("of", COUNTS)
def test_without_lock_and_admission_the_slots_still_keep_the_limit(world: World, of: str) -> None:
    _unguarded(world, of)

    def refused() -> bool:
        try:
            assert _most_in_flight(world, of) <= 3
        except psycopg.IntegrityError:
            return True
        return False

    until(refused, "a claim that would exceed the limit is refused")


@pytest.mark.parametrize("of", COUNTS)
def test_control_without_the_slots_as_well_the_same_checker_finds_more(world: World, of: str) -> None:
    _unguarded(world, of)
    world.sql("ALTER TABLE permits DROP CONSTRAINT permits_pkey")
    world.sql("ALTER TABLE permits ALTER slot DROP NOT NULL")
    until(lambda: _most_in_flight(world, of) > 3, "more rows in flight than the limit")


def test_a_slot_is_given_once_whoever_writes(world: World) -> None:
    _limit(world, max_running=1)
    (id,) = _send(world)
    assert len(_claim(world)) == 1
    assert world.sql("SELECT queue, partition_key, slot, row_id FROM permits") == [(MAIL, "", 1, id)]
    with pytest.raises(psycopg.errors.UniqueViolation):
        world.sql("INSERT INTO permits SELECT queue, partition_key, slot, new_id(), era FROM permits")


def test_a_claim_waits_for_another_of_its_queue_and_counts_what_that_one_took(world: World) -> None:
    _limit(world, max_running=3)
    _limit(world, "web", max_running=3)
    _send(world, 10)
    _send(world, 10, queue="web")
    first = user_connection(world)
    assert len(_claim(world, 2, conn=first)) == 2
    assert len(_claim(world, queue="web")) == 3  # another queue waits for nobody
    second = Beside(lambda: _claim(world, worker="B"))
    waits_for_a_lock(world, world.conn)
    first.commit()
    assert len(second.result()) == 1


def test_queues_and_keys_are_counted_apart(world: World) -> None:
    for queue in (MAIL, "web"):
        _limit(world, queue, max_running=3, max_per_key=1)
        _send(world, 2, queue=queue, key="a")
        _send(world, 2, queue=queue, key="b")
        _send(world, 2, queue=queue)
    for queue in (MAIL, "web"):
        jobs = _claim(world, queue=queue)
        assert {job.queue for job in jobs} == {queue}
        assert len(jobs) == 3
        assert len({job.partition_key for job in jobs}) == 3


def test_rows_without_a_key_have_no_limit_per_key(world: World) -> None:
    _limit(world, max_per_key=1)
    _send(world, 5)
    _send(world, 5, key="a")
    assert len(_claim(world)) == 6
    assert world.count("permits") == 1


def test_a_queue_without_settings_has_no_limits_and_no_permits(world: World) -> None:
    _send(world, 5)
    assert len(_claim(world, 3)) == 3
    _limit(world, max_running=1, clear=True)
    _limit(world, clear=True)
    assert len(_claim(world)) == 2
    assert world.count("permits") == 0


PLAIN: dict[str, Callable[[], Statement[list[Claimed]]]] = {
    "claim": lambda: verbs.claim("A", 9, lanes=[Lane(MAIL)]),
    "claim_in_crowd": lambda: verbs.claim("A", 9, lanes=[Lane(MAIL)], in_crowd=True),
    "claim_ordered": lambda: verbs.claim_ordered("A", 9, queues=[MAIL]),
}


@pytest.mark.parametrize("setting", ["paused", "max_running", "max_per_key", "rate_per_second"])
@pytest.mark.parametrize("claim", PLAIN)
def test_a_worker_that_has_not_heard_of_a_limit_takes_nothing_past_it(world: World, claim: str, setting: str) -> None:
    _send(world, 2, key="a", ordered=claim == "claim_ordered")
    if setting == "paused":
        world.run(queues.pause(MAIL))
    else:
        world.run(queues.limit(MAIL, **{setting: 1}))  # type: ignore[arg-type]
    world.run(queues.pause("web"))
    assert world.run(PLAIN[claim]()) == []
    world.run(queues.limit(MAIL, clear=True))
    world.run(queues.resume(MAIL))
    assert world.run(PLAIN[claim]()) != []


def test_a_row_claimed_far_behind_a_full_key_is_found_by_the_sweep_when_its_lease_is_over(world: World) -> None:
    _full_hot_key(world)
    ((bucket,),) = world.sql("SELECT bucket('hot')")
    (id,) = _send(world, key=next(key for key in _keys(world, bucket, 2)), at=datetime.now(UTC) - timedelta(hours=1))
    (job,) = _claim(world)
    assert job.id == id
    world.sql("UPDATE live SET available_at = clock_timestamp() WHERE id = %s", id)
    world.expire(job.lease)
    assert [row.id for row in world.sweep()] == [id]


def test_a_lowered_limit_stops_nothing_and_lets_nothing_start_until_there_is_room(world: World) -> None:
    _limit(world, max_running=4, max_per_key=4)
    _send(world, 20, key="a")
    jobs = sorted(_claim(world), key=lambda job: job.id)
    _limit(world, max_running=2, max_per_key=2)
    for job in jobs[:2]:  # slots 1 and 2 are free again, but 3 and 4 still run
        assert _claim(world) == []
        world.complete(job.lease)
    assert _claim(world) == []
    world.complete(jobs[2].lease)
    assert len(_claim(world)) == 1
    _limit(world, max_running=6, max_per_key=6)
    assert len(_claim(world)) == 4


# -- what is taken, and in which order


def test_ordered_rows_and_others_share_the_limit_and_the_oldest_goes_first(world: World) -> None:
    _limit(world, max_running=3)
    first = _send(world, key="a", ordered=True)[0]
    second = _send(world)[0]
    third = _send(world, key="b", ordered=True)[0]
    behind = _send(world, key="a", ordered=True)[0]
    last = _send(world)[0]
    jobs = _claim(world, 2)
    assert {job.id for job in jobs} == {first, second}
    assert [job.id for job in _claim(world)] == [third]
    for job in jobs:
        world.complete(job.lease)
    assert {job.id for job in _claim(world)} == {behind, last}
    assert [key for _, key in world.keys_taken()] == ["a", "b"]


def test_an_ordered_key_has_one_row_in_flight_also_under_limits(world: World) -> None:
    _limit(world, max_running=10, max_per_key=10)
    ids = _send(world, 3, key="a", ordered=True)
    for id in ids:
        (job,) = _claim(world)
        assert job.id == id
        assert _claim(world, worker="B") == []
        world.complete(job.lease)
    assert not world.keys_taken()
    assert world.count("permits") == 0


def test_ordered_and_other_rows_of_a_key_share_its_limit(world: World) -> None:
    _limit(world, max_per_key=2)
    _send(world, 2, key="a", ordered=True)
    _send(world, 2, key="a")
    jobs = _claim(world)
    assert len(jobs) == 2
    assert sorted(row for (row,) in world.sql("SELECT slot FROM permits WHERE partition_key = 'a'")) == [1, 2]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_head_that_commits_late_does_not_join_the_row_in_flight(world: World, end: str) -> None:
    producer, claimer = user_connection(world), user_connection(world)
    late = world.run(verbs.enqueue(NewRow("k", queue=MAIL, key="a", ordered=True)), producer).id
    (early,) = _send(world, key="a", ordered=True)
    (job,) = world.run(verbs.claim_ordered("A", 1, queues=[MAIL]), claimer)
    assert job.id == early
    producer.commit()
    assert Beside(lambda: _claim(world, worker="B")).result() == []  # it does not wait
    getattr(claimer, end)()
    assert [job.id for job in _claim(world, worker="B")] == ([] if end == "commit" else [late])


def test_the_most_urgent_row_goes_first_and_each_queue_is_its_own(world: World) -> None:
    _limit(world, max_running=1)
    _send(world, 3, priority=-5)
    _send(world, 3)
    urgent = _send(world, priority=7)[0]
    _send(world, queue="web", priority=50)
    _send(world, queue="web", priority=60, key="a", ordered=True)
    (job,) = _claim(world)
    assert job.id == urgent
    priorities = []
    while world.complete(job.lease).ok and (jobs := _claim(world)):
        (job,) = jobs
        priorities.append(world.row(job.id).priority)
    assert priorities == [0, 0, 0, -5, -5, -5]


def test_rows_that_wait_for_their_time_are_left_alone(world: World) -> None:
    _limit(world, max_running=9)
    _send(world, delay_seconds=60)
    _send(world, delay_seconds=60, key="a", ordered=True)
    _send(world, key="a", ordered=True)  # behind a head that waits
    assert _claim(world) == []
    world.due()
    assert len(_claim(world)) == 2


def test_rows_that_cannot_run_yet_do_not_stand_in_the_way_of_one_that_can(world: World) -> None:
    _limit(world, max_running=9)
    _send(world, priority=9, hold=True, key="held", ordered=True, max_attempts=1)
    (head,) = _claim(world)
    assert world.fail(head.lease).ok
    _send(world, priority=9, key="held", ordered=True)  # its key waits for an operator
    _send(world, priority=9, delay_seconds=60)
    _send(world, priority=9, delay_seconds=60, key=_keys(world, 1023, 1)[0], ordered=True)
    (id,) = _send(world)
    assert [job.id for job in _claim(world, 1)] == [id]


def test_a_key_is_a_key_of_its_queue_and_no_bucket_is_left_out(world: World) -> None:
    _limit(world, max_running=9)
    for bucket, queue in ((0, MAIL), (100, "web"), (500, MAIL), (700, "web"), (1023, MAIL)):
        _send(world, key=_keys(world, bucket, 1)[0], ordered=True, queue=queue)
    _send(world, key="a", ordered=True, queue="web")
    assert len(_claim(world, queue="web")) == 3
    _send(world, key="a", ordered=True)
    jobs = _claim(world)
    assert [job.queue for job in jobs] == [MAIL] * 4


def test_an_earlier_row_that_is_not_ordered_does_not_hide_the_head_of_its_key(world: World) -> None:
    _limit(world, max_running=9)
    heads = set()
    for key in ("a", "b"):
        world.enqueue(key=key, ordered=True, queue="other")
        _send(world, key=key)
        heads |= set(_send(world, key=key, ordered=True))
    assert {id for (id,) in world.sql("SELECT free_heads(%s, 0, 9)", MAIL)} == heads
    assert len(_claim(world)) == 4


def _stale_head(world: World, change: str) -> None:
    """The key "a" whose head is known and due, and whose first row was changed past it."""
    _send(world, key="a", ordered=True, delay_seconds=60)
    assert _claim(world) == []
    world.sql("ALTER TABLE live DISABLE TRIGGER live_change")
    world.sql(change)
    world.sql("UPDATE heads SET due_at = clock_timestamp()")


def test_a_head_gives_a_row_of_its_own_key_alone(world: World) -> None:
    _limit(world, max_running=9)
    ((bucket,),) = world.sql("SELECT bucket('a')")
    (near,) = (key for key in _keys(world, bucket, 1))
    _stale_head(world, "SELECT 1")
    _send(world, key="a")
    _send(world, key="a", ordered=True, queue="web")
    _send(world, key=near, ordered=True, delay_seconds=60)
    (next_one,) = _send(world, key="a", ordered=True)
    world.sql("DELETE FROM live WHERE seq = (SELECT min(seq) FROM live)")
    world.sql("DELETE FROM arrivals")
    assert next_one in {job.id for job in _claim(world)}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE live SET status = 'processing', claimed_by = 'B', claimed_at = now(), lease_expires_at = now(),"
        " claim_id = 1, available_at = now()",
        "SELECT 1",
    ],
    ids=["held", "not due"],
)
def test_a_head_that_is_wrong_gives_no_row_that_cannot_start(world: World, change: str) -> None:
    _limit(world, max_running=9)
    _stale_head(world, change)
    assert _claim(world) == []


def test_a_claim_never_waits_for_the_row_of_an_ordered_key_that_is_locked(world: World) -> None:
    _limit(world, max_running=2)
    locked, free = (_send(world, key=key, ordered=True)[0] for key in ("a", "b"))
    other = user_connection(world)
    other.execute("SELECT 1 FROM live WHERE id = %s FOR UPDATE", [locked])
    world.sql("SET lock_timeout = '5s'")
    assert [job.id for job in _claim(world, 1)] == [free]
    other.rollback()
    assert [job.id for job in until(lambda: _claim(world), "the other key goes on")] == [locked]


@pytest.mark.parametrize("beside", [{"ordered": False}, {"queue": "web"}])
def test_a_claim_leaves_the_heads_of_others_as_they_are(world: World, beside: dict[str, Any]) -> None:
    """A row of the same name, unordered or of another queue, does not take the key: nothing would set it free."""
    for queue in (MAIL, "web"):
        _limit(world, queue, max_running=2)
    (later,) = _send(world, key="a", ordered=True, delay_seconds=1)
    assert _claim(world) == []
    _send(world, **{"key": "a", "ordered": True, **beside})
    assert len(_claim(world, queue=beside.get("queue", MAIL))) == 1
    assert [job.id for job in until(lambda: _claim(world), "the ordered row starts")] == [later]


def test_a_row_that_has_begun_goes_before_one_committed_late_also_under_limits(world: World) -> None:
    _limit(world, max_running=9)
    producer = user_connection(world)
    world.run(verbs.enqueue(NewRow("k", queue=MAIL, key="a", ordered=True)), producer)
    (begun,) = _send(world, key="a", ordered=True)
    (job,) = _claim(world)
    assert job.id == begun
    producer.commit()
    world.retry(job.lease, delay=0)
    assert [job.id for job in _claim(world)] == [begun]


def _full_hot_key(world: World, **options: Any) -> None:
    """A key at its limit with more rows at the head of the queue than a claim looks at in order of time."""
    _limit(world, max_per_key=1)
    _send(world, 300, key="hot", **options)
    (job,) = _claim(world, 1)
    assert job.partition_key == "hot"


def test_a_full_key_with_a_long_backlog_does_not_keep_the_others_waiting(world: World) -> None:
    _full_hot_key(world)
    ((bucket,),) = world.sql("SELECT bucket('hot')")
    others = {key for step in (1, 300, 600, 900) for key in _keys(world, (bucket + step) % 1024, 3)}
    for key in sorted(others):
        _send(world, key=key)
    _send(world, delay_seconds=60, key="later")
    _send(world, queue="web", key="elsewhere")
    _send(world, key="in order", ordered=True)
    _send(world, key="blocked", ordered=True, delay_seconds=60)
    _send(world, key="blocked", ordered=True)
    jobs = _claim(world)
    assert {job.partition_key for job in jobs} == others | {"in order"}
    assert len(jobs) == len(others) + 1
    assert _claim(world) == []


def test_behind_a_full_key_the_most_urgent_row_still_goes_first(world: World) -> None:
    _send(world, priority=9)
    assert len(_claim(world)) == 1
    _full_hot_key(world, priority=5)
    ((bucket,),) = world.sql("SELECT bucket('hot')")
    keys = _keys(world, (bucket + 500) % 1024, 6)
    for key in keys[:5]:
        _send(world, key=key)
    (urgent,) = _send(world, key=keys[5], priority=5)
    _send(world, key="later", priority=9, delay_seconds=60)
    assert [job.id for job in _claim(world, 1)] == [urgent]


def test_blocked_ordered_keys_in_any_number_leave_every_other_key_its_turn(world: World) -> None:
    """The walk of the heads is bounded, and begins somewhere else each time."""
    _limit(world, max_running=9)
    ((last,),) = world.sql(
        "SELECT key FROM generate_series(1, 9999) AS s (n), concat('k', n) AS key ORDER BY bucket(key) DESC LIMIT 1"
    )
    world.run(verbs.enqueue_many([NewRow("k", queue=MAIL, key=f"order:{n}", ordered=True) for n in range(300)]))
    assert world.sql("SELECT count(*) FROM free_heads('mail', 0, 1000)") == [(256,)]
    world.sql("UPDATE live SET available_at = clock_timestamp() + interval '1 hour'")
    (id,) = _send(world, key=last, ordered=True)
    assert [job.id for job in until(lambda: _claim(world), "the free key has its turn")] == [id]


def test_a_claim_never_waits_for_a_row_that_is_locked(world: World) -> None:
    _limit(world, max_running=2)
    ids = _send(world, 2)
    other = user_connection(world)
    other.execute("SELECT 1 FROM live WHERE id = %s FOR UPDATE", [ids[0]])
    assert [job.id for job in Beside(lambda: _claim(world)).result()] == [ids[1]]
    other.rollback()
    assert [job.id for job in _claim(world)] == [ids[0]]


@pytest.mark.parametrize("where", ["by time", "heads", "by key"])
def test_a_row_sent_after_the_transaction_began_is_due_in_it(world: World, where: str) -> None:
    if where == "by key":
        _full_hot_key(world)
    claimer = user_connection(world)
    claimer.execute("SELECT 1")
    (id,) = _send(world, key="a", ordered=where == "heads")
    (job,) = _claim(world, conn=claimer)
    assert job.id == id
    later = "SELECT claimed_at > now(), lease_expires_at > now() + interval '90 s' FROM live WHERE id = %s"
    assert claimer.execute(later, [id]).fetchall() == [(True, True)]


def test_a_limited_claim_hands_over_what_any_claim_does(world: World) -> None:
    _limit(world, max_running=2)
    (id,) = _send(world, key="a", payload={"n": 1}, max_attempts=3)
    (job,) = _claim(world, worker="A", claim_id=4711, lease_seconds=60)
    row = world.row(id)
    assert (job.id, job.kind, job.queue, job.partition_key, job.decode()) == (id, "send_receipt", MAIL, "a", {"n": 1})
    assert (job.generation, job.attempts, job.max_attempts, row.claimed_by) == (1, 1, 3, "A")
    assert (row.lease_expires_at, row.fence_token, row.partition_bucket) == (
        job.lease.expires_at,
        job.fence,
        job.partition_bucket,
    )
    assert world.run(questions.claimed("A", 4711)) == [job]
    world.retry(job.lease, delay=0)
    (again,) = _claim(world)
    assert (again.generation, again.attempts) == (2, 2)
    assert again.fence > job.fence


@pytest.mark.parametrize("status", ["draining", "dead"])
def test_a_worker_that_drains_or_was_declared_dead_claims_nothing(world: World, status: str) -> None:
    _limit(world, max_running=2)
    _send(world, 2)
    world.run(fleet.register("A"))
    assert len(_claim(world, 1, worker="A")) == 1
    world.sql("UPDATE workers SET status = %s", status)
    assert _claim(world, worker="A") == []
    assert len(_claim(world, worker="B")) == 1


# -- whatever ends the attempt gives its permits back


def _expire(world: World, job: Claimed) -> None:
    world.expire(job.lease)
    assert len(world.sweep()) == 1


ENDS: dict[str, Callable[[World, Claimed], Any]] = {
    "complete": lambda world, job: world.complete(job.lease),
    "retry": lambda world, job: world.retry(job.lease, delay=60),
    "release": lambda world, job: world.run(settle.release([job.lease], delays=[60])),
    "fail": lambda world, job: world.fail(job.lease),
    "dead_letter": lambda world, job: world.dead_letter(job.lease),
    "expiry": _expire,
    "cancel": lambda world, job: (world.run(verbs.cancel([job.id])), world.retry(job.lease)),
}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_an_attempt_gives_its_permits_back_and_no_others(world: World, end: str, ordered: bool) -> None:
    _limit(world, max_running=2, max_per_key=1)
    for key in ("a", "b", "c"):
        _send(world, key=key, ordered=ordered)
    first, second = _claim(world)
    assert world.count("permits") == 4
    ENDS[end](world, first)
    assert {row for (row,) in world.sql("SELECT row_id FROM permits")} == {second.id}
    assert world.sql("SELECT count(*) FROM live WHERE limited") == [(1,)]
    assert [job.partition_key for job in _claim(world)] == ["c"]


def test_a_fenced_completion_gives_the_permit_back_with_the_effect_or_not_at_all(world: World) -> None:
    _limit(world, max_running=1)
    _send(world, 2)
    (job,) = _claim(world)
    with pytest.raises(ZeroDivisionError), fence.fenced(world.conn, job.lease, schema=world.schema):
        raise ZeroDivisionError
    assert _claim(world) == []
    with fence.fenced(world.conn, job.lease, schema=world.schema):
        assert _claim(world, conn=world.connect()) == []
    assert len(_claim(world)) == 1


def test_a_claim_that_does_not_commit_costs_nothing(world: World) -> None:
    _limit(world, max_running=1, rate_per_second=0.001, burst=1)
    _send(world, 2)
    lost = user_connection(world)
    assert len(_claim(world, conn=lost)) == 1
    lost.close()  # the worker dies before its claim is committed
    assert len(until(lambda: _claim(world, worker="B"), "the slot and the start are free again")) == 1


def test_a_stale_holder_cannot_give_back_the_permit_of_the_next(world: World) -> None:
    _limit(world, max_running=1)
    _send(world, 2)
    (job,) = _claim(world)
    world.expire(job.lease)
    world.sweep()
    world.due()
    (again,) = _claim(world, worker="B")
    for write in (world.complete, world.retry, world.release, world.fail):
        assert not write(job.lease).ok
    assert world.sql("SELECT row_id FROM permits") == [(again.id,)]


def test_claims_never_deadlock_with_whatever_ends_attempts(world: World) -> None:
    _limit(world, max_running=6, max_per_key=2)
    for n in range(60):
        _send(world, key=f"k{n % 6}", ordered=n % 2 == 0, max_attempts=10_000)
    connections = [world.connect() for _ in range(6)]
    stop = threading.Event()

    def work(number: int) -> None:
        conn = connections[number]
        while not stop.is_set() and conn.execute("SELECT 1 FROM live LIMIT 1").fetchone():
            if number == 0:
                conn.execute(
                    "UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = ("
                    "SELECT id FROM live WHERE status = 'processing' LIMIT 1 FOR UPDATE SKIP LOCKED)"
                )
                conn.execute(
                    "UPDATE live SET available_at = clock_timestamp() WHERE id = ("
                    "SELECT id FROM live WHERE status = 'pending' LIMIT 1 FOR UPDATE SKIP LOCKED)"
                )
                world.run(verbs.sweep_pages(), conn)
                continue
            jobs = [job.lease for job in _claim(world, 3, f"w{number}", conn=conn)]
            if number == 1:
                world.run(settle.release(jobs), conn)
            else:
                with conn.transaction():  # ends one batch and claims the next, as a worker does
                    world.run(settle.complete(jobs), conn)
                    jobs = [job.lease for job in _claim(world, 3, f"w{number}", conn=conn)]
                world.run(settle.complete(jobs), conn)

    timer = threading.Timer(SECONDS_MAX / 2, stop.set)
    timer.start()
    together(6, work)
    timer.cancel()
    assert world.count("archive") > 0
    assert world.sql("SELECT count(*) FROM permits AS p LEFT JOIN live AS i ON i.id = p.row_id WHERE i.id IS NULL") == [
        (0,)
    ]


# -- how many start in a second


def _starts(world: World, n: int, threads: int = 4) -> list[float]:
    """When n rows of the queue started, on the database's clock, with workers asking all the time."""
    _send(world, n)
    connections = [world.connect() for _ in range(threads)]
    deadline = time.monotonic() + SECONDS_MAX

    def work(number: int) -> None:
        conn = connections[number]
        while time.monotonic() < deadline and conn.execute("SELECT 1 FROM live LIMIT 1").fetchone():
            jobs = _claim(world, 10, f"w{number}", conn=conn)
            world.run(settle.complete([job.lease for job in jobs]), conn)

    together(threads, work)
    return [at for (at,) in world.sql("SELECT extract(epoch FROM claimed_at)::float8 FROM archive ORDER BY claimed_at")]


def _excess(starts: list[float], rate: float, burst: int) -> float:
    """By how many rows the worst of all windows exceeded burst + rate * t."""
    windows = combinations_with_replacement(range(len(starts)), 2)
    return max(last - first + 1 - burst - rate * (starts[last] - starts[first]) for first, last in windows)


def test_in_no_window_of_time_do_more_rows_start_than_burst_and_rate_allow_nor_many_fewer(world: World) -> None:
    rate, burst, n = 100.0, 7, 80
    _limit(world, rate_per_second=rate, burst=burst)
    starts = _starts(world, n)
    assert len(starts) == n
    assert _excess(starts, rate, burst) < 0.001
    assert starts[-1] - starts[0] < 3 * (n - burst) / rate  # the rate is used


def test_control_when_starts_use_up_nothing_the_same_checker_finds_more(world: World) -> None:
    _limit(world, rate_per_second=100, burst=7)
    _weaken(world, "claim_limited", "tokens_now - (room - missing)", "tokens_now")
    assert _excess(_starts(world, 80), 100, 7) > 1


def test_starts_are_saved_up_to_the_burst_and_no_further(world: World) -> None:
    _limit(world, rate_per_second=0.001, burst=3)
    _limit(world, "web", rate_per_second=0.001, burst=2)
    _send(world, 20)
    assert len(_claim(world, 2)) == 2
    assert len(_claim(world)) == 1
    assert _claim(world) == _claim(world) == []
    world.sql("UPDATE queues SET refilled_at = refilled_at - interval '2000 seconds'")
    assert len(_claim(world)) == 2
    world.sql("UPDATE queues SET refilled_at = refilled_at - interval '1 year'")
    assert len(_claim(world)) == 3
    world.sql("UPDATE queues SET refilled_at = refilled_at + interval '1 year'")  # a clock that went back
    assert _claim(world) == []
    assert [round(queue.tokens or 0) for queue in world.run(queues.queues())] == [0, 2]
    behind = "SELECT queue FROM queues WHERE refilled_at < clock_timestamp() - interval '1000 seconds'"
    assert world.sql(behind) == [("web",)], "only the queue that was claimed from earns from here on"
    assert world.sql("SELECT queue FROM queues WHERE refilled_at > clock_timestamp()") == []


def test_a_claim_that_finds_nothing_uses_up_nothing_and_refills_nothing(world: World) -> None:
    _limit(world, rate_per_second=0.001, burst=2)
    assert _claim(world) == []
    _send(world)
    assert len(_claim(world)) == 1
    assert _claim(world) == []
    _send(world, 5)
    assert len(_claim(world)) == 1


def test_setting_a_rate_again_is_no_new_burst(world: World) -> None:
    _limit(world, rate_per_second=0.001, burst=2)
    _send(world, 20)
    assert len(_claim(world)) == 2
    _limit(world, rate_per_second=0.001, burst=5)
    assert _claim(world) == []
    world.sql("UPDATE queues SET refilled_at = refilled_at - interval '3500 seconds'")
    _limit(world, rate_per_second=0.002, burst=5)  # what the old rate has earned
    assert len(_claim(world)) == 3
    world.sql("UPDATE queues SET refilled_at = refilled_at - interval '1 year'")
    _limit(world, rate_per_second=0.001, burst=9)  # under the old burst
    assert len(_claim(world)) == 5
    _limit(world, clear=True)
    _limit(world, rate_per_second=0.001, burst=1)
    assert len(_claim(world)) == 1


# -- pause and resume


def test_a_paused_queue_starts_nothing_and_goes_on_when_resumed(world: World) -> None:
    _limit(world, max_running=5)
    _send(world, 3)
    _send(world, 3, key="a", ordered=True)
    (running,) = _claim(world, 1)
    assert world.run(queues.pause(MAIL))
    assert not world.run(queues.pause(MAIL))
    assert _claim(world) == []
    assert world.complete(running.lease).ok
    assert world.run(queues.pause("web"))
    assert world.run(queues.resume(MAIL))
    assert not world.run(queues.resume(MAIL))
    assert len(_claim(world)) == 3
    assert [(queue.queue, queue.paused) for queue in world.run(queues.queues())] == [(MAIL, False), ("web", True)]
    assert not world.run(queues.resume("never heard of"))


def test_when_pause_has_answered_no_claim_is_under_way(world: World) -> None:
    _limit(world, max_running=5)
    _send(world, 3)
    claimer = user_connection(world)
    assert len(_claim(world, 1, conn=claimer)) == 1
    pausing = Beside(lambda: world.run(queues.pause(MAIL)))
    waits_for_a_lock(world, world.conn)
    claimer.commit()
    assert pausing.result()
    assert _claim(world) == []


CHANGES: dict[str, Statement[Any]] = {
    "pause": queues.pause(MAIL),
    "resume": queues.resume(MAIL),
    "limit": queues.limit(MAIL, max_running=1),
}


@pytest.mark.parametrize("verb", CHANGES)
def test_waiting_workers_are_told_to_look_again(world: World, verb: str) -> None:
    if verb == "resume":
        world.run(queues.pause(MAIL))
    listener = world.connect()
    ((channel,),) = world.sql("SELECT channel()")
    listener.execute(f'LISTEN "{channel}"'.encode())
    world.run(CHANGES[verb])
    assert [told.payload for told in listener.notifies(timeout=SECONDS_MAX, stop_after=1)] == ["queues"]


@pytest.mark.parametrize("verb", CHANGES)
def test_changes_are_dated_by_the_clock_and_not_by_their_transaction(world: World, verb: str) -> None:
    _limit(world, rate_per_second=1_000_000, burst=1_000_000)
    with world.conn.transaction():
        if verb == "resume":
            world.run(queues.pause(MAIL))
        world.sql("UPDATE queues SET updated_at = now(), refilled_at = now(), tokens = 0")
        world.run(CHANGES[verb])
        assert world.sql("SELECT updated_at > now() FROM queues") == [(True,)]
        if verb == "limit":
            assert world.sql("SELECT refilled_at > now(), tokens > 0 FROM queues") == [(True, True)]


# -- what may be set


def test_what_is_not_given_stays_and_clear_takes_it_away(world: World) -> None:
    _limit(world, max_running=5, max_per_key=2, rate_per_second=2.5)
    world.run(queues.pause(MAIL))
    _limit(world, max_per_key=1)
    assert world.run(queues.queues())[0].max_running == 5
    _limit(world, max_running=7)
    (queue,) = world.run(queues.queues())
    assert queue[1:6] == (True, 7, 1, 2.5, 3)
    assert (queue.running, queue.tokens) == (0, 3)
    _limit(world, max_per_key=1, clear=True)
    (queue,) = world.run(queues.queues())
    assert queue[1:8] == (True, None, 1, None, None, 0, None)
    assert queue.limited
    world.run(queues.resume(MAIL))
    _limit(world, clear=True)
    (queue,) = world.run(queues.queues())
    assert not queue.limited


def test_queues_say_how_much_of_a_limit_is_used(world: World) -> None:
    _limit(world, max_running=5, max_per_key=2, rate_per_second=0.001, burst=9)
    _send(world, 3, key="a")
    _send(world, 2)
    assert len(_claim(world)) == 4
    (queue,) = world.run(queues.queues())
    assert queue.running == 4
    assert queue.tokens == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize("name", ["max_running", "max_per_key", "rate_per_second", "burst"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 10**9, True, "5"])
def test_a_limit_that_is_none_is_refused_with_its_name_and_the_way_out(name: str, value: Any) -> None:
    given = {"rate_per_second": 1.0} | {name: value}
    with pytest.raises(BadSettings, match=rf"{name}={value!r}.*pause it"):
        queues.limit(MAIL, **given)


def test_a_limit_of_nothing_and_a_burst_of_no_rate_are_refused() -> None:
    with pytest.raises(BadSettings, match="no limit is given"):
        queues.limit(MAIL)
    with pytest.raises(BadSettings, match="burst=3 needs rate_per_second"):
        queues.limit(MAIL, burst=3)


@pytest.mark.parametrize(
    "columns",
    ["max_running) VALUES ('q', -1", "max_per_key) VALUES ('q', 0", "rate_per_second, burst) VALUES ('q', 'NaN', 1",
     "rate_per_second, burst) VALUES ('q', 'Infinity', 1", "rate_per_second, burst) VALUES ('q', 0, 1",
     "rate_per_second, burst) VALUES ('q', 1, 0", "burst) VALUES ('q', 1", "rate_per_second) VALUES ('q', 1"],
)  # fmt: skip
def test_the_database_refuses_it_as_well(world: World, columns: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        world.sql(f"INSERT INTO queues (queue, {columns})")


# -- the face


def _said(world: World, *words: str) -> str:
    where = ["--database-url", world.url, "--schema", world.schema]
    done = CliRunner().invoke(face.command, [*words, *where] if words else where)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_shows_pauses_resumes_and_limits(world: World) -> None:
    assert _said(world) == "no queue has a row or a setting\n"
    _send(world, 3)
    _send(world, 1, queue="default", delay_seconds=60)
    assert _said(world, "limit", MAIL, "--max-running", "2", "--rate", "0.5") == (
        "mail: 0 of 2 processing · 0.5 per second, burst 1\n"
    )
    assert _said(world, "limit", MAIL, "--max-per-key", "4", "--clear") == "mail: 4 per key\n"
    assert _said(world, "limit", MAIL, "--clear") == "mail: no limits\n"
    assert _said(world, "pause", MAIL) == "mail is paused\n"
    assert _said(world, "pause", MAIL) == "mail was paused already\n"
    lines = _said(world).splitlines()
    assert [line.split() for line in lines] == [
        ["default", "0", "1", "0", "0", "0", "0"],
        ["mail", "3", "0", "0", "0", "0", "0", "paused"],
    ]
    assert _said(world, "resume", MAIL) == "mail goes on\n"
    assert _said(world, "resume", MAIL) == "mail was not paused\n"


def test_the_command_answers_as_json_and_takes_the_database_before_or_after_the_verb(world: World) -> None:
    where = ["--database-url", world.url, "--schema", world.schema]
    done = CliRunner().invoke(face.command, [*where, "pause", MAIL])
    assert done.stdout == "mail is paused\n"
    assert "no row, worker or setting names the queue 'mail' yet" in done.stderr
    (shown,) = json.loads(_said(world, "--json"))["queues"]
    assert (shown["queue"], shown["pending"], shown["paused"], shown["max_running"]) == (MAIL, 0, True, None)
