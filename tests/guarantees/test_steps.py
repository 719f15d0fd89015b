"""Steps of workflows: a record is fenced, a park and a signal never miss each other, of signal and timeout one wins."""

from __future__ import annotations

from importlib.resources import files
from typing import Any
from uuid import UUID

import psycopg
import pytest

from guarantees.facts import Beside, together, waits_for_a_lock
from tenure import verbs
from tenure.errors import StaleLease
from tenure.model.rows import Claimed, Lease, Settled
from tenure.verbs import operators, queues, settle, steps
from tenure.verbs.steps import Parking, Recorded, Recording, Step, Wait
from world import World

FLOW = {"tenure-flow": "checkout"}
SHIPPED = Wait("", 1, "wait:shipped", seconds=3600.0)


def _flow(world: World, **options: Any) -> Lease:
    world.enqueue("checkout", headers=FLOW, **options)
    return world.claim_one().lease


def _record(world: World, lease: Any, *made: Step, shown: Any = None, conn: Any = None) -> Recorded | Settled:
    return world.run(steps.record([Recording(lease, 1, made, shown or {})]), conn)[0]


def _park(world: World, lease: Any, *waits: Wait, conn: Any = None, patient: bool = True, **more: Any) -> Any:
    return world.run(steps.park([Parking(lease, waits, **more)], patient=patient), conn)[0]


def _signal(world: World, id: UUID, name: str = "shipped", payload: Any = 1, conn: Any = None, **more: Any) -> str:
    return world.run(steps.signal(id, name, payload, **more), conn).outcome


def _steps(world: World) -> list[tuple[Any, ...]]:
    return world.sql("SELECT n, name, state, result FROM steps ORDER BY path, n")


def test_a_step_is_recorded_once_and_a_lost_reply_is_no_harm(world: World) -> None:
    lease = _flow(world)
    for _ in range(2):
        assert isinstance(_record(world, lease, Step("", 0, "charge", "done", result='{"id":7}')), Recorded)
    assert _steps(world) == [(0, "charge", "done", {"id": 7})]
    _record(world, lease, Step("", 0, "charge", "done", result="8"))
    assert _steps(world) == [(0, "charge", "done", {"id": 7})]
    (found,) = world.run(steps.recall([(lease.id, 1)]))[lease.id]
    assert (found.name, found.state, found.result, found.over) == ("charge", "done", '{"id": 7}', False)
    assert world.run(steps.recall([(lease.id, 2)])) == {lease.id: []}


def test_a_begun_step_is_ended_by_its_second_record(world: World) -> None:
    lease = _flow(world)
    _record(world, lease, Step("", 0, "charge", "begun"), shown={"stage": '"charging"'})
    _record(world, lease, Step("", 0, "charge", "failed", tries=3, error="no"), shown={"stage": '"failed"'})
    assert world.sql("SELECT state, tries, error FROM steps") == [("failed", 3, "no")]
    assert world.sql("SELECT key, value FROM shown") == [("stage", "failed")]


@pytest.mark.parametrize("how", ["taken over", "expired", "older fence", "parked", "completed"])
def test_a_stale_holder_records_and_parks_nothing(world: World, how: str) -> None:
    lease = _flow(world)
    if how == "taken over":
        world.expire(lease)
        world.sweep()
        world.due()
        assert world.claim_one("B").generation == 2
    elif how == "expired":
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp() - interval '1 s'")
    elif how == "older fence":
        lease = lease._replace(fence=lease.fence - 1)
    elif how == "parked":
        assert _park(world, lease, SHIPPED).outcome == "parked"
        world.sql("DELETE FROM steps")
    else:
        world.complete(lease)
    before = world.sql("TABLE live")
    answers = [_record(world, lease, Step("", 0, "x", "done"), shown={"a": "1"}), _park(world, lease, SHIPPED)]
    assert all(isinstance(answer, Settled) and not answer.ok for answer in answers)
    with pytest.raises(StaleLease):
        world.run(steps.anew(lease, "{}"))
    assert (_steps(world), world.count("shown"), world.sql("TABLE live")) == ([], 0, before)


def test_without_the_generation_a_stale_holder_would_record(world: World) -> None:
    """The control: the same scene, with the guard taken out of the statement."""
    lease = _flow(world)
    world.expire(lease)
    world.sweep()
    world.due()
    world.claim_one("B")
    text = (files("tenure.sql") / "verbs/record.sql").read_text().replace("tenure.", f"{world.schema}.")
    guard = next(line for line in text.splitlines() if "IN (SELECT l.id, l.generation" in line)
    params = steps.record([Recording(lease, 1, [Step("", 0, "x", "done")])]).params
    unguarded = text.replace(guard, "")
    for name in sorted(params, key=len, reverse=True):
        unguarded = unguarded.replace(f":{name}::", f"%({name})s::")
    world.conn.execute(unguarded.encode(), params)
    assert len(_steps(world)) == 1


def test_a_record_sets_attempts_back_and_a_locked_row_does_not_delay_the_others(world: World) -> None:
    first, second = _flow(world), _flow(world)
    world.sql("UPDATE live SET attempts = 7")
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [first.id])
        world.sql("SET lock_timeout = '10s'")  # who would wait for the other is refused
        step = [Step("", 0, "x", "done")]
        locked, done = world.run(steps.record([Recording(first, 1, step), Recording(second, 1, step)]))
        assert isinstance(locked, Settled)
        assert (locked.reason, isinstance(done, Recorded)) == ("try_again", True)
    assert isinstance(_record(world, first, *step), Recorded)
    assert world.sql("SELECT DISTINCT attempts FROM live") == [(1,)]
    assert len(_steps(world)) == 2


def test_nobody_takes_the_row_between_a_record_and_its_commit(world: World) -> None:
    lease, other = _flow(world), world.connect()
    with other.transaction():
        _record(world, lease, Step("", 0, "x", "done"), conn=other)
        world.sql("UPDATE claims SET until = clock_timestamp()")
        blocked = Beside(lambda: world.run(verbs.cancel([lease.id])))
        waits_for_a_lock(world, world.conn)
    assert blocked.result() == {lease.id: "asked"}


def test_a_park_gives_the_row_back_without_tape_and_cost(world: World) -> None:
    lease = _flow(world)
    assert _park(world, lease, SHIPPED).outcome == "parked"
    ((status, attempts, hours),) = world.sql(
        "SELECT status, attempts, round(extract(epoch FROM available_at - clock_timestamp()) / 3600) FROM live"
    )
    assert (status, attempts, int(hours), world.count("attempts")) == ("pending", 0, 1, 0)
    assert _steps(world) == [(1, "wait:shipped", "waiting", None)]
    assert _signal(world, lease.id) == "delivered"
    assert _steps(world) == [(1, "wait:shipped", "done", 1)]
    assert world.claim_one("B").attempts == 1


def test_a_row_that_is_no_flow_can_be_parked_and_woken(world: World) -> None:
    world.enqueue()
    lease = world.claim_one()
    assert _park(world, lease, seconds=60.0).outcome == "parked"
    assert world.claim() == []
    assert world.run(steps.wake([lease.id])) == [lease.id]
    assert world.run(steps.wake([lease.id])) == []
    assert world.claim_one("B").generation == 2
    assert _signal(world, lease.id) == "unknown"


def test_permits_of_a_limited_queue_go_back_with_a_park(world: World) -> None:
    world.sql("INSERT INTO queues (queue, max_running) VALUES ('default', 1)")
    world.enqueue(headers=FLOW)
    world.enqueue(headers=FLOW)

    def claim() -> list[Claimed]:
        return world.run(queues.claim_limited("A", 5, queue="default"))

    (first,) = claim()
    assert claim() == []
    assert _park(world, first, SHIPPED).outcome == "parked"
    assert len(claim()) == 1


def test_a_signal_before_the_wait_is_queued_and_met_in_order(world: World) -> None:
    lease = _flow(world)
    for payload in ("a", "b"):
        assert _signal(world, lease.id, payload=payload) == "queued"
    _signal(world, lease.id, "other")
    answer = _park(world, lease, SHIPPED, Wait("", 2, "wait:shipped", seconds=9.0), Wait("", 3, "sleep", seconds=9.0))
    assert answer.outcome == "awake"
    assert sorted((step.n, step.state, step.result) for step in answer.met) == [
        (1, "done", '"a"'),
        (2, "done", '"b"'),
        (3, "waiting", None),
    ]
    assert [step[:3] for step in _steps(world)] == [(1, "wait:shipped", "done"), (2, "wait:shipped", "done")]
    assert world.sql("SELECT name FROM signals") == [("other",)]
    assert world.status(lease.id) == "processing"


def test_once_is_once_and_an_ended_or_unknown_instance_says_so(world: World) -> None:
    lease = _flow(world, idempotency_key="flow:checkout:9")
    assert _signal(world, lease.id, once="scan-77") == "queued"
    assert _signal(world, lease.id, once="scan-77") == "duplicate"
    assert world.run(steps.signal(None, "x", named="flow:checkout:9")).id == lease.id
    assert world.run(steps.signal(None, "x", named="nobody")) == (None, "unknown")
    assert world.count("signals") == 2
    world.complete(lease)
    assert _signal(world, lease.id) == "ended"
    assert world.run(steps.cancel_flow(lease.id)) == (lease.id, "ended")


def test_a_signal_that_is_rolled_back_never_was(world: World) -> None:
    lease, other = _flow(world), world.connect()
    _park(world, lease, SHIPPED)
    with other.transaction(force_rollback=True):
        assert _signal(world, lease.id, conn=other, once="x") == "delivered"
    assert _steps(world)[0][2] == "waiting"
    assert _signal(world, lease.id, once="x") == "delivered"


def test_of_two_signals_at_once_one_is_delivered_and_one_is_kept(world: World) -> None:
    lease, other = _flow(world), world.connect()
    _park(world, lease, SHIPPED)
    with other.transaction():
        assert _signal(world, lease.id, payload="first", conn=other) == "delivered"
        second = Beside(lambda: _signal(world, lease.id, payload="second"))
        waits_for_a_lock(world, world.conn)
    assert second.result() == "queued"
    assert (_steps(world)[0][3], world.sql("SELECT payload FROM signals")) == ("first", [("second",)])


def test_a_signal_and_a_timeout_have_one_winner(world: World) -> None:
    lease = _flow(world)
    _park(world, lease, SHIPPED)
    world.sql("UPDATE steps SET until = clock_timestamp()")
    world.due()
    again = world.claim_one("B")
    assert _signal(world, lease.id) == "queued"  # its holder decides
    assert [step.state for step in _park(world, again, SHIPPED).met] == ["done"]
    assert world.count("signals") == 0
    late = _flow(world)
    assert [step.state for step in _park(world, late, Wait("", 0, "wait:x", seconds=0.0)).met] == ["timed_out"]
    assert _signal(world, late.id, "x") == "queued"


def test_a_wait_keeps_its_end_when_it_is_parked_again(world: World) -> None:
    lease = _flow(world)
    _park(world, lease, SHIPPED)
    world.sql("UPDATE steps SET until = clock_timestamp() + interval '7 min'")
    world.run(steps.wake([lease.id]))
    assert _park(world, world.claim_one(), SHIPPED).outcome == "parked"
    assert world.sql("SELECT available_at < clock_timestamp() + interval '8 min' FROM live") == [(True,)]


def test_a_cancelled_instance_does_not_go_to_sleep_unless_it_knows(world: World) -> None:
    lease = _flow(world)
    assert world.run(steps.cancel_flow(lease.id, reason="changed my mind")) == (lease.id, "asked")
    parked = _park(world, lease, SHIPPED)
    assert (parked.outcome, parked.cancel) == ("cancelled", "changed my mind")
    answer = _record(world, lease, Step("", 1, "wait:shipped", "cancelled"))
    assert isinstance(answer, Recorded)
    assert answer.cancel == "changed my mind"
    assert (
        _park(world, lease, Wait("undo", 0, "undo:charge", "retrying", seconds=60.0, tries=2), cleaning=True).outcome
        == "parked"
    )
    world.run(steps.cancel_flow(lease.id, reason="again"))
    again = world.claim_one()
    assert "changed my mind" in (again.headers or "")


def test_anew_is_the_same_row_without_records_and_with_its_signals(world: World) -> None:
    lease = _flow(world)
    _record(world, lease, Step("", 0, "x", "done"))
    _signal(world, lease.id)
    assert world.run(steps.anew(lease, '{"n": 2}')) == 2
    again = world.claim_one("B")
    assert (again.id, again.payload, '"tenure-run": "2"' in (again.headers or "")) == (lease.id, '{"n": 2}', True)
    assert world.run(steps.recall([(lease.id, 2)])) == {lease.id: []}
    assert world.count("signals") == 1


def test_a_park_waits_for_an_open_signal_or_passes_over(world: World) -> None:
    lease, other = _flow(world), world.connect()
    with other.transaction():
        _signal(world, lease.id, conn=other)
        assert _park(world, lease, SHIPPED, patient=False).outcome == "locked"
        waiting = Beside(lambda: _park(world, lease, SHIPPED))
        waits_for_a_lock(world, world.conn)
    assert waiting.result().outcome == "awake"


def test_what_has_come_is_found_while_somebody_else_signals(world: World) -> None:
    lease, other = _flow(world), world.connect()
    _signal(world, lease.id)
    with other.transaction():
        world.run(steps.signal(lease.id, "other", None), other)
        assert _park(world, lease, SHIPPED, patient=False).outcome == "awake"
    assert world.count("signals") == 1  # the other


def _race(world: World, n: int) -> int:
    """Parks and signals at once; how many sleep beside their signal."""
    held = []
    for _ in range(n):
        held.append(_flow(world))
    one, two = world.connect(), world.connect()

    def act(number: int) -> None:
        for lease in held:
            if number:
                _signal(world, lease.id, conn=one)
            else:
                _park(world, lease, SHIPPED, conn=two)

    together(2, act)
    return int(
        world.sql("SELECT count(*) FROM signals AS g JOIN steps AS s USING (row_id) WHERE s.state = 'waiting'")[0][0]
    )


def test_no_park_and_signal_miss_each_other(world: World) -> None:
    assert _race(world, 60) == 0


def _merged(world: World) -> None:
    """The control: the look at the signals has the snapshot of the statement that waits for the lock."""
    source = world.sql("SELECT pg_get_functiondef('park'::regproc)")[0][0]
    before, lock, after = source.partition("    PERFORM pg_advisory_xact_lock(")
    looks = "FROM unnest(ids, delays) AS l (id, delay)"
    assert lock
    assert after.count(looks) == 1
    merged = before + after.partition("\n")[2].replace(
        looks,
        f"{looks} CROSS JOIN LATERAL (SELECT pg_advisory_xact_lock({world.schema}.flow_lock(l.id)) OFFSET 0) AS k",
    )
    world.sql(merged.replace("%", "%%"))


def test_with_lock_and_look_in_one_statement_an_instance_sleeps_beside_its_signal(world: World) -> None:
    _merged(world)
    lease, other = _flow(world), world.connect()
    with other.transaction():
        _signal(world, lease.id, conn=other)
        waiting = Beside(lambda: _park(world, lease, SHIPPED))
        waits_for_a_lock(world, world.conn)
    assert waiting.result().outcome == "parked"
    assert world.count("signals") == 1


def test_signals_have_a_limit_with_a_remedy(world: World) -> None:
    lease = _flow(world)
    world.sql("INSERT INTO signals (row_id, name, payload) SELECT %s, 'x', '1' FROM generate_series(1, 1000)", lease.id)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="let it wait for them"):
        _signal(world, lease.id)


def test_what_belongs_to_a_flow_is_erased_and_forgotten_with_it(world: World) -> None:
    lease = _flow(world)
    _record(world, lease, Step("", 0, "x", "done", result='"secret"'), shown={"a": "1"})
    _signal(world, lease.id, once="o")
    world.complete(lease)
    world.run(operators.erase([lease.id]))
    assert [world.count(table) for table in ("steps", "signals", "signals_once", "shown")] == [0, 0, 0, 0]
    world.sql(
        "INSERT INTO steps (row_id, run, path, n, name, state, fence_token, recorded_at) "
        "SELECT id_at(clock_timestamp() - interval '20 days'), 1, '', 0, 'x', 'done', 1, clock_timestamp()"
    )
    world.run(verbs.archive())
    assert world.count("steps") == 0
    assert world.sql(
        "SELECT count(*) > 2 FROM pg_class WHERE relname ~ '^steps_\\d{8}$'"
        " AND relnamespace = current_schema()::regnamespace"
    ) == [(True,)]


def test_who_stays_writes_its_waits_once_and_is_not_given_back(world: World) -> None:
    lease = _flow(world)
    again = Wait("", 1, "try", "retrying", seconds=0.0)
    assert _park(world, lease, SHIPPED, stays=True).outcome == "stays"
    before = world.sql("SELECT xmin::text, n, state FROM steps")
    assert before[0][1:] == (SHIPPED.n, "waiting")
    assert _park(world, lease, SHIPPED, stays=True).outcome == "stays"
    assert world.sql("SELECT xmin::text, n, state FROM steps") == before
    assert world.status(lease.id) == "processing"
    answer = _park(world, lease, Wait("", 2, "wait:other", seconds=60.0), again, stays=True)
    assert (answer.outcome, {step.n: step.state for step in answer.met}) == ("awake", {1: "due", 2: "waiting"})
    assert (2, "wait:other", "waiting", None) in _steps(world)  # written beside what is due, which is not
    assert _signal(world, lease.id) == "queued"
    assert [step.state for step in _park(world, lease, SHIPPED, stays=True).met] == ["done"]
    assert world.count("signals") == 0


def test_who_stays_does_not_wait_for_who_signals_it(world: World) -> None:
    lease = _flow(world)
    with psycopg.connect(world.url, autocommit=True) as other, other.transaction():
        _signal(world, lease.id, conn=other)
        assert _park(world, lease, SHIPPED, patient=False).outcome == "locked"
        assert _park(world, lease, SHIPPED, patient=False, stays=True).outcome == "stays"


@pytest.mark.parametrize("stays", [True, False])
def test_a_wait_whose_answer_was_lost_is_answered_as_it_was(world: World, stays: bool) -> None:
    """The second signal is for the next wait."""
    lease = _flow(world)
    for payload in (1, 2):
        world.run(steps.signal(lease.id, "shipped", payload))
    first, again = (_park(world, lease, SHIPPED, stays=stays) for _ in range(2))
    assert [(step.state, step.result) for step in again.met] == [(step.state, step.result) for step in first.met]
    assert [(step.state, step.result) for step in first.met] == [("done", "1")]
    assert world.sql("SELECT payload FROM signals") == [(2,)]


def test_a_signal_does_not_overtake_one_that_is_queued(world: World) -> None:
    lease = _flow(world)
    assert _park(world, lease, SHIPPED, stays=True).outcome == "stays"
    assert _signal(world, lease.id) == "queued"
    world.run(settle.release([lease]))
    assert world.status(lease.id) == "pending"
    assert _signal(world, lease.id) == "queued"
    assert world.count("signals") == 2
