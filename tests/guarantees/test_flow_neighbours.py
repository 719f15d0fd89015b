"""What is done to one instance of a workflow is done to it alone, to the run that is, and by the database's clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from guarantees.facts import Beside, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.errors import StaleLease
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import batches, queues, results, steps
from tenure.verbs.steps import Parking, Recorded, Recording, Saying, Step, Wait
from world import World

pytestmark = pytest.mark.one_server
FLOW = {"tenure-flow": "checkout"}
SHIPPED = Wait("", 1, "wait:shipped", seconds=3600.0)


def _flows(world: World, n: int) -> list[Claimed]:
    ids = [world.enqueue("checkout", headers=FLOW) for _ in range(n)]
    found = {job.id: job for job in world.claim(n=n)}
    return [found[id] for id in ids]


def _park(world: World, lease: Any, *waits: Wait, **more: Any) -> Any:
    return world.run(steps.park([Parking(lease, waits, **more)]))[0]


def _signal(world: World, id: UUID, name: str = "shipped", payload: Any = 1) -> str:
    return world.run(steps.signal(id, name, payload)).outcome


def _record(world: World, lease: Any) -> Any:
    return world.run(steps.record([Recording(lease, 1, [Step("", 0, "x", "done")])]))[0]


def _again(world: World, lease: Any) -> Claimed:
    """The same instance, woken and held anew."""
    world.run(steps.wake([lease.id]))
    (job,) = world.claim(n=1)
    assert job.id == lease.id
    return job


def _asleep(world: World) -> list[UUID]:
    query = "SELECT id FROM live WHERE status = 'pending' AND available_at > clock_timestamp() ORDER BY id"
    return [id for (id,) in world.sql(query)]


def _at(world: World, id: UUID) -> Any:
    return world.sql("SELECT available_at FROM live WHERE id = %s", id)[0][0]


# -- one instance


def test_a_park_is_of_those_it_names(world: World) -> None:
    one, two, three = _flows(world, 3)
    _signal(world, three.id)
    parked = world.run(steps.park([Parking(one, [SHIPPED]), Parking(two, [SHIPPED])]))
    assert [answer.outcome for answer in parked if isinstance(answer, steps.Parked)] == ["parked", "parked"]
    assert _asleep(world) == sorted([one.id, two.id])
    assert world.status(three.id) == "processing"
    assert world.sql("SELECT row_id FROM signals") == [(three.id,)]
    assert world.sql("SELECT row_id FROM steps ORDER BY 1") == [(id,) for id in sorted([one.id, two.id])]


def test_a_park_passes_by_a_row_that_somebody_has_locked(world: World) -> None:
    one, two = _flows(world, 2)
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [one.id])
        world.sql("SET lock_timeout = '10s'")  # who would wait for the other is refused
        answers = world.run(steps.park([Parking(one, [SHIPPED]), Parking(two, [SHIPPED])]))
    assert [getattr(answer, "reason", "") or answer.outcome for answer in answers] == ["try_again", "parked"]  # type: ignore[union-attr]


def test_a_park_and_anew_give_back_the_permit_of_one(world: World) -> None:
    world.sql("INSERT INTO queues (queue, max_running) VALUES ('default', 3)")
    for _ in range(3):
        world.enqueue(headers=FLOW)
    one, two, three = world.run(queues.claim_limited("A", 3, queue="default"))
    _park(world, one, SHIPPED)
    assert sorted(world.sql("SELECT row_id FROM permits")) == sorted([(two.id,), (three.id,)])
    world.run(steps.anew(two, "{}"))
    assert world.sql("SELECT row_id FROM permits") == [(three.id,)]


def test_anew_and_a_record_are_of_one_instance(world: World) -> None:
    one, two = _flows(world, 2)
    world.sql("UPDATE live SET fence_token = %s, lease_generation = %s, attempts = 7", one.fence, one.generation)
    assert _record(world, one).written
    assert world.sql("SELECT attempts FROM live WHERE id = %s", two.id) == [(7,)]
    with pytest.raises(StaleLease):
        world.run(steps.anew(one._replace(generation=one.generation + 1), "{}"))
    world.run(steps.anew(one, "{}"))
    assert world.status(two.id) == "processing"


def test_a_wake_is_of_those_it_names(world: World) -> None:
    one, two = _flows(world, 2)
    for lease in (one, two):
        _park(world, lease, SHIPPED)
    assert world.run(steps.wake([one.id])) == [one.id]
    assert _asleep(world) == [two.id]


def test_who_is_being_woken_by_another_is_not_woken_twice(world: World) -> None:
    (one,) = _flows(world, 1)
    _park(world, one, SHIPPED)
    first, second = user_connection(world), world.connect()
    assert world.run(steps.wake([one.id]), first) == [one.id]
    again = Beside(lambda: world.run(steps.wake([one.id]), second))
    waits_for_a_lock(world, second)
    first.commit()
    assert again.result() == []


def test_a_signal_goes_to_one_wait_of_one_instance(world: World) -> None:
    one, two = _flows(world, 2)
    names = (("0.0", 1, "shipped"), ("0.0", 2, "paid"), ("0.1", 1, "paid"), ("0.1", 2, "other"))
    waits = [Wait(path, n, f"wait:{name}", seconds=3600.0) for path, n, name in names]
    _park(world, two, Wait("0.0", 0, "wait:paid", seconds=3600.0), *waits)
    _park(world, one, *waits)
    assert _signal(world, one.id, "paid") == "delivered"
    assert world.sql("SELECT row_id, path, n FROM steps WHERE state = 'done'") == [(one.id, "0.0", 2)]
    assert _asleep(world) == [two.id]
    assert world.claim_one().id == one.id
    assert _signal(world, one.id, "shipped") == "queued"  # its holder decides
    world.sql("INSERT INTO signals (row_id, name, payload) SELECT %s, 'x', '1' FROM generate_series(1, 1000)", two.id)
    assert _signal(world, one.id, "shipped") == "queued"  # the other's signals are not its own


def test_a_signal_waits_for_a_claim_that_is_under_way_and_is_left_to_its_holder(world: World) -> None:
    (one,) = _flows(world, 1)
    _park(world, one, SHIPPED)
    world.due()
    claimer, sender = user_connection(world), world.connect()
    sender.execute("SET lock_timeout = '50ms'")
    assert [job.id for job in world.run(verbs.claim("B", 1), claimer)] == [one.id]
    with pytest.raises(psycopg.errors.LockNotAvailable):
        world.run(steps.signal(one.id, "shipped", 1), sender)
    claimer.commit()
    assert world.run(steps.signal(one.id, "shipped", 1)).outcome == "queued"


def test_a_second_wait_for_a_signal_is_met_by_the_second_one(world: World) -> None:
    (one,) = _flows(world, 1)
    for n in (1, 2):
        assert _park(world, one, SHIPPED._replace(n=n)).outcome == "parked"
        assert _signal(world, one.id) == "delivered"
        one = world.claim_one()
    assert world.count("signals") == 0


def test_a_signal_leaves_a_row_that_is_due_at_its_place(world: World) -> None:
    (one,) = _flows(world, 1)
    _park(world, one, SHIPPED)
    world.due()
    before = _at(world, one.id)
    assert _signal(world, one.id) == "delivered"
    assert _at(world, one.id) == before


def test_a_signal_is_for_the_run_that_is(world: World) -> None:
    (one,) = _flows(world, 1)
    _park(world, one, SHIPPED)
    world.run(steps.anew(_again(world, one), "{}"))
    assert _signal(world, one.id) == "queued"
    _park(world, world.claim_one(), SHIPPED._replace(name="wait:paid"), run=2)
    assert _signal(world, one.id, "paid") == "delivered"
    assert world.sql("SELECT run, state FROM steps ORDER BY run") == [(1, "waiting"), (2, "done")]


def test_who_is_no_flow_is_unknown_and_who_has_ended_says_so(world: World) -> None:
    live, ended = _flows(world, 2)
    world.complete(ended.lease)
    plain, over = world.enqueue(delay_seconds=60), world.enqueue()
    world.complete(world.claim_one().lease)
    for id, outcome in ((ended.id, "ended"), (over, "unknown"), (plain, "unknown"), (uuid4(), "unknown")):
        assert _signal(world, id) == outcome
        assert world.run(steps.cancel_flow(id)) == (id, outcome)
    assert world.sql("SELECT count(*) FROM live WHERE headers ? 'tenure-cancel'") == [(0,)]
    for name in ("a", "b"):
        world.enqueue("checkout", headers=FLOW, idempotency_key=name)
    assert world.run(steps.cancel_flow(None, named="nobody")) == (None, "unknown")
    assert world.run(steps.cancel_flow(None, named="b"))[1] == "asked"
    assert world.run(steps.signal(None, "x", named="nobody")) == (None, "unknown")
    assert world.run(steps.signal(None, "x", named="b")).outcome == "queued"
    assert world.sql("SELECT headers ? 'tenure-cancel' FROM live WHERE id = %s", live.id) == [(False,)]


# -- what a park makes of a wait


def test_another_try_and_another_wait_have_their_own_end(world: World) -> None:
    (one,) = _flows(world, 1)
    tries = Wait("", 0, "charge", "retrying", tries=2, seconds=60.0)
    others = (tries._replace(tries=3, seconds=7200.0), Wait("", 0, "wait:x", tries=3, seconds=90000.0))
    for wait in (tries, *others):
        assert _park(world, one, wait).outcome == "parked"
        ((seconds,),) = world.sql("SELECT extract(epoch FROM available_at - clock_timestamp()) FROM live")
        assert wait.seconds is not None
        assert wait.seconds / 2 < seconds <= wait.seconds
        one = _again(world, one)


def test_a_try_that_is_due_is_not_written_and_a_sleep_that_is_over_is_done(world: World) -> None:
    (one,) = _flows(world, 1)
    answer = _park(world, one, Wait("", 0, "charge", "retrying", seconds=0.0), Wait("", 1, "sleep", seconds=0.0))
    assert (answer.outcome, {step.n: step.state for step in answer.met}) == ("awake", {0: "due", 1: "done"})
    assert world.sql("SELECT n, state FROM steps") == [(1, "done")]


def test_a_cancelled_instance_writes_no_wait(world: World) -> None:
    (one,) = _flows(world, 1)
    world.run(steps.cancel_flow(one.id))
    assert _park(world, one, SHIPPED).outcome == "cancelled"
    assert (world.count("steps"), world.status(one.id)) == (0, "processing")


def test_a_wait_for_a_group_ends_with_that_group(world: World) -> None:
    (one,) = _flows(world, 1)
    over, still = (world.run(batches.open_group([NewRow("child")] * n)).id for n in (0, 1))
    waits = [Wait("", n, f"group:{group}", seconds=60.0) for n, group in enumerate((over, still))]
    assert {step.n: step.state for step in _park(world, one, *waits).met} == {0: "done", 1: "waiting"}


# -- the clock goes on within a transaction


def test_what_is_written_late_in_a_transaction_has_the_time_of_its_writing(world: World) -> None:
    recorded, parked, sent, due, woken, slept, cancelled, renewed = _flows(world, 8)
    for lease in (sent, due, woken, slept, cancelled):
        _park(world, lease, SHIPPED)
    with world.conn.transaction():
        ((began,),) = world.sql("SELECT clock_timestamp() FROM pg_sleep(0.02)")
        world.sql("UPDATE live SET available_at = %s WHERE id = ANY (%s)", began, [due.id, slept.id])
        for lease in (sent, due):
            assert _signal(world, lease.id) == "delivered"
        answers = [_record(world, recorded), _park(world, parked, Wait("", 0, "sleep", seconds=60.0))]
        assert world.run(steps.wake([woken.id, slept.id])) == [woken.id]
        world.run(steps.cancel_flow(cancelled.id))
        world.run(steps.anew(renewed, "{}"))
        world.run(results.await_end(recorded.id, 0.0))
        assert all(answer.moment >= began.timestamp() for answer in answers)
        assert min(_at(world, lease.id) for lease in (sent, woken, renewed)) > began
        assert _at(world, cancelled.id) == began - timedelta(microseconds=1), "before all that wait"
        assert _at(world, due.id) == began
        assert world.sql("SELECT min(recorded_at) > %s FROM steps WHERE state = 'done'", began) == [(True,)]
        assert world.sql("SELECT until > %s FROM watched", began) == [(True,)]


def test_a_lease_that_ends_within_a_transaction_has_ended(world: World) -> None:
    (one,) = _flows(world, 1)
    with world.conn.transaction():
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp() FROM pg_sleep(0.01)")
        assert world.sql("SELECT lease_expires_at > now() FROM live") == [(True,)]
        assert not isinstance(_record(world, one), Recorded)
        assert not isinstance(_park(world, one, SHIPPED), steps.Parked)
        assert world.run(steps.say([Saying(one, "late")])) == []
        with pytest.raises(StaleLease):
            world.run(steps.anew(one, "{}"))
