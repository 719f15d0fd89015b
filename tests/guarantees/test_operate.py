"""Actions over a filter: the count is exact, no row beyond it is touched, and the audit knows how far they came."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure import operate, verbs
from tenure.errors import BadSettings, InvalidPayload, LineLocked
from tenure.model.filter import Filter, parse
from tenure.model.rows import NewRow
from tenure.operate import Actor, AuditLine, CountChanged, Done, NoSuchVerb
from tenure.verbs import fleet, operators, questions, queues, settle
from tenure.verbs.statement import Statement
from world import World

ANN = Actor("ann@host", "python")
HOUR = 3600.0


def would(world: World, verb: str, filter: str) -> int:
    return operate.would(world.conn, verb, parse(filter), world.schema)


def act(world: World, verb: str, filter: str = "kind:a", **options: Any) -> Done:
    return operate.act(world.conn, verb, parse(filter), ANN, schema=world.schema, **options)


def audit(world: World) -> list[AuditLine]:
    return world.run(operate.audit())


def send(world: World, n: int, kind: str = "a", **options: Any) -> list[UUID]:
    return [each.id for each in world.run(verbs.enqueue_many([NewRow(kind, **options) for _ in range(n)]))]


def fail(world: World, n: int, kind: str = "a", **options: Any) -> list[UUID]:
    """Rows that have failed."""
    ids = send(world, n, kind, **options)
    for job in world.claim("A", n):
        world.fail(job.lease)
    return ids


@pytest.fixture
def one_of_each(world: World) -> dict[str, UUID]:
    """A row of every state, and one of another kind beside each."""
    found: dict[str, UUID] = {}
    for kind in ("b", "a"):
        for end in ("complete", "fail", "dead_letter"):
            found[end] = world.enqueue(kind)
            getattr(world, end)(world.claim_one().lease)
        found["cancelled"] = world.enqueue(kind)
        world.run(verbs.cancel([found["cancelled"]]))
        found["held"] = world.enqueue(kind)
        world.claim_one("A")
        found["scheduled"] = world.enqueue(kind, delay_seconds=HOUR)
    found["due"] = world.enqueue("a")
    return found


def pictures(world: World) -> dict[UUID, tuple[Any, ...]]:
    """Every row as it stands."""
    return {row[0]: row for row in world.sql("SELECT id, status, attempts, available_at, cancel_asked FROM inbox")}


TAKES: dict[str, dict[str, str | None]] = {
    "redrive": {"fail": "pending", "dead_letter": "pending"},
    "retry": {"scheduled": "pending"},
    "release": {"held": "pending"},
    "cancel": {"scheduled": "cancelled", "due": "cancelled", "held": "processing"},
    "delete": dict.fromkeys(["complete", "fail", "dead_letter", "cancelled", "scheduled", "due"]),
}


@pytest.mark.parametrize("verb", TAKES)
def test_a_verb_changes_the_rows_it_may_change_and_counts_exactly_those(
    world: World, one_of_each: dict[str, UUID], verb: str
) -> None:
    before = pictures(world)
    expected = TAKES[verb]
    assert would(world, verb, "kind:a") == len(expected)
    done = act(world, verb)
    assert done == Done(done.action, verb, len(expected), len(expected), 0, True)
    after = pictures(world)
    changed = {id for id in before if before[id] != after.get(id)}
    assert changed == {one_of_each[name] for name in expected}
    for name, status in expected.items():
        assert (status is None) == (one_of_each[name] not in after)
        assert status is None or after[one_of_each[name]][1] == status
    (line,) = audit(world)
    assert (line.id, line.rows, line.done_at is not None) == (done.action, len(expected), True)
    assert (line.verb, line.actor, line.via) == (verb, "ann@host", "python")


@pytest.mark.parametrize(
    ("verb", "filter", "narrowed"),
    [
        ("redrive", "", "status:failed,dead_letter"),
        ("redrive", "status:dead_letter kind:a", "status:dead_letter kind:a"),
        ("redrive", "status:pending,failed", "status:failed"),
        ("redrive", "status:pending", None),
        ("retry", "status:pending", "status:scheduled"),
        ("retry", "status:runnable", None),
        ("cancel", "status:scheduled,processing", "status:scheduled,processing"),
        ("cancel", "status:runnable", "status:runnable"),
        ("release", "status:processing,failed", "status:processing"),
        ("delete", "status:processing", None),
        ("delete", "status:completed,runnable,scheduled", "status:completed,runnable,scheduled"),
    ],
)
def test_a_filter_is_narrowed_to_the_states_that_a_verb_takes(verb: str, filter: str, narrowed: str | None) -> None:
    found = operate.narrow(verb, parse(filter))
    assert (found and str(found)) == narrowed


def test_a_filter_that_names_none_of_a_verbs_states_changes_nothing(world: World) -> None:
    send(world, 3)
    assert would(world, "redrive", "status:pending") == 0
    assert act(world, "redrive", "status:pending")[2:] == (0, 0, 0, True)
    (line,) = audit(world)
    assert (line.target, line.rows, line.done_at is not None) == ("status:pending", 0, True)


def test_a_verb_that_operators_do_not_have_is_refused_by_name(world: World) -> None:
    for wrong in (lambda: would(world, "complete", "kind:a"), lambda: act(world, "complete")):
        with pytest.raises(NoSuchVerb, match="redrive, retry, release, cancel, delete"):
            wrong()
    assert audit(world) == []


# -- batches


def test_many_rows_are_changed_in_batches_that_each_commit(world: World) -> None:
    ids = fail(world, 25)
    seen: list[int] = []
    other = world.connect()

    def look(looked: int) -> None:
        ((rows, done),) = other.execute("SELECT rows, done_at IS NOT NULL FROM audit").fetchall()
        ((live,),) = other.execute("SELECT count(*) FROM live").fetchall()
        assert (rows, done) == (live, live == 25)
        seen.append(looked)

    began: list[int] = []
    done = act(world, "redrive", batch=10, progress=look, began=began.append)
    assert seen == [10, 10, 5]
    assert (done.matched, done.changed, done.skipped, done.done) == (25, 25, 0, True)
    assert began == [done.action]
    assert {world.status(id) for id in ids} == {"pending"}


@pytest.mark.parametrize("batch", [1, 5, 6, 100])
def test_the_size_of_a_batch_changes_nothing_but_the_number_of_steps(world: World, batch: int) -> None:
    fail(world, 6)
    assert act(world, "redrive", batch=batch)[2:] == (6, 6, 0, True)
    assert world.count("live") == 6


def test_an_action_that_is_broken_off_leaves_what_it_did_and_a_line_that_is_not_done(world: World) -> None:
    fail(world, 25)

    def break_off(looked: int) -> None:
        if world.count("live") == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        act(world, "redrive", batch=10, progress=break_off)
    (line,) = audit(world)
    assert (line.rows, line.done_at) == (20, None)
    assert act(world, "redrive", batch=10).changed == 5
    assert [(line.rows, line.done_at is not None) for line in audit(world)] == [(5, True), (20, False)]


def test_a_batch_that_fails_is_neither_done_nor_noted(world: World) -> None:
    send(world, 20)
    world.sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$")
    world.sql("CREATE TRIGGER refuse BEFORE DELETE ON live FOR EACH STATEMENT EXECUTE FUNCTION refuse()")
    with pytest.raises(psycopg.errors.RaiseException):
        act(world, "delete")
    (line,) = audit(world)
    assert (line.rows, line.done_at, world.count("live")) == (0, None, 20)


def test_an_action_commits_also_on_a_connection_that_begins_transactions_by_itself(world: World) -> None:
    fail(world, 3)
    conn = user_connection(world)
    operate.act(conn, "redrive", parse("kind:a"), ANN, schema=world.schema, batch=2)
    conn.rollback()
    assert world.count("live") == 3
    assert audit(world)[0].rows == 3


# -- what others do meanwhile


def test_a_row_that_somebody_has_locked_is_counted_as_skipped(world: World) -> None:
    ids = send(world, 3)
    blocker = user_connection(world)
    blocker.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [ids[1]])
    world.sql("SET lock_timeout = '3s'")
    assert act(world, "delete")[2:] == (3, 2, 1, True)
    assert audit(world)[0].rows == 2
    blocker.rollback()
    assert act(world, "delete")[2:] == (1, 1, 0, True)


@pytest.mark.parametrize(("verb", "table"), [("cancel", "live"), ("redrive", "dead")])
def test_a_row_that_stays_locked_keeps_no_other_waiting(world: World, verb: str, table: str) -> None:
    ids = send(world, 6) if verb == "cancel" else fail(world, 6)
    leases = [job.lease for job in world.claim("A", 6)]
    blocker = user_connection(world)
    blocker.execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE".encode(), [ids[3]])
    assert act(world, verb)[2:] == (6, 5, 1, True)
    assert world.sql("SHOW lock_timeout") == [("0",)]
    blocker.rollback()
    assert len(world.run(verbs.renew(leases)).cancel_asked) == (5 if leases else 0)
    assert act(world, verb)[2:4] == ((6, 6) if leases else (1, 1))


@pytest.mark.parametrize("verb", ["cancel", "redrive"])
def test_while_a_row_is_waited_for_no_other_is_locked(world: World, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A held row that an action keeps locked cannot be renewed: eighty leases would be lost for one locked row."""
    monkeypatch.setattr(operate, "LOCK_SECONDS", 19.0)
    ids = send(world, 6) if verb == "cancel" else fail(world, 6)
    leases = [job.lease for job in world.claim("A", 6)]
    blocker, conn = user_connection(world), world.connect()
    table = "live" if verb == "cancel" else "dead"
    blocker.execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE".encode(), [ids[3]])
    acting = Beside(lambda: operate.act(conn, verb, parse("kind:a"), ANN, schema=world.schema))
    waits_for_a_lock(world, conn)
    assert world.sql(f"SELECT count(*) FROM (SELECT FROM {table} FOR UPDATE SKIP LOCKED) AS free") == [
        (5 if verb == "cancel" else 0,)
    ], "what was changed is committed and free"
    assert world.sql("SELECT count(*) FROM live WHERE cancel_asked OR status = 'pending'") == [(5,)]
    if leases:
        kept = {lease.id for lease in world.run(verbs.renew(leases)).kept}
        assert kept == set(ids) - {ids[3]}
    blocker.rollback()
    assert acting.result()[2:] == (6, 6, 0, True)
    assert audit(world)[0].rows == 6


def test_an_action_reads_what_others_commit_meanwhile_whatever_the_caller_works_with(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operate, "LOCK_SECONDS", 19.0)
    (id,) = send(world, 1)
    blocker, conn = user_connection(world), user_connection(world)
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    blocker.execute("UPDATE live SET last_error = 'x' WHERE id = %s", [id])
    acting = Beside(lambda: operate.act(conn, "cancel", parse("kind:a"), ANN, schema=world.schema))
    waits_for_a_lock(world, conn)
    blocker.commit()
    assert acting.result()[2:] == (1, 1, 0, True)
    assert conn.isolation_level == psycopg.IsolationLevel.REPEATABLE_READ


def test_an_action_inside_a_transaction_is_refused(world: World) -> None:
    send(world, 1)
    conn = user_connection(world)
    conn.execute("SELECT 1")
    with pytest.raises(BadSettings, match="outside a transaction"):
        operate.act(conn, "cancel", parse("kind:a"), ANN, schema=world.schema)
    assert (world.count("live"), audit(world)) == (1, [])


def test_more_rows_than_were_expected_are_refused_and_fewer_are_fine(world: World) -> None:
    fail(world, 3)
    with pytest.raises(CountChanged, match="redrive would now change 3 rows, not 2"):
        act(world, "redrive", expect=2)
    assert (audit(world), world.count("dead")) == ([], 3)
    assert act(world, "redrive", expect=4).changed == 3


def test_rows_that_come_after_the_count_are_left_alone(world: World) -> None:
    send(world, 10)
    later: list[UUID] = []

    def send_more(_action: int) -> None:
        later.extend(send(world, 10))

    assert act(world, "delete", batch=4, began=send_more)[2:] == (10, 10, 0, True)
    assert {id for (id,) in world.sql("SELECT id FROM live")} == set(later)


def test_never_more_rows_are_changed_than_were_counted(world: World) -> None:
    send(world, 10)
    held = world.claim("A", 10)
    for job in held[:5]:
        world.fail(job.lease)

    def fail_more(_action: int) -> None:
        for job in held[5:]:
            world.fail(job.lease)

    assert act(world, "redrive", batch=2, began=fail_more)[2:] == (5, 5, 0, True)
    assert (world.count("live"), world.count("dead")) == (5, 5)


def test_rows_that_begin_to_match_meanwhile_take_nobodys_place(world: World) -> None:
    ids = send(world, 20)
    held = {job.id: job.lease for job in world.claim("A", 20)}
    counted, others = ids[::2], ids[1::2]
    for id in counted:
        world.fail(held[id])

    def fail_others(_action: int) -> None:
        for id in others:
            world.fail(held[id])

    assert act(world, "redrive", batch=3, began=fail_others)[2:] == (10, 10, 0, True)
    assert {world.status(id) for id in counted} == {"pending"}
    assert {world.status(id) for id in others} == {"failed"}


@pytest.mark.parametrize(
    "change", ["DELETE FROM dead WHERE id = %s", "UPDATE dead SET last_error = 'other' WHERE id = %s"]
)
def test_rows_that_match_no_longer_are_left_alone_and_counted_as_skipped(world: World, change: str) -> None:
    ids = fail(world, 10)
    done = act(
        world, "redrive", "kind:a error:boom", batch=4, began=lambda _: [world.sql(change, id) for id in ids[2:5]]
    )
    assert done[2:] == (10, 7, 3, True)
    assert (world.count("live"), audit(world)[0].rows, done.looked) == (7, 7, 10)


@pytest.mark.parametrize("rows", [0, 3])
def test_a_line_that_somebody_has_locked_is_no_row_to_skip(
    world: World, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operate, "LINE_SECONDS", 0.1)
    send(world, rows)
    other = user_connection(world)
    with pytest.raises(LineLocked, match="line 1 of the audit is locked by another session: after 0 rows"):
        act(world, "cancel", began=lambda action: other.execute("SELECT FROM audit WHERE id = %s FOR UPDATE", [action]))
    other.rollback()
    (line,) = audit(world)
    assert (line.rows, line.done_at, world.count("live")) == (0, None, rows)


def test_the_line_is_waited_for_longer_than_the_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operate, "LOCK_SECONDS", 0.001)
    send(world, 3)
    other, conn = user_connection(world), user_connection(world)

    def lock(action: int) -> None:
        other.execute("SELECT FROM audit WHERE id = %s FOR UPDATE", [action])

    acting = Beside(lambda: operate.act(conn, "cancel", parse("kind:a"), ANN, schema=world.schema, began=lock))
    waits_for_a_lock(world, conn)
    other.rollback()
    assert acting.result()[2:] == (3, 3, 0, True)


@pytest.mark.parametrize("step", [1, 3, 10])
def test_the_count_is_made_in_steps_and_leaves_none_out(
    world: World, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operate, "STEP", step)
    send(world, 10)
    assert act(world, "cancel", batch=4)[2:] == (10, 10, 0, True)


def test_two_operators_at_once_change_each_row_once(world: World) -> None:
    fail(world, 60)
    conns = [world.connect() for _ in range(3)]
    dones = together(3, lambda n: operate.act(conns[n], "redrive", parse("kind:a"), ANN, schema=world.schema, batch=7))
    assert sum(done.changed for done in dones) == 60
    assert sum(line.rows for line in audit(world)) == 60
    assert (world.count("live"), world.count("dead")) == (60, 0)


def test_workers_that_settle_meanwhile_lose_nothing(world: World) -> None:
    send(world, 60)
    completions = [settle.complete([job.lease]) for job in world.claim("A", 60)]
    conns = [world.connect() for _ in range(2)]

    def release() -> int:
        return operate.act(conns[0], "release", parse("kind:a"), ANN, schema=world.schema, batch=5).changed

    def complete() -> int:
        return sum(world.run(statement, conns[1])[0].ok for statement in completions)

    released, completed = together(2, lambda n: (release, complete)[n]())
    assert (world.count("archive"), world.count("live")) == (completed, released)
    assert released + completed == 60


# -- what the row and the audit remember


def test_the_reason_is_kept_by_the_audit_and_by_the_rows(world: World) -> None:
    cancelled, released = world.enqueue("a", delay_seconds=HOUR), world.enqueue("a")
    world.claim_one("A")
    act(world, "release", reason="it hangs")
    assert world.row(released).last_error == "released by an operator: it hangs"
    act(world, "cancel", reason="not needed")
    assert world.row(cancelled).last_error == "cancelled by an operator: not needed"
    assert [line.reason for line in audit(world)] == ["not needed", "it hangs"]
    act(world, "cancel")
    send(world, 1)
    act(world, "cancel")
    assert audit(world)[0].reason == ""


def test_the_target_is_the_filter_in_its_own_words(world: World) -> None:
    act(world, "redrive", 'error:"time out" kind:a')
    (line,) = audit(world)
    assert line.target == 'status:failed,dead_letter kind:a error:"time out"'
    assert parse(line.target) == Filter(statuses=("failed", "dead_letter"), kind="a", error="time out")


def test_a_reason_that_cannot_be_kept_changes_nothing(world: World) -> None:
    fail(world, 1)
    with pytest.raises(InvalidPayload, match="reason"):
        act(world, "redrive", reason="r" * 5000)
    assert (world.count("dead"), audit(world)) == (1, [])


# -- single mutations


def test_a_single_mutation_and_its_line_are_one_transaction(world: World) -> None:
    assert operate.noted(world.conn, queues.pause("mail"), ANN, "pause", "mail", world.schema, reason="too much")
    assert not operate.noted(world.conn, queues.pause("mail"), ANN, "pause", "mail", world.schema)
    again, first = audit(world)
    assert (first.verb, first.target, first.rows, first.reason) == ("pause", "mail", 1, "too much")
    assert (again.rows, again.done_at is not None) == (0, True)
    operate.noted(world.conn, queues.limit("mail", max_running=3), ANN, "limit", "mail", world.schema)
    assert audit(world)[0].rows == 1


def test_a_mutation_that_fails_leaves_no_line(world: World) -> None:
    with pytest.raises(Exception, match="declared dead"):
        operate.noted(world.conn, fleet.drain("nobody"), ANN, "drain", "nobody", world.schema)
    assert audit(world) == []


def test_a_line_that_cannot_be_written_undoes_its_mutation(world: World) -> None:
    broken: Statement[bool] = queues.pause("mail")
    world.sql("ALTER TABLE audit ADD CONSTRAINT never CHECK (done_at IS NULL)")
    with pytest.raises(psycopg.errors.CheckViolation):
        operate.noted(world.conn, broken, ANN, "pause", "mail", world.schema)
    assert world.run(queues.queues()) == []


def test_a_worker_and_a_key_are_handled_through_the_same_door(world: World) -> None:
    world.run(fleet.register("A"))
    for statement in (operate.drain_worker("A"), operate.free_key("default", "order:1")):
        operate.noted(world.conn, statement, ANN, statement.name, "it", world.schema)
    assert [(line.verb, line.rows) for line in audit(world)] == [("free_key", 0), ("drain_worker", 1)]
    assert world.run(questions.workers())[0].status == "draining"
    assert operators.audit is operate.audit
