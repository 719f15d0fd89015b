"""Erase leaves nothing of a row, in any table; what is not kept is not there in the first place."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import psycopg
import pytest

from apps import vault
from crew import working
from guarantees.test_new_heads import key_beside
from tenure import Inbox, Job, Lane, operate, verbs
from tenure.events import JobCompleted, JobDeadLettered
from tenure.model.filter import Filter
from tenure.model.rows import Claimed, NewRow
from tenure.operate import Actor, act
from tenure.verbs import operators, queues
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


def ordered_and_dead(world: World) -> UUID:
    id = put(world, ordered=True, hold=True)
    (claimed,) = world.claim_ordered()
    world.dead_letter(claimed.lease)
    return id


def ordered_and_seen(world: World) -> UUID:
    id = put(world, ordered=True, delay_seconds=3600.0)
    assert world.claim_ordered() == []
    return id


def limited(world: World) -> UUID:
    world.run(queues.limit("default", max_per_key=1))
    return put(world)


def limited_and_seen(world: World) -> UUID:
    world.run(queues.limit("default", max_per_key=1))
    id = put(world, delay_seconds=3600.0)
    assert claim_limited(world) == []
    return id


def limited_once(world: World) -> UUID:
    id = limited_and_seen(world)
    world.run(queues.limit("default", clear=True))
    return id


def limited_and_completed(world: World) -> UUID:
    world.run(queues.limit("default", max_per_key=1))
    id = put(world)
    (claimed,) = claim_limited(world)
    world.complete(claimed.lease)
    return id


def claim_limited(world: World, queue: str = "default") -> list[Claimed]:
    return world.run(queues.claim_limited("A", 10, queue=queue))


def shaped(world: World) -> UUID:
    """A row of which every shape has kept something."""
    id = dead(world)
    leave(world, id)
    return id


LEFT = {
    "steps": "run, path, n, name, state, fence_token, recorded_at, result) VALUES (%s, 1, '', 0, 's', 'done', 1, "
    "clock_timestamp(), to_jsonb(%s::text))",
    "signals": "name, payload) VALUES (%s, 'paid', to_jsonb(%s::text))",
    "signals_once": "once) VALUES (%s, %s)",
    "said": "chunk) VALUES (%s, %s)",
    "shown": "key, value) VALUES (%s, 'to', to_jsonb(%s::text))",
    "results": "queue, value) VALUES (%s, 'default', to_jsonb(%s::text))",
    "progress": "at, note) VALUES (%s, clock_timestamp(), %s)",
    "deliveries": "note, fence_token, attempt, endpoint_id, webhook_id, ms) VALUES (%s, %s, 1, 1, new_id(), "
    "new_id(), 9)",
}


def leave(world: World, id: UUID) -> None:
    for table, rest in LEFT.items():
        world.sql(f"INSERT INTO {table} (row_id, {rest}", id, WHO)


KEYED = [ordered_and_dead, ordered_and_seen, limited, limited_and_seen, limited_once, limited_and_completed]
EVERY = pytest.mark.parametrize("made", [completed, dead, ordered, put, shaped, *KEYED])


@EVERY
def test_erase_leaves_nothing_in_any_table(world: World, made: Callable[[World], UUID]) -> None:
    id = made(world)
    other = world.enqueue("bill", {"to": "bob"}, key="bob", idempotency_key="bill bob")
    assert mentions(world, "ann@example.com")
    done = act(world.conn, "erase", Filter(key=WHO), ME, schema=world.schema)
    assert (done.matched, done.changed) == (1, 1)
    assert mentions(world, "ann@example.com") == []
    assert set(mentions(world, str(id))) <= {"claims"}, "the sweep's list has ids alone, until the leases are over"
    assert world.status(other) == "pending"
    assert world.count("idempotency") == 1


MEMORY = ("arrivals", "heads", "key_lanes", "lane_arrivals")


def remembered(world: World, key: str, queue: str) -> list[str]:
    """The tables in which a key stands for the next claim."""
    named = "SELECT 1 FROM {} WHERE queue = %s AND partition_key = %s"
    return [table for table in MEMORY if world.sql(named.format(table), queue, key)]


def remember(world: World, *places: tuple[str, str]) -> None:
    """Rows of keys that a claim has seen, and more that none has."""
    for _ in range(2):
        for _, queue in places:
            claim_limited(world, queue)
        for key, queue in places:
            for in_order in (False, True):
                world.enqueue("bill", key=key, queue=queue, ordered=in_order, delay_seconds=3600.0)


def test_what_is_remembered_of_other_keys_and_in_other_queues_stays(world: World) -> None:
    others = [(key_beside(world, WHO), "default"), (WHO, "other")]
    for queue in ("default", "other"):
        world.run(queues.limit(queue, max_per_key=1))
    remember(world, (WHO, "default"), *others)
    assert [remembered(world, *each) for each in [*others, (WHO, "default")]] == [[*MEMORY]] * 3
    ids = [id for (id,) in world.sql("SELECT id FROM live WHERE partition_key = %s AND queue = 'default'", WHO)]
    assert len(world.run(operators.erase(ids))) == len(ids) == 4
    assert remembered(world, WHO, "default") == []
    assert [remembered(world, *each) for each in others] == [[*MEMORY]] * 2
    alone = world.enqueue("bill", key=WHO, queue="third", ordered=True)
    world.run(operators.erase([alone]))
    assert remembered(world, WHO, "third") == []


@pytest.mark.parametrize("made", KEYED)
def test_a_key_that_a_claim_has_locked_is_forgotten_by_the_next_claim(
    world: World, made: Callable[[World], UUID]
) -> None:
    world.run(queues.limit("other", max_per_key=1))
    remember(world, (WHO, "other"))
    id, other = made(world), world.connect()
    world.sql("SET lock_timeout = '5s'")
    with other.transaction():
        for table in ("queues", "heads", "arrivals"):
            other.execute(f"SELECT FROM {table} WHERE queue = 'default' FOR UPDATE".encode())
        assert world.run(operators.erase([id])) == [id]
        assert bool(remembered(world, WHO, "default")) == (made is not limited_once)
    world.claim_ordered()
    claim_limited(world)
    assert remembered(world, WHO, "default") == []


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("in_order", [False, True])
def test_a_key_with_a_row_is_never_forgotten(world: World, in_order: bool, limit: int | None) -> None:
    if limit:
        world.run(queues.limit("default", max_per_key=limit))
    first, kept = put(world, ordered=in_order, delay_seconds=3600.0), put(world, ordered=in_order)
    claim = claim_limited if limit else World.claim_ordered if in_order else World.claim
    with world.connect() as producer, producer.transaction():
        late = world.run(verbs.enqueue(NewRow("bill", {}, key=WHO, ordered=in_order)), producer).id
        assert world.run(operators.erase([first])) == [first]
        assert [row.id for row in claim(world)][:1] == [kept]
        world.sql("DELETE FROM live WHERE id = %s", kept)
        world.sql("DELETE FROM permits")
        second = put(world, ordered=in_order, delay_seconds=3600.0)
        claim(world)
        assert world.run(operators.erase([second])) == [second]
    assert [row.id for row in claim(world)] == [late]


def test_a_key_is_not_forgotten_in_a_transaction_that_may_not_see_its_rows(world: World) -> None:
    gone = [ordered_and_seen(world), world.enqueue("bill", key="bob")]
    conn = world.connect()
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with conn.transaction():
        conn.execute("SELECT 1 FROM live")
        kept = put(world, ordered=True)
        assert world.claim_ordered() == [], "the first row is not due"
        assert world.run(operators.erase(gone), conn) == gone
    assert [row.id for row in world.claim_ordered()] == [kept]


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


def test_what_shapes_have_left_of_a_row_goes_with_it_and_of_others_nothing(world: World) -> None:
    id, gone, other = world.enqueue("bill", {}), UUID(int=5), UUID(int=6)
    for each in (id, gone, other):
        leave(world, each)
    assert world.run(operators.erase_rest([id, gone])) == len(LEFT), "of a row that is there nothing goes"
    assert [world.count(table) for table in LEFT] == [2] * len(LEFT)
    assert world.run(operators.erase([id])) == [id]
    assert [world.count(table) for table in LEFT] == [1] * len(LEFT), "nor of one that was not named"
