"""Erase leaves nothing of a row, in any table; what is not kept is not there in the first place."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from apps import vault
from crew import working
from tenure import Inbox, Job, Lane, operate, verbs
from tenure.events import JobCompleted, JobDeadLettered
from tenure.model.filter import Filter
from tenure.operate import Actor, act
from tenure.verbs import operators
from world import World

WHO = "customer:ann@example.com"
ME = Actor("me")


def mentions(world: World, text: str) -> list[str]:
    """The tables of the schema that hold this text anywhere."""
    tables = world.sql(
        "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' ORDER BY 1",
        world.schema,
    )
    said = "SELECT 1 FROM {} AS t WHERE t::text LIKE '%%' || %s || '%%' LIMIT 1"
    return [name for (name,) in tables if world.sql(said.format(name), text)]


def put(world: World, **options: object) -> UUID:
    return world.enqueue("bill", {"to": WHO}, key=WHO, **options)


def completed(world: World) -> UUID:
    return completed_under(world, f"bill {WHO}")


def completed_under(world: World, key: str) -> UUID:
    id = put(world, idempotency_key=key)
    world.retry(world.claim_one().lease, f"no mail to {WHO}", 0.0)
    world.due()
    claimed = world.claim_one()
    assert world.run(verbs.once(claimed, f"mail {WHO}"))
    world.complete(claimed.lease)
    return id


def dead(world: World) -> UUID:
    id = put(world, idempotency_key=f"bill {WHO}")
    world.dead_letter(world.claim_one().lease, f"no mail to {WHO}")
    return id


def ordered(world: World) -> UUID:
    return put(world, ordered=True, idempotency_key=f"bill {WHO}")


EVERY = pytest.mark.parametrize("made", [completed, dead, ordered, put])


@EVERY
def test_erase_leaves_nothing_in_any_table(world: World, made: Callable[[World], UUID]) -> None:
    id = made(world)
    other = world.enqueue("bill", {"to": "bob"}, key="bob", idempotency_key="bill bob")
    assert mentions(world, "ann@example.com")
    done = act(world.conn, "erase", Filter(key=WHO), ME, schema=world.schema)
    assert (done.matched, done.changed) == (1, 1)
    world.claim_ordered()  # the next claim forgets the key itself
    assert mentions(world, "ann@example.com") == []
    assert set(mentions(world, str(id))) <= {"claims"}, "the sweep's list has ids alone, until the leases are over"
    assert world.status(other) == "pending"
    assert world.count("idempotency") == 1


def test_the_audit_says_that_and_when_but_not_whom(world: World) -> None:
    put(world)
    wanted = Filter(key=WHO, error=WHO, payload=(("to", WHO),), idempotency_key=WHO)
    act(world.conn, "erase", Filter(key=WHO), ME, schema=world.schema, reason="request 17")
    act(world.conn, "erase", wanted, ME, schema=world.schema)
    second, first = world.run(operators.audit())
    assert (first.verb, first.actor, first.rows, first.reason) == ("erase", "me", 1, "request 17")
    assert first.target.endswith(" key:…")
    assert "payload.to:…" in second.target
    assert mentions(world, "ann@example.com") == []


def test_a_row_that_is_held_is_left_and_counted(world: World) -> None:
    id = put(world)
    world.claim_one()
    done = act(world.conn, "erase", Filter(key=WHO), ME, schema=world.schema)
    assert (done.matched, done.changed) == (0, 0)
    assert operate.left_out(world.conn, "erase", Filter(key=WHO), world.schema) == 1
    assert operate.left_out(world.conn, "erase", Filter(key="bob"), world.schema) == 0
    assert world.run(operators.erase([id])) == []
    assert world.status(id) == "processing"


def test_a_row_that_another_session_has_locked_is_skipped(world: World) -> None:
    ids = [ordered(world), put(world)]
    other = world.connect()
    with other.transaction():
        other.execute("SELECT id FROM live FOR UPDATE")
        assert world.run(operators.erase(ids)) == []
    erased = world.run(operators.erase(ids))
    assert sorted(erased) == sorted(ids)


@pytest.mark.parametrize("made", [dead, completed])
def test_an_ended_row_that_is_locked_is_skipped(world: World, made: Callable[[World], UUID]) -> None:
    id, other = made(world), world.connect()
    with other.transaction():
        other.execute(f"SELECT id FROM {'dead' if made is dead else 'archive'} FOR UPDATE".encode())
        assert world.run(operators.erase([id])) == []
    assert world.run(operators.erase([id])) == [id]


def test_an_ordered_key_goes_on_after_its_first_row_was_erased(world: World) -> None:
    first, second = put(world, ordered=True, hold=True), put(world, ordered=True)
    (claimed,) = world.claim_ordered()
    world.dead_letter(claimed.lease)
    assert world.claim_ordered() == []
    assert world.run(operators.erase([first])) == [first]
    assert [row.id for row in world.claim_ordered()] == [second]


def test_only_what_was_named_goes(world: World) -> None:
    kept, gone = completed(world), world.enqueue("bill", {}, idempotency_key="other")
    failed = world.enqueue("ship", {}, queue="ships")
    world.fail(world.claim_one(lanes=[Lane("ships")]).lease)
    before = [world.count(table) for table in ("attempts", "effects")]
    world.run(operators.erase([gone]))
    assert [world.count(table) for table in ("attempts", "effects")] == before == [2, 1]
    assert world.status(failed) == "failed"
    assert world.sql("SELECT row_id FROM idempotency") == [(kept,)]


def test_an_idempotency_key_of_another_row_stays(world: World) -> None:
    id = world.enqueue("bill", {}, idempotency_key="a")
    world.sql("UPDATE idempotency SET row_id = new_id()")  # it was forgotten, and sent anew
    world.run(operators.erase([id]))
    assert world.count("idempotency") == 1


def refused(world: World, id: UUID) -> None:
    world.sql(
        "INSERT INTO refusals (at, worker, row_id, kind, stale_token, reason, verb)"
        " VALUES (clock_timestamp(), 'A', %s, 'bill', 1, 'x', 'complete')",
        id,
    )


def test_what_retention_left_of_a_row_is_erased_by_its_id_and_its_key(world: World) -> None:
    id = completed(world)
    world.sql("UPDATE idempotency SET key = 'a'")
    third, fourth = completed(world), completed_under(world, "b")
    for each in (id, third, fourth):
        refused(world, each)
    world.sql("DELETE FROM archive WHERE id <> %s", fourth)
    assert world.run(operators.erase_rest([id, fourth], "a")) == 4
    assert world.run(operators.erase_rest([id, fourth], "b")) == 0, "of a row that is there nothing goes"
    assert set(mentions(world, str(id))) <= {"claims"}
    left = [world.count(table) for table in ("attempts", "refusals", "effects", "idempotency")]
    assert left == [2, 2, 2, 2], "nor of one that was not named"


def test_a_refused_write_of_another_row_stays(world: World) -> None:
    gone, kept = put(world), put(world)
    for each in (gone, kept):
        refused(world, each)
    world.run(operators.erase([gone]))
    assert world.sql("SELECT row_id FROM refusals") == [(kept,)]


def test_a_late_duplicate_of_an_erased_row_is_a_new_row(world: World) -> None:
    id = put(world, idempotency_key="a")
    world.run(operators.erase([id]))
    assert world.enqueued("bill", {"to": WHO}, key=WHO, idempotency_key="a").outcome == "enqueued"


# -- what is not kept


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_the_archive_has_the_payload_only_if_the_handler_keeps_it(world: World, keep: bool, fenced: bool) -> None:
    inbox, seen = Inbox(), []

    @inbox.handler("bill", keep_payload=keep)
    def bill(job: Job, to: str) -> None:
        seen.append(to)
        if fenced:
            with job.fenced():
                pass

    id = put(world)
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    assert seen == [WHO]
    kept = f'{{"to": "{WHO}"}}' if keep else '{"$not_kept": "keep_payload=False"}'
    assert world.row(id).payload == kept


@pytest.mark.one_server
def test_a_handler_in_a_process_keeps_its_payload_or_not_as_it_says(world: World) -> None:
    vault.inbox.use_schema(world.schema)
    sent = vault.fenced_and_not_kept.enqueue(world.conn, secret=WHO)
    with working(world, vault.inbox) as hired:
        hired.saw(JobCompleted)
    assert world.row(sent.id).payload == '{"$not_kept": "keep_payload=False"}'


def test_a_row_that_failed_keeps_its_payload_for_a_redrive(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("bill", keep_payload=False, max_attempts=1)
    def bill(to: str) -> None:
        raise ValueError

    id = put(world, max_attempts=1)
    with working(world, inbox) as hired:
        hired.saw(JobDeadLettered)
    assert WHO in world.row(id).payload
