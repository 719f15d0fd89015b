"""What operators do to single rows, keys and workers: nothing is lost, no token comes back, and sleepers are woken."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.errors import InvalidPayload
from tenure.model.rows import Lease, NewRow
from tenure.verbs import fleet, operators, questions, queues, settle
from tenure.verbs.statement import Statement
from world import World

HOUR = 3600.0


def locked(world: World, table: str, id: UUID) -> Any:
    """A connection whose open transaction has this row locked."""
    other = user_connection(world)
    assert other.execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE".encode(), [id]).rowcount == 1
    world.sql("SET lock_timeout = '3s'")
    return other


class Ears:
    """Hears what the fleet is told, while somebody in it sleeps."""

    def __init__(self, world: World, *, sleeper: bool = True) -> None:
        self._world, self._conn = world, world.connect()
        self._conn.execute(f'LISTEN "{world.run(questions.channel())}"'.encode())
        if sleeper:
            world.run(fleet.register("sleeper"))
            world.run(fleet.set_waiting("sleeper", waiting=True))

    def notes(self) -> list[str]:
        """The notes so far; each is told once."""
        self._world.run(fleet.tell("the end"))
        heard: list[str] = []
        for note in self._conn.notifies(timeout=120):
            if note.payload == "the end":
                return sorted(heard)
            heard.append(note.payload)
        raise AssertionError("the channel is deaf")


def note_of(world: World, key: str, queue: str = "default") -> str:
    return f"{world.run(questions.bucket(key))} {queue}"


# -- retry_now


def test_a_row_that_waits_for_its_time_or_its_backoff_runs_now(world: World) -> None:
    later = world.enqueue(delay_seconds=HOUR)
    failed = world.enqueue()
    lease = world.claim_one("A").lease
    world.retry(lease, delay=HOUR)
    assert world.claim("A", 2) == []
    retried = world.run(operators.retry_now([failed, later]))
    assert set(retried) == {later, failed}
    assert {job.id for job in world.claim("B", 2)} == {later, failed}
    assert (world.row(failed).attempts, world.row(failed).lease_generation) == (2, 2)


def test_a_retried_row_is_due_from_the_moment_it_was_retried(world: World) -> None:
    id = world.enqueue(delay_seconds=HOUR)
    world.sql("BEGIN")
    ((began,),) = world.sql("SELECT now()")
    world.run(operators.retry_now([id]))
    world.sql("COMMIT")
    ((ended,),) = world.sql("SELECT clock_timestamp()")
    assert began < world.row(id).available_at < ended


def test_rows_that_are_due_held_or_over_are_not_retried(world: World) -> None:
    ended = world.enqueue()
    world.fail(world.claim_one().lease)
    held = world.enqueue()
    world.claim_one()
    due = world.enqueue()
    before = [world.row(id) for id in (ended, held, due)]
    assert world.run(operators.retry_now([ended, held, due])) == []
    assert [world.row(id) for id in (ended, held, due)] == before


@pytest.mark.parametrize("table", ["live", "dead"])
def test_of_the_named_rows_those_are_locked_that_nobody_else_has_locked(world: World, table: str) -> None:
    ids = [world.enqueue() for _ in range(3)]
    if table == "dead":
        for job in world.claim("A", 3):
            world.dead_letter(job.lease)
    taken, free, other = ids
    with locked(world, table, taken), world.conn.transaction():
        assert world.run(operators.lock_free([taken, free])) == [free]
        mine = world.connect()
        look = f"SELECT id FROM {table} WHERE id = ANY (%s) FOR UPDATE SKIP LOCKED"
        assert mine.execute(look.encode(), [ids]).fetchall() == [(other,)]


def test_a_row_whose_time_came_inside_a_long_transaction_is_due_and_not_retried(world: World) -> None:
    id = world.enqueue(delay_seconds=HOUR)
    other = user_connection(world)
    other.execute("SELECT now()")
    world.sql("UPDATE live SET available_at = clock_timestamp() WHERE id = %s", id)
    before = world.row(id)
    assert world.run(operators.retry_now([id]), other) == []
    other.commit()
    assert world.row(id) == before


def test_a_locked_row_is_not_retried_and_not_waited_for(world: World) -> None:
    one, other = world.enqueue(delay_seconds=HOUR), world.enqueue(delay_seconds=HOUR)
    blocker = locked(world, "live", one)
    assert world.run(operators.retry_now([one, other])) == [other]
    blocker.rollback()
    assert world.run(operators.retry_now([one, other])) == [one]


def test_two_retries_at_once_change_each_row_once(world: World) -> None:
    ids = [world.enqueue(delay_seconds=HOUR) for _ in range(20)]
    connections = [world.connect() for _ in range(4)]
    answers = together(4, lambda n: world.run(operators.retry_now(ids[:: -1 if n % 2 else 1]), connections[n]))
    for answer in answers:
        assert len(answer) == len(set(answer))
    world.run(operators.retry_now(ids))
    assert len(world.claim("A", 30)) == 20


# -- release_held


def test_a_released_row_runs_again_at_once_and_its_holder_is_stale(world: World) -> None:
    id = world.enqueue()
    first = world.claim_one("A").lease
    world.enqueue()
    beside = world.claim_one("A").lease
    assert world.run(operators.release_held([id], reason="it hangs")) == [id]
    assert world.run(verbs.renew([beside])).lost == ()
    row = world.row(id)
    assert (row.status, row.attempts, row.lease_generation, row.claimed_by) == ("pending", 0, 1, None)
    assert row.last_error == "it hangs"
    assert world.complete(first).reason == "already_released"
    assert world.run(verbs.renew([first])).lost == (first,)
    second = world.claim_one("B").lease
    assert (second.generation, second.fence > first.fence) == (2, True)
    assert world.complete(first).reason == "token_mismatch"
    assert world.fail(first).reason == "token_mismatch"
    assert world.complete(second).ok
    assert [(a.worker, a.outcome, a.error) for a in world.run(questions.tape(id))] == [
        ("A", "released", "it hangs"), ("B", "completed", None),
    ]  # fmt: skip


def test_a_released_row_gives_its_key_and_its_permits_back(world: World) -> None:
    world.run(queues.limit("mail", max_running=1))
    limited = world.enqueue(queue="mail")
    ordered = world.enqueue(key="order:1", ordered=True)
    assert world.run(queues.claim_limited("A", 9, "mail")) != []
    assert world.claim_ordered("A") != []
    released = world.run(operators.release_held([limited, ordered]))
    assert set(released) == {limited, ordered}
    assert (world.count("permits"), world.keys_taken()) == (0, [])
    assert [job.id for job in world.run(queues.claim_limited("B", 9, "mail"))] == [limited]
    assert [job.id for job in world.claim_ordered("B")] == [ordered]


def test_only_held_rows_are_released(world: World) -> None:
    later, ended = world.enqueue(delay_seconds=HOUR), world.enqueue()
    world.fail(world.claim_one().lease)
    before = [world.row(id) for id in (later, ended)]
    assert world.run(operators.release_held([later, ended])) == []
    assert [world.row(id) for id in (later, ended)] == before
    assert len(world.run(questions.tape(later))) == 0


def test_a_row_whose_holder_was_asked_to_cancel_it_is_cancelled_by_its_release(world: World) -> None:
    id = world.enqueue()
    lease = world.claim_one().lease
    world.run(verbs.cancel([id]))
    assert world.run(operators.release_held([id])) == [id]
    assert world.status(id) == "cancelled"
    assert world.complete(lease).reason == "already_released"


def test_a_release_does_not_wait_for_a_holder_that_ends_its_row(world: World) -> None:
    one, other = world.enqueue(), world.enqueue()
    leases = {job.id: job.lease for job in world.claim("A", 2)}
    holder = user_connection(world)
    world.run(settle.complete([leases[one]]), holder)
    world.sql("SET lock_timeout = '3s'")
    assert world.run(operators.release_held([one, other])) == [other]
    holder.commit()
    assert (world.status(one), world.status(other)) == ("completed", "pending")
    assert world.run(operators.release_held([one, other])) == []


def test_a_completion_that_waited_for_a_release_is_refused(world: World) -> None:
    id = world.enqueue()
    lease = world.claim_one().lease
    operator = user_connection(world)
    world.run(operators.release_held([id]), operator)
    waiting = Beside(lambda: world.complete(lease))
    waits_for_a_lock(world, world.conn)
    operator.commit()
    assert waiting.result().reason == "already_released"
    assert world.status(id) == "pending"


# -- delete


def ended(world: World, end: str, **options: Any) -> UUID:
    """A row that ended so."""
    id = world.enqueue(**options)
    if end == "cancel":
        world.run(verbs.cancel([id]))
        return id
    (job,) = world.claim_ordered() if options.get("ordered") else world.claim()
    assert getattr(world, end)(job.lease).ok
    return id


@pytest.mark.parametrize("state", ["pending", "scheduled", "complete", "fail", "dead_letter", "cancel"])
def test_a_deleted_row_is_gone_with_its_tape_and_its_effects_and_nothing_else_is(world: World, state: str) -> None:
    ids: dict[str, UUID] = {}
    for name in ("other", "deleted"):
        ids[name] = world.enqueue(max_attempts=9)
        lease = world.claim_one("A").lease
        world.run(verbs.once(lease, "receipt"))
        world.retry(lease, delay=0 if state != "scheduled" else HOUR)
        if state == "cancel":
            world.run(verbs.cancel([ids[name]]))
        elif state not in ("pending", "scheduled"):
            getattr(world, state)(world.claim_one("A").lease)
        else:
            world.sql("UPDATE live SET available_at = available_at + interval '1 hour'")
    world.sql(
        "INSERT INTO refusals (at, row_id, worker, verb, kind, stale_token, reason) "
        "SELECT clock_timestamp(), id, 'A', 'complete', 'a', 1, 'token_mismatch' FROM inbox"
    )
    kept, tape = world.row(ids["other"]), world.run(questions.tape(ids["other"]))
    assert world.run(operators.delete([ids["deleted"]])) == [ids["deleted"]]
    assert world.run(questions.row(ids["deleted"])) is None
    assert world.run(questions.tape(ids["deleted"])) == []
    assert world.sql("SELECT row_id FROM effects") == [(ids["other"],)]
    assert world.sql("SELECT row_id FROM refusals") == [(ids["other"],)]
    assert (world.row(ids["other"]), world.run(questions.tape(ids["other"]))) == (kept, tape)
    assert world.sql("SELECT DISTINCT row_id FROM attempts") == [(ids["other"],)]
    assert world.run(operators.delete([ids["deleted"]])) == []


def test_a_deleted_row_takes_its_result_and_its_progress_along_and_no_others(world: World) -> None:
    kept, gone = world.enqueue(), world.enqueue()
    for id in (kept, gone):
        world.sql("INSERT INTO results (row_id, queue, value) VALUES (%s, 'default', '1')", id)
        world.sql("INSERT INTO progress (row_id, at) VALUES (%s, clock_timestamp())", id)
    world.run(operators.delete([gone]))
    assert world.sql("SELECT row_id FROM results UNION ALL SELECT row_id FROM progress") == [(kept,), (kept,)]


def test_a_held_row_is_not_deleted(world: World) -> None:
    id = world.enqueue()
    lease = world.claim_one().lease
    assert world.run(operators.delete([id])) == []
    assert world.complete(lease).ok


def test_the_late_duplicate_of_a_deleted_row_is_still_a_duplicate(world: World) -> None:
    id = world.enqueue(idempotency_key="k")
    world.run(operators.delete([id]))
    again = world.enqueued(idempotency_key="k")
    assert (again.id, again.outcome) == (id, "duplicate")
    assert world.claim() == []
    world.sql("UPDATE idempotency SET created_at = created_at - interval '31 days'")
    assert world.run(verbs.archive())["idempotency_keys_forgotten"] == 1
    assert world.enqueued(idempotency_key="k").outcome == "enqueued"


def test_a_key_goes_on_when_its_head_is_deleted(world: World) -> None:
    head = world.enqueue(key="order:1", ordered=True, delay_seconds=HOUR)
    following = world.enqueue(key="order:1", ordered=True)
    assert world.claim_ordered() == []
    assert world.run(operators.delete([head])) == [head]
    assert [job.id for job in world.claim_ordered()] == [following]


def test_a_key_on_hold_goes_on_when_the_row_it_waits_for_is_deleted(world: World) -> None:
    head = ended(world, "dead_letter", key="order:1", ordered=True, hold=True)
    following = world.enqueue(key="order:1", ordered=True)
    other = ended(world, "dead_letter", key="order:2", ordered=True, hold=True)
    assert world.claim_ordered() == []
    assert world.run(operators.delete([head])) == [head]
    assert world.sql("SELECT id FROM dead WHERE blocks") == [(other,)]
    assert [job.id for job in world.claim_ordered()] == [following]


@pytest.mark.parametrize(("table", "state"), [("live", "pending"), ("dead", "fail"), ("archive", "complete")])
def test_a_locked_row_is_not_deleted_and_not_waited_for(world: World, table: str, state: str) -> None:
    one, other = (world.enqueue() if state == "pending" else ended(world, state) for _ in range(2))
    blocker = locked(world, table, one)
    assert world.run(operators.delete([one, other])) == [other]
    blocker.rollback()
    assert world.run(operators.delete([one, other])) == [one]


def test_a_row_claimed_at_the_same_moment_is_not_deleted_under_its_holder(world: World) -> None:
    id = world.enqueue()
    claimer = user_connection(world)
    (job,) = world.run(verbs.claim("A", 1), claimer)
    world.sql("SET lock_timeout = '3s'")
    assert world.run(operators.delete([id])) == []
    claimer.commit()
    assert world.complete(job.lease).ok


def test_deletes_redrives_and_cancels_at_once_leave_every_row_in_one_place_or_in_none(world: World) -> None:
    ids = [world.enqueue() for _ in range(40)]
    for job in world.claim("A", 20):
        world.fail(job.lease)
    doing: list[Statement[Any]] = [
        verbs.redrive(ids),
        operators.delete(ids[::2]),
        verbs.cancel(ids[1::2]),
        operators.delete(ids[::3]),
    ]
    connections = [world.connect() for _ in doing]
    together(4, lambda n: world.run(doing[n], connections[n]))
    left = world.sql("SELECT id, count(*) FROM inbox GROUP BY id")
    assert {n for _, n in left} <= {1}
    assert {id for id, _ in left} >= set(ids) - set(ids[::2]) - set(ids[::3])


# -- free_key


def test_a_key_on_hold_is_freed_without_its_head(world: World) -> None:
    head = ended(world, "dead_letter", key="order:1", ordered=True, hold=True)
    following = world.enqueue(key="order:1", ordered=True)
    assert world.claim_ordered() == []
    assert not world.run(operators.free_key("default", "order:2"))
    assert not world.run(operators.free_key("mail", "order:1"))
    assert world.claim_ordered() == []
    assert world.run(operators.free_key("default", "order:1"))
    assert world.status(head) == "dead_letter"
    (job,) = world.claim_ordered()
    assert job.id == following
    assert not world.run(operators.free_key("default", "order:1"))


def test_a_key_in_flight_cannot_be_freed(world: World) -> None:
    world.enqueue(key="order:1", ordered=True)
    world.enqueue(key="order:1", ordered=True)
    (job,) = world.claim_ordered("A")
    assert not world.run(operators.free_key("default", "order:1"))
    assert world.claim_ordered("B") == []
    assert world.complete(job.lease).ok


def test_a_head_that_is_redriven_after_its_key_was_freed_comes_first_again(world: World) -> None:
    head = ended(world, "fail", key="order:1", ordered=True, hold=True)
    world.enqueue(key="order:1", ordered=True)
    world.run(operators.free_key("default", "order:1"))
    world.run(verbs.redrive([head]))
    assert [job.id for job in world.claim_ordered()] == [head]


# -- drain_worker


def test_a_worker_that_is_drained_claims_nothing_more_and_keeps_what_it_holds(world: World) -> None:
    for worker in ("A", "B"):
        world.run(fleet.register(worker))
    for _ in range(3):
        world.enqueue()
    lease = world.claim_one("A").lease
    ears = Ears(world)
    assert world.run(operators.drain_worker("A"))
    assert ears.notes() == ["drain A"]
    assert world.claim("A") == []
    assert len(world.claim("B")) == 1
    assert world.run(fleet.heartbeat("A")) == "draining"
    assert world.complete(lease).ok
    assert not world.run(operators.drain_worker("A"))
    assert world.sql("SELECT id, status FROM workers ORDER BY id") == [
        ("A", "draining"), ("B", "alive"), ("sleeper", "alive"),
    ]  # fmt: skip


def test_a_dead_worker_is_not_brought_back_by_a_drain(world: World) -> None:
    world.run(fleet.register("A"))
    world.sql("UPDATE workers SET status = 'dead'")
    assert not world.run(operators.drain_worker("A"))
    assert not world.run(operators.drain_worker("nobody"))
    assert world.sql("SELECT status FROM workers") == [("dead",)]


def test_a_drain_does_not_make_a_silent_worker_look_alive(world: World) -> None:
    world.run(fleet.register("A"))
    world.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '1 hour'")
    before = world.sql("SELECT last_seen_at FROM workers")
    world.run(operators.drain_worker("A"))
    assert world.sql("SELECT last_seen_at FROM workers") == before


# -- who is woken


def _held(world: World, **options: Any) -> Lease:
    world.enqueue(**options)
    (job,) = world.claim_ordered() if options.get("ordered") else world.claim()
    return job.lease


def test_rows_that_may_run_again_wake_who_sleeps(world: World) -> None:
    dead, failed = (ended(world, "fail", key=f"order:{n}") for n in (1, 2))
    later = world.enqueue(key="order:3", delay_seconds=HOUR)
    held = _held(world, key="order:4")
    unkeyed = world.enqueue(delay_seconds=HOUR)
    ears = Ears(world)
    world.run(verbs.redrive([dead]))
    assert ears.notes() == [note_of(world, "order:1")]
    world.run(verbs.redrive([dead, failed]))
    assert ears.notes() == [note_of(world, "order:2")]
    world.run(operators.retry_now([later]))
    assert ears.notes() == [note_of(world, "order:3")]
    world.run(operators.release_held([held.id]))
    assert ears.notes() == sorted(["cancel A", note_of(world, "order:4")])
    world.run(operators.retry_now([unkeyed]))
    assert ears.notes() == [note_of(world, str(unkeyed))]


def test_many_rows_wake_with_one_note_for_each_queue(world: World) -> None:
    ids = [world.enqueue(queue=queue, delay_seconds=HOUR) for queue in ("mail", "web") for _ in range(3)]
    lone = world.enqueue(queue="lone", key="order:1", delay_seconds=HOUR)
    ears = Ears(world)
    world.run(operators.retry_now([*ids, lone]))
    assert ears.notes() == sorted(["* mail", "* web", note_of(world, "order:1", "lone")])


def test_a_key_that_may_go_on_wakes_who_sleeps(world: World) -> None:
    cancelled, deleted = (world.enqueue(key=f"order:{n}", ordered=True, delay_seconds=HOUR) for n in (1, 2))
    freed = world.run(questions.row(ended(world, "fail", key="order:3", ordered=True, hold=True)))
    plain = world.enqueue(delay_seconds=HOUR)
    ears = Ears(world)
    world.run(verbs.cancel([cancelled, plain]))
    assert ears.notes() == [note_of(world, "order:1")]
    world.run(operators.delete([deleted]))
    assert ears.notes() == [note_of(world, "order:2")]
    assert freed is not None
    world.run(operators.free_key("default", "order:3"))
    assert ears.notes() == [note_of(world, "order:3")]


def test_nobody_is_woken_when_nothing_changed_or_nobody_sleeps(world: World) -> None:
    ears = Ears(world, sleeper=False)
    world.run(fleet.register("busy"))
    later = world.enqueue(delay_seconds=HOUR)
    world.run(operators.retry_now([later]))
    world.run(operators.delete([world.enqueue(key="order:1", ordered=True)]))
    world.run(verbs.enqueue_many([NewRow("k"), NewRow("k")]))
    assert ears.notes() == []
    world.run(fleet.register("sleeper"))
    world.run(fleet.set_waiting("sleeper", waiting=True))
    for statement in (verbs.redrive, operators.retry_now, operators.release_held, operators.delete):
        world.run(statement([UUID(int=1)]))
    world.run(operators.free_key("default", "order:1"))
    assert ears.notes() == []


# -- the audit


def _note(world: World, **other: str) -> int:
    given = {"actor": "ann@host", "via": "cli", "verb": "redrive", "target": "kind:a", "reason": "", **other}
    return world.run(operators.begin_audit(**given))


def test_a_line_of_the_audit_is_begun_carried_on_and_done(world: World) -> None:
    action = _note(world, reason="the mail server is back")
    assert world.run(operators.mark(action, 3, done=False))
    (line,) = world.run(operators.audit())
    assert (line.id, line.rows, line.done_at) == (action, 3, None)
    assert (line.actor, line.via, line.verb, line.target) == ("ann@host", "cli", "redrive", "kind:a")
    assert (line.reason, line.database_user) == ("the mail server is back", world.conn.info.user)
    other = _note(world)
    assert world.run(operators.mark(action, 4, done=True))
    newest, line = world.run(operators.audit())
    assert (newest.id, newest.rows, newest.done_at) == (other, 0, None)
    assert (line.rows, line.done_at is not None) == (7, True)
    assert not world.run(operators.mark(action, 1, done=True))


def test_a_batch_that_changed_nothing_carries_its_line_on_as_well(world: World) -> None:
    action = _note(world)
    assert world.run(operators.mark(action, 0, done=False))
    assert world.run(operators.mark(action, 0, done=True))
    (line,) = world.run(operators.audit())
    assert (line.rows, line.done_at is not None) == (0, True)


def test_a_line_is_done_when_it_was_marked_and_not_when_its_transaction_began(world: World) -> None:
    with world.conn.transaction():
        action = _note(world)
        world.run(operators.mark(action, 1, done=True))
    (line,) = world.run(operators.audit())
    assert line.done_at is not None
    assert line.at <= line.done_at


def test_the_audit_is_read_page_by_page_the_latest_first(world: World) -> None:
    actions = [_note(world) for _ in range(5)]
    first = world.run(operators.audit(2))
    assert [line.id for line in first] == actions[:2:-1]
    assert [line.id for line in world.run(operators.audit(9, before=first[-1].id))] == actions[2::-1]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM audit",
        "TRUNCATE audit",
        "UPDATE audit SET actor = 'somebody else'",
        "UPDATE audit SET target = 'another'",
        "UPDATE audit SET at = at - interval '1 day'",
        "UPDATE audit SET rows = rows - 1",
    ],
)
def test_the_audit_is_only_ever_added_to(world: World, change: str) -> None:
    world.run(operators.mark(_note(world), 3, done=False))
    before = world.run(operators.audit())
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only ever added to"):
        world.sql(change)
    assert world.run(operators.audit()) == before


def test_a_line_that_is_done_is_not_changed_any_more(world: World) -> None:
    world.run(operators.mark(_note(world), 3, done=True))
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only ever added to"):
        world.sql("UPDATE audit SET rows = rows + 1")


def test_what_cannot_be_written_down_is_refused_by_name(world: World) -> None:
    for wrong in ({"actor": ""}, {"actor": "a" * 300}, {"reason": "r" * 3000}, {"target": "\0"}, {"verb": ""}):
        with pytest.raises(InvalidPayload, match=next(iter(wrong))):
            _note(world, **wrong)
    with pytest.raises(InvalidPayload, match="key"):
        world.run(operators.free_key("default", ""))


def test_the_owner_forgets_old_lines_on_purpose_and_the_audit_is_kept_again(world: World) -> None:
    """As the guide to roles says."""
    world.run(operators.begin_audit("ann", "cli", "redrive", "kind:a"))
    world.sql("ALTER TABLE audit DISABLE TRIGGER audit_kept")
    world.sql("UPDATE audit SET at = at - interval '2 years'")
    world.sql("ALTER TABLE audit ENABLE TRIGGER audit_kept")
    world.run(operators.begin_audit("ann", "cli", "delete", "kind:b"))
    with world.conn.transaction():
        world.sql("ALTER TABLE audit DISABLE TRIGGER audit_kept")
        world.sql("DELETE FROM audit WHERE at < clock_timestamp() - interval '1 year'")
        world.sql("ALTER TABLE audit ENABLE TRIGGER audit_kept")
    assert [line.verb for line in world.run(operators.audit())] == ["delete"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        world.sql("DELETE FROM audit")
