"""A worker is there while its session is. Gone for longer than the grace, its rows run elsewhere; paused, they wait."""

from __future__ import annotations

import psycopg
import pytest

from crew import eventually
from tenure import verbs
from tenure.errors import WorkerEvicted
from tenure.verbs import fleet, questions, queues
from world import World


def appeared(world: World, worker: str = "A") -> psycopg.Connection[tuple[object, ...]]:
    """A registered worker that is there; the session that shows it."""
    session = world.connect()
    world.run(fleet.register(worker), session)
    world.run(fleet.appear(worker), session)
    return session


def vanished(world: World, worker: str = "A", seconds: float = 0.0) -> None:
    """A worker that was there, and has been missed for so long."""
    appeared(world, worker).close()
    eventually(lambda: worker in world.run(fleet.notice(grace_seconds=3600)))
    world.sql("UPDATE workers SET gone_at = gone_at - %s * interval '1 second' WHERE id = %s", seconds, worker)


def test_a_worker_whose_presence_is_gone_is_noticed_then_declared_dead_and_its_rows_run_elsewhere(world: World) -> None:
    ghost = world.connect()
    world.run(fleet.register("A"), ghost)
    world.run(fleet.appear("A"), ghost)
    world.enqueue("work")
    job = world.claim_one("A")
    assert world.run(fleet.notice(grace_seconds=0)) == {}
    assert world.run(fleet.evict(grace_seconds=0)) == []
    ghost.close()
    eventually(lambda: world.run(fleet.notice(grace_seconds=60)) == {"A": "gone"})
    assert world.run(fleet.notice(grace_seconds=60)) == {}
    assert world.run(fleet.evict(grace_seconds=60)) == []
    assert world.run(fleet.notice(grace_seconds=0)) == {"A": "dead"}
    (swept,) = world.run(fleet.evict(grace_seconds=0))
    assert (swept.id, swept.status) == (job.id, "pending")
    assert world.run(fleet.evict(grace_seconds=0)) == []
    assert world.sql("SELECT presence FROM workers") == [(None,)]


def test_a_worker_that_comes_back_in_time_keeps_its_rows(world: World) -> None:
    ghost = world.connect()
    world.run(fleet.register("A"), ghost)
    world.run(fleet.appear("A"), ghost)
    world.enqueue("work")
    world.claim_one("A")
    ghost.close()
    eventually(lambda: world.run(fleet.notice(grace_seconds=60)) == {"A": "gone"})
    back = world.connect()
    world.run(fleet.appear("A"), back)
    assert world.run(fleet.notice(grace_seconds=0)) == {}
    assert world.run(fleet.evict(grace_seconds=0)) == []
    assert world.row(world.sql("SELECT id FROM live")[0][0]).status == "processing"


def test_a_worker_that_was_missed_while_its_session_stood_is_back_and_stays(world: World) -> None:
    """It was noted as gone in the very moment it came back: its session says otherwise, and that is what counts."""
    world.run(fleet.register("A"))
    world.run(fleet.appear("A"))
    world.sql("UPDATE workers SET gone_at = clock_timestamp() - interval '1 hour'")
    assert world.run(fleet.notice(grace_seconds=0)) == {"A": "back"}
    assert world.sql("SELECT status, gone_at FROM workers") == [("alive", None)]
    assert world.run(fleet.notice(grace_seconds=0)) == {}


def test_a_worker_that_never_showed_presence_is_judged_by_its_leases_alone(world: World) -> None:
    world.run(fleet.register("A"))
    world.enqueue("work")
    world.claim_one("A")
    assert world.run(fleet.notice(grace_seconds=0)) == {}
    assert world.run(fleet.evict(grace_seconds=0)) == []


def test_a_paused_worker_declared_dead_by_its_silence_keeps_its_rows_until_the_lease_ends(world: World) -> None:
    paused = world.connect()
    world.run(fleet.register("A"), paused)
    world.run(fleet.appear("A"), paused)
    world.enqueue("work")
    job = world.claim_one("A")
    world.sql("UPDATE workers SET last_seen_at = clock_timestamp() - interval '1 hour'")
    assert world.run(fleet.sweep_workers()) == {"A": "dead"}
    world.run(fleet.notice(grace_seconds=0))
    assert world.run(fleet.evict(grace_seconds=0)) == []
    assert world.row(job.id).status == "processing"


def test_backoff_of_an_evicted_row_counts_from_when_its_worker_was_missed(world: World) -> None:
    ghost = world.connect()
    world.run(fleet.register("A"), ghost)
    world.run(fleet.appear("A"), ghost)
    world.enqueue("work")
    world.claim_one("A")
    ghost.close()
    eventually(lambda: world.run(fleet.notice(grace_seconds=60)) == {"A": "gone"})
    world.sql("UPDATE workers SET gone_at = clock_timestamp() - interval '6 seconds'")
    world.run(fleet.notice(grace_seconds=5))
    (swept,) = world.run(fleet.evict(grace_seconds=5))
    (due,) = world.sql("SELECT available_at <= clock_timestamp() FROM live WHERE id = %s", swept.id)
    assert due[0]


def test_a_row_that_somebody_has_locked_does_not_cost_the_others_their_leases(world: World) -> None:
    for _ in range(2):
        world.enqueue("work")
    locked, free = world.claim("A", 2)
    other = world.connect()
    with other.transaction():
        other.execute(f'SELECT id FROM "{world.schema}".live WHERE id = %s FOR UPDATE', [locked.id])
        renewed = world.run(verbs.renew([locked.lease, free.lease], lease_seconds=600))
    assert [lease.id for lease in renewed.kept] == [free.id]
    assert [lease.id for lease in renewed.passed_over] == [locked.id]
    assert renewed.lost == ()
    assert len(world.run(verbs.renew([locked.lease, free.lease], lease_seconds=600)).kept) == 2


def test_a_row_that_its_holder_has_just_completed_is_not_called_lost(world: World) -> None:
    world.enqueue("work")
    job = world.claim_one("A")
    world.complete(job.lease)
    renewed = world.run(verbs.renew([job.lease]))
    assert (renewed.kept, renewed.lost) == ((), ())
    assert renewed.passed_over == (job.lease,)


def test_a_dead_worker_cannot_appear_again(world: World) -> None:
    session = appeared(world)
    world.sql("UPDATE workers SET status = 'dead'")
    with pytest.raises(WorkerEvicted):
        world.run(fleet.appear("A"), session)


def test_only_the_worker_that_appears_is_marked_present(world: World) -> None:
    world.run(fleet.register("B"))
    appeared(world, "A")
    assert world.sql("SELECT id FROM workers WHERE presence IS NOT NULL") == [("A",)]


def test_one_workers_session_does_not_stand_for_anothers(world: World) -> None:
    appeared(world, "B")
    vanished(world, "A", seconds=60)
    assert world.run(fleet.notice(grace_seconds=6)) == {"A": "dead"}
    assert sorted(world.sql("SELECT id, status FROM workers")) == [("A", "dead"), ("B", "alive")]


def test_other_locks_do_not_look_like_presence(world: World) -> None:
    """Neither the same number given as two halves, nor its neighbour, nor a lock of another kind."""
    vanished(world, "A", seconds=60)
    (found,) = world.sql("SELECT presence FROM workers")
    key = int(found[0])
    high, low = key >> 32, key & 0xFFFFFFFF
    halves = [high - (1 << 32) if high >= 1 << 31 else high, low - (1 << 32) if low >= 1 << 31 else low]
    world.connect().execute("SELECT pg_advisory_lock(%s, %s)", halves)
    world.connect().execute("SELECT pg_advisory_lock(%s)", [key ^ 1])
    assert world.run(fleet.notice(grace_seconds=6)) == {"A": "dead"}


def test_the_same_lock_in_another_database_is_not_ours(world: World) -> None:
    vanished(world, "A", seconds=60)
    (found,) = world.sql("SELECT presence FROM workers")
    with psycopg.connect(world.url, dbname="template1", autocommit=True) as copy:
        copy.execute("SELECT pg_advisory_lock(%s)", [found[0]])
        assert world.run(fleet.notice(grace_seconds=6)) == {"A": "dead"}


def test_a_worker_gone_for_less_than_the_grace_keeps_its_rows(world: World) -> None:
    world.enqueue("work")
    world.claim_one("A")
    vanished(world, "A", seconds=3)
    assert world.run(fleet.notice(grace_seconds=6)) == {}
    assert world.run(fleet.evict(grace_seconds=6)) == []
    world.sql("UPDATE workers SET status = 'dead'")
    assert world.run(fleet.evict(grace_seconds=6)) == [], "dead for another reason, and not gone for long enough"


def test_a_worker_that_is_alive_is_not_evicted_however_long_it_was_gone(world: World) -> None:
    world.enqueue("work")
    world.claim_one("A")
    vanished(world, "A", seconds=60)
    assert world.run(fleet.evict(grace_seconds=6)) == [], "notice comes first: the worker may be back"


def test_eviction_takes_the_rows_of_the_gone_and_of_nobody_else(world: World) -> None:
    appeared(world, "B")
    for _ in range(4):
        world.enqueue("work")
    (theirs,) = world.claim("B", 1)
    ours = world.claim("A", 2)
    vanished(world, "A", seconds=60)
    world.run(fleet.notice(grace_seconds=6))
    first = world.run(fleet.evict(grace_seconds=6, n=1))
    assert len(first) == 1
    assert world.sql("SELECT id FROM workers WHERE presence IS NOT NULL ORDER BY 1") == [("A",), ("B",)]
    rest = world.run(fleet.evict(grace_seconds=6))
    assert {swept.id for swept in first + rest} == {job.id for job in ours}
    assert world.run(fleet.evict(grace_seconds=6)) == []
    assert world.row(theirs.id).status == "processing"
    assert world.sql("SELECT id FROM workers WHERE presence IS NOT NULL") == [("B",)]
    assert [attempt.error for attempt in world.run(questions.tape(ours[0].id))] == ["its worker is gone"]


def test_an_evicted_row_that_failed_often_still_waits_out_its_backoff(world: World) -> None:
    id = world.enqueue("work", max_attempts=20)
    world.sql("UPDATE live SET attempts = 9")
    world.claim_one("A")
    vanished(world, "A", seconds=60)
    world.run(fleet.notice(grace_seconds=6))
    world.run(fleet.evict(grace_seconds=6))
    (waits,) = world.sql("SELECT date_part('epoch', available_at - clock_timestamp()) FROM live WHERE id = %s", id)
    assert 800 < waits[0] < 1300


def test_a_locked_row_is_passed_over_by_eviction_and_taken_the_next_time(world: World) -> None:
    for _ in range(2):
        world.enqueue("work")
    locked, free = world.claim("A", 2)
    vanished(world, "A", seconds=60)
    world.run(fleet.notice(grace_seconds=6))
    other = world.connect()
    with other.transaction():
        other.execute(f'SELECT id FROM "{world.schema}".live WHERE id = %s FOR UPDATE', [locked.id])
        assert [swept.id for swept in world.run(fleet.evict(grace_seconds=6))] == [free.id]
        assert world.run(fleet.evict(grace_seconds=6)) == []
    assert [swept.id for swept in world.run(fleet.evict(grace_seconds=6))] == [locked.id]


def test_a_worker_somebody_has_locked_is_judged_the_next_time(world: World) -> None:
    vanished(world, "A", seconds=60)
    other = world.connect()
    with other.transaction():
        other.execute(f'SELECT id FROM "{world.schema}".workers FOR UPDATE')
        assert world.run(fleet.notice(grace_seconds=6)) == {}
    assert world.run(fleet.notice(grace_seconds=6)) == {"A": "dead"}


def test_who_is_dead_no_longer_asks_to_be_woken(world: World) -> None:
    session = appeared(world)
    world.run(fleet.set_waiting("A", waiting=True), session)
    session.close()
    eventually(lambda: world.run(fleet.notice(grace_seconds=3600)) == {"A": "gone"})
    assert world.sql("SELECT waiting FROM workers") == [(False,)]


@pytest.mark.parametrize("way", ["claim", "claim_in_crowd", "claim_ordered", "claim_limited"])
def test_a_worker_that_is_missed_claims_nothing_until_it_is_back(world: World, way: str) -> None:
    world.run(queues.limit("slow", max_running=9))
    world.enqueue("work")
    world.enqueue("work", key="k", ordered=True)
    world.enqueue("work", queue="slow")
    claim = {
        "claim": verbs.claim("A", 1),
        "claim_in_crowd": verbs.claim("A", 1, in_crowd=True),
        "claim_ordered": verbs.claim_ordered("A", 1),
        "claim_limited": queues.claim_limited("A", 1, "slow"),
    }[way]
    vanished(world, "A")
    assert world.run(claim) == []
    world.run(fleet.appear("A"), world.connect())
    assert len(world.run(claim)) == 1


def test_in_a_long_transaction_too_the_grace_is_counted_by_the_clock(world: World) -> None:
    world.enqueue("work")
    job = world.claim_one("A")
    keeper = world.connect()
    with keeper.transaction():
        keeper.execute("SELECT 1")
        vanished(world, "A")
        world.sql("UPDATE workers SET status = 'dead'")
        assert [swept.id for swept in world.run(fleet.evict(grace_seconds=0), keeper)] == [job.id]
