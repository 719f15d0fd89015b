"""Guarantee 1: the same idempotency key, however often and however concurrently, is one logical row."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.errors import IdempotencyConflict
from tenure.model.rows import NewRow
from world import World

KEY = "receipt-9182"
OTHER_CONTENT = [
    pytest.param("send_receipt", {"order_id": 1}, id="payload"),
    pytest.param("send_reminder", {"order_id": 9182}, id="kind"),
]


def new(payload: Any = None, kind: str = "send_receipt", key: str | None = KEY, **options: Any) -> NewRow:
    return NewRow(kind, {"order_id": 9182} if payload is None else payload, idempotency_key=key, **options)


def test_the_same_key_twice_is_one_row(world: World) -> None:
    first, second = world.run(verbs.enqueue(new())), world.run(verbs.enqueue(new()))
    assert (first.outcome, second.outcome) == ("enqueued", "duplicate")
    assert first.id == second.id
    assert world.count("live") == 1
    assert world.row(first.id).idempotency_key == KEY


def test_each_key_answers_for_its_own_row(world: World) -> None:
    sent = [new({"order_id": n}, key=f"{KEY}-{n}") for n in range(3)]
    first = [world.run(verbs.enqueue(row)).id for row in sent]
    assert [world.run(verbs.enqueue(row)) for row in sent] == [(id, "duplicate") for id in first]
    for n, id in enumerate(first):
        with pytest.raises(IdempotencyConflict) as refused:
            world.run(verbs.enqueue(new({"order_id": "another"}, key=f"{KEY}-{n}")))
        assert refused.value.row_id == id


def test_ten_connections_at_once_make_one_row(world: World) -> None:
    connections = [world.connect() for _ in range(10)]
    for number in range(10):
        sent = new(key=f"{KEY}-{number}")
        answers = together(10, lambda n, sent=sent: world.run(verbs.enqueue(sent), connections[n]))  # type: ignore[misc]
        assert len({answer.id for answer in answers}) == 1
        assert sorted(answer.outcome for answer in answers) == ["duplicate"] * 9 + ["enqueued"]
        assert world.count("live") == number + 1


def test_a_duplicate_does_not_abort_the_callers_transaction(world: World) -> None:
    first = world.run(verbs.enqueue(new()))
    world.sql("CREATE TABLE orders (id int)")
    conn = user_connection(world)
    conn.execute("INSERT INTO orders VALUES (1)")
    assert world.run(verbs.enqueue(new()), conn) == (first.id, "duplicate")
    conn.execute("INSERT INTO orders VALUES (2)")
    conn.commit()
    assert (world.count("orders"), world.count("live")) == (2, 1)


def test_a_second_sender_waits_for_the_first_and_gets_its_row(world: World) -> None:
    first, second = user_connection(world), world.connect()
    sent = world.run(verbs.enqueue(new()), first)
    waiting = Beside(lambda: world.run(verbs.enqueue(new()), second))
    waits_for_a_lock(world, second)
    assert world.count("live") == 0
    first.commit()
    assert waiting.result() == (sent.id, "duplicate")
    assert world.count("live") == 1


def test_when_the_first_sender_rolls_back_the_second_makes_the_row(world: World) -> None:
    first, second = user_connection(world), world.connect()
    sent = world.run(verbs.enqueue(new()), first)
    waiting = Beside(lambda: world.run(verbs.enqueue(new()), second))
    waits_for_a_lock(world, second)
    first.rollback()
    answer = waiting.result()
    assert answer.outcome == "enqueued"
    assert answer.id != sent.id
    assert [id for (id,) in world.sql("SELECT id FROM live")] == [answer.id]


@pytest.mark.parametrize(("kind", "payload"), OTHER_CONTENT)
def test_other_content_under_a_known_key_is_a_conflict_and_writes_nothing(
    world: World, kind: str, payload: dict[str, int]
) -> None:
    first = world.run(verbs.enqueue(new()))
    world.sql("CREATE TABLE orders (id int)")
    conn = user_connection(world)
    conn.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(IdempotencyConflict, match=KEY) as conflict:
        world.run(verbs.enqueue(new(payload, kind)), conn)
    assert (conflict.value.key, conflict.value.row_id) == (KEY, first.id)
    assert str(first.id) in str(conflict.value)
    conn.execute("INSERT INTO orders VALUES (2)")  # the transaction lives on: catching the conflict is enough
    conn.commit()
    assert world.count("orders") == 2
    assert [(row.kind, row.payload) for row in [world.row(first.id)]] == [("send_receipt", '{"order_id": 9182}')]
    assert (world.count("live"), world.count("idempotency")) == (1, 1)


@pytest.mark.parametrize(("kind", "payload"), OTHER_CONTENT)
def test_a_conflict_is_seen_with_a_row_that_was_committed_while_we_waited(
    world: World, kind: str, payload: dict[str, int]
) -> None:
    first, second = user_connection(world), world.connect()
    world.run(verbs.enqueue(new()), first)
    waiting = Beside(lambda: world.run(verbs.enqueue(new(payload, kind)), second))
    waits_for_a_lock(world, second)
    first.commit()
    with pytest.raises(IdempotencyConflict):
        waiting.result()
    assert world.count("live") == 1


def test_the_order_of_json_keys_does_not_matter(world: World) -> None:
    first = world.run(verbs.enqueue(new({"a": 1, "b": {"c": [1, 2], "d": "ü"}})))
    second = world.run(verbs.enqueue(new({"b": {"d": "ü", "c": [1, 2]}, "a": 1})))
    assert second == (first.id, "duplicate")


def test_the_order_of_json_arrays_does_matter(world: World) -> None:
    world.run(verbs.enqueue(new([1, 2])))
    with pytest.raises(IdempotencyConflict):
        world.run(verbs.enqueue(new([2, 1])))


@pytest.mark.parametrize("end", ["complete", "fail", "dead_letter", "cancel"])
def test_a_key_outlives_the_end_of_its_row(world: World, end: str) -> None:
    first = world.run(verbs.enqueue(new()))
    if end == "cancel":
        world.run(verbs.cancel([first.id]))
    else:
        assert getattr(world, end)(world.claim_one().lease).ok
    assert world.run(verbs.enqueue(new())) == (first.id, "duplicate")
    assert world.claim() == []


def test_a_key_outlives_even_the_archived_row(world: World) -> None:
    first = world.run(verbs.enqueue(new()))
    world.complete(world.claim_one().lease)
    world.sql("DELETE FROM archive")
    assert world.run(verbs.enqueue(new())) == (first.id, "duplicate")
    with pytest.raises(IdempotencyConflict):
        world.run(verbs.enqueue(new({"order_id": 1})))
    assert world.count("live") == 0


def test_each_row_of_a_bulk_call_answers_for_itself_and_in_order(world: World) -> None:
    known = world.run(verbs.enqueue(new(key="known")))
    answers = world.run(
        verbs.enqueue_many(
            [
                new(key="z"),
                new(key=None),
                new(key="known"),
                new(key="z"),
                new({"order_id": 1}, key="z"),
                new({"order_id": 1}, key="known"),
                new(key="a"),
                new(key=None),
            ]
        )
    )
    assert [answer.outcome for answer in answers] == [
        "enqueued", "enqueued", "duplicate", "duplicate", "conflict", "conflict", "enqueued", "enqueued",
    ]  # fmt: skip
    assert answers[2].id == answers[5].id == known.id
    assert answers[0].id == answers[3].id == answers[4].id
    written = {answers[n].id for n in (0, 1, 6, 7)} | {known.id}
    assert {id for (id,) in world.sql("SELECT id FROM live")} == written
    # What is written keeps the order in which it was sent.
    assert [id for (id,) in world.sql("SELECT id FROM live WHERE id <> %s ORDER BY seq", known.id)] == [
        answers[n].id for n in (0, 1, 6, 7)
    ]


def test_rows_without_keys_are_all_new(world: World) -> None:
    answers = world.run(verbs.enqueue_many([new(key=None)] * 3))
    assert [answer.outcome for answer in answers] == ["enqueued"] * 3
    assert world.count("live") == 3
    assert world.run(verbs.enqueue_many([])) == []


def test_bulk_calls_with_common_keys_in_opposite_order_wait_instead_of_deadlocking(world: World) -> None:
    keys = ["a", "m", "z"]
    holder, one, two = user_connection(world), user_connection(world), user_connection(world)
    world.run(verbs.enqueue(new(key="m")), holder)
    upward = Beside(lambda: _send_and_commit(world, one, keys))
    waits_for_a_lock(world, one)
    downward = Beside(lambda: _send_and_commit(world, two, keys[::-1]))
    waits_for_a_lock(world, two)
    holder.rollback()
    assert upward.result() == ["enqueued"] * 3
    assert downward.result() == ["duplicate"] * 3
    assert world.count("live") == 3


def test_many_bulk_calls_in_opposite_order_never_deadlock(world: World) -> None:
    connections = [user_connection(world) for _ in range(4)]
    for number in range(10):
        keys = [f"{number}-{n}" for n in range(100)]
        answers = together(
            4,
            lambda n, keys=keys: _send_and_commit(world, connections[n], keys[:: -1 if n % 2 else 1]),  # type: ignore[misc]
        )
        assert sum(answer.count("enqueued") for answer in answers) == 100
    assert world.count("live") == 1000


def _send_and_commit(world: World, conn: psycopg.Connection[Any], keys: list[str]) -> list[str]:
    answers = world.run(verbs.enqueue_many([new(key=key) for key in keys]), conn)
    conn.commit()
    return [answer.outcome for answer in answers]


def test_a_key_forgotten_by_retention_while_its_sender_waits_does_not_lose_the_row(world: World) -> None:
    world.run(verbs.enqueue(new(key="a")))
    world.complete(world.claim_one().lease)
    world.sql("UPDATE idempotency SET created_at = created_at - interval '31 days'")
    holder, sender = user_connection(world), world.connect()
    world.run(verbs.enqueue(new(key="b")), holder)
    # The sender has found "a" known and waits for "b"; retention forgets "a" meanwhile.
    waiting = Beside(lambda: world.run(verbs.enqueue_many([new(key="a"), new(key="b")]), sender))
    waits_for_a_lock(world, sender)
    forgotten = world.run(verbs.archive())["idempotency_keys_forgotten"]
    holder.commit()
    try:
        a, b = waiting.result()
    except psycopg.errors.SerializationFailure:
        return  # told to send again: nothing is lost
    assert b.outcome == "duplicate"
    assert (a.outcome == "enqueued" and world.status(a.id) == "pending") or (a.outcome == "duplicate" and not forgotten)


def test_the_sql_function_keeps_the_same_promise(world: World) -> None:
    call = "SELECT row_id, outcome FROM enqueue('send_receipt', %s::jsonb, idempotency_key => %s)"
    first = world.run(verbs.enqueue(new()))
    assert world.sql(call, '{"order_id": 9182}', KEY) == [(first.id, "duplicate")]
    assert world.sql(call, '{"order_id": 1}', KEY) == [(first.id, "conflict")]
    assert world.count("live") == 1
