"""Workers declare how their handlers send rows; who enqueues by SQL goes by that, and what is given goes before it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest

from crew import working
from guarantees.facts import together
from tenure import Inbox, postgres
from tenure.errors import InvalidPayload
from tenure.model.declaration import Declaration, fill, keyed_by
from tenure.postgres import migrate
from tenure.verbs import fleet, kinds
from world import World

MAIL = Declaration("receipt", "mail", "by_template", "order:{order_id}", True, True, 7, 3)


def _sent(world: World, call: str, *params: object) -> tuple[Any, ...]:
    """How the row of this call of `enqueue` stands in the inbox."""
    ((id, _),) = world.sql(f"SELECT * FROM enqueue({call})", *params)
    assert isinstance(id, UUID)
    (row,) = world.sql("SELECT queue, partition_key, ordered, hold, priority, max_attempts FROM live WHERE id = %s", id)
    return row


@pytest.mark.one_server
def test_a_worker_declares_the_kinds_of_its_inbox(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("receipt", queue="mail", key="order:{order_id}", ordered=True, hold=True, priority=7, max_attempts=3)
    def receipt(order_id: int) -> None: ...

    @inbox.handler("report", key=lambda day: day[:7])
    def report(day: str) -> None: ...

    with working(world, inbox, queues={"other": 1.0}):
        assert world.run(kinds.declared("receipt")) == [MAIL]
        assert world.run(kinds.declared("report")) == [Declaration("report", keyed="in_code")]
    assert world.run(kinds.declared("receipt")) == [MAIL], "it is known when the worker has left"


def test_a_row_sent_by_sql_goes_where_the_handler_looks(world: World) -> None:
    world.run(kinds.declare("A", [MAIL]))
    assert _sent(world, "'receipt', '{\"order_id\": 9182}'") == ("mail", "order:9182", True, True, 7, 3)
    assert _sent(world, "'unheard', '{}'") == ("default", None, False, False, 0, 10)


def test_what_is_given_goes_before_what_was_declared(world: World) -> None:
    world.run(kinds.declare("A", [MAIL]))
    given = "partition_key => 'k', queue => 'q', priority => 1, max_attempts => 2"
    assert _sent(world, f"'receipt', '{{}}', {given}") == ("q", "k", True, True, 1, 2)
    assert _sent(world, f"'receipt', '{{}}', {given}, hold => false") == ("q", "k", True, False, 1, 2)
    assert _sent(world, f"'receipt', '{{}}', {given}, ordered => false") == ("q", "k", False, False, 1, 2)


@pytest.mark.parametrize("payload", ["{}", '{"order_id": null}', '{"order_id": 1.5}', '{"order_id": [1]}', "[1]"])
def test_an_ordered_row_whose_key_cannot_be_known_is_refused(world: World, payload: str) -> None:
    world.run(kinds.declare("A", [MAIL]))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"order:\{order_id\}.*give partition_key"):
        world.sql("SELECT enqueue('receipt', %s::jsonb)", payload)
    assert _sent(world, "'receipt', %s::jsonb, ordered => false", payload)[1] is None


def test_a_row_whose_key_only_code_can_make_goes_without_one_and_says_so(world: World) -> None:
    world.run(kinds.declare("A", [Declaration("report", "slow", "in_code")]))
    heard: list[str] = []
    world.conn.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    assert _sent(world, "'report', '{}'") == ("slow", None, False, False, 0, 10)
    assert heard == ["the key of report cannot be made here, the row goes without one: give partition_key"]
    assert _sent(world, "'report', '{}', partition_key => '2026-01'")[1] == "2026-01"
    assert len(heard) == 1


@pytest.mark.parametrize(
    ("template", "payload", "key"),
    [
        ("orders", "{}", "orders"),
        ("{a}:{b}", '{"a": "x", "b": -7}', "x:-7"),
        ("über:{a}", '{"a": "ß {b} %s"}', "über:ß {b} %s"),
        ("{a}", '{"a": 12345678901234567890123}', "12345678901234567890123"),
        ("{a}", '{"a": true}', None),
        ("{a}{b}", '{"a": 1}', None),
    ],
)
def test_python_and_sql_make_the_same_key(world: World, template: str, payload: str, key: str | None) -> None:
    assert world.sql("SELECT key_by(%s, %s::jsonb)", template, payload) == [(key,)]
    ways = [Declaration("k", "q", "by_template", template)]
    assert fill({}, payload.encode(), ways, "k").options["key"] == key


@pytest.mark.parametrize(
    ("key", "keyed"),
    [
        (None, ("never", None)),
        ("order:{id}", ("by_template", "order:{id}")),
        ("{id:>5}", ("in_code", None)),
        ("{id!r}", ("in_code", None)),
        ("{id.x}", ("in_code", None)),
        ("{{id}}", ("in_code", None)),
        (str, ("in_code", None)),
    ],
)
def test_a_template_that_only_python_can_fill_in_is_code(key: Any, keyed: tuple[str, str | None]) -> None:
    assert keyed_by(key) == keyed


# -- two versions at once, workers gone, a kind in two applications


def _declares(world: World, worker: str, queue: str, started: str) -> None:
    world.run(fleet.register(worker))
    world.sql("UPDATE workers SET started_at = %s WHERE id = %s", started, worker)
    world.run(kinds.declare(worker, [Declaration("k", queue)]))


def test_of_two_ways_the_one_counts_whose_worker_started_last(world: World) -> None:
    _declares(world, "new", "v2", "2026-01-02Z")
    _declares(world, "old", "v1", "2026-01-01Z")
    assert [way.queue for way in world.run(kinds.declared("k"))] == ["v2", "v1"]
    assert _sent(world, "'k', '{}'")[0] == "v2"
    world.run(kinds.declare("new", [Declaration("k", "v2")]))
    world.run(kinds.declare("old", [Declaration("k", "v1")]))
    assert _sent(world, "'k', '{}'")[0] == "v2", "to say it again changes nothing"
    _declares(world, "back", "v1", "2026-01-03Z")
    assert _sent(world, "'k', '{}'")[0] == "v1", "the new version was taken back"
    assert world.count("kinds") == 2


def test_a_way_counts_first_whose_queue_a_living_worker_serves(world: World) -> None:
    """A worker that ran for a moment, of another application, must not take the rows of a kind to its own queue."""
    _declares(world, "serving", "mail", "2026-01-01Z")
    world.run(fleet.heartbeat("serving", {"kinds": ["k"], "queues": ["mail"]}))
    _declares(world, "moment", "elsewhere", "2026-01-02Z")
    world.run(fleet.heartbeat("moment", {"kinds": ["k"], "queues": ["elsewhere"]}))
    assert _sent(world, "'k', '{}'")[0] == "elsewhere"
    for status, metadata in [
        ("dead", {"kinds": ["k"], "queues": ["elsewhere"]}),
        ("alive", {"kinds": ["other"], "queues": ["elsewhere"]}),
        ("alive", {"kinds": ["k"], "queues": ["other"]}),
    ]:
        world.sql("UPDATE workers SET status = %s, metadata = %s WHERE id = 'moment'", status, json.dumps(metadata))
        assert _sent(world, "'k', '{}'")[0] == "mail"
        assert [way.queue for way in world.run(kinds.declared("k"))] == ["mail", "elsewhere"]


def test_a_kind_that_nobody_has_declared_is_told_where_no_queue_is_given(world: World) -> None:
    heard: list[str] = []
    world.conn.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    _sent(world, "'typo', '{}', queue => 'mail'")
    assert heard == []
    _sent(world, "'typo', '{}'")
    assert heard == ["no worker has declared kind typo yet: the row goes to queue default"]


def test_a_way_that_nobody_declares_for_a_month_is_forgotten(world: World) -> None:
    for kind in ("old", "kept", "young", "changed"):
        world.run(kinds.declare("A", [Declaration(kind)]))
    world.run(kinds.declare("A", [Declaration("changed", "between")]))
    world.sql("UPDATE kinds SET seen_at = seen_at - interval '31 days' WHERE queue = 'default' AND kind <> 'young'")
    world.run(kinds.declare("B", [Declaration("kept"), Declaration("kept", "q"), Declaration("changed", "q")]))
    assert world.sql("SELECT kind, queue FROM kinds ORDER BY 1, 2") == [
        ("changed", "between"), ("changed", "q"), ("kept", "default"), ("kept", "q"), ("young", "default"),
    ]  # fmt: skip


def test_what_is_to_be_forgotten_is_not_waited_for(world: World) -> None:
    world.run(kinds.declare("A", [Declaration("old")]))
    world.sql("UPDATE kinds SET seen_at = seen_at - interval '31 days'")
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM kinds FOR UPDATE")
        world.sql("SET statement_timeout = '10s'")
        assert world.run(kinds.declare("B", [Declaration("new")])) == 1
    assert world.count("kinds") == 2


def test_workers_that_declare_at_once_do_not_wait_for_each_other_for_ever(world: World) -> None:
    all_of_them = [Declaration(f"k{n}") for n in range(50)]
    connections = [world.connect() for _ in range(4)]

    def declare(n: int) -> int:
        ours = all_of_them if n % 2 else all_of_them[::-1]
        return sum(world.run(kinds.declare(f"w{n}", ours), connections[n]) for _ in range(10))

    assert together(4, declare) == [500] * 4
    assert world.count("kinds") == 50


def test_who_could_enqueue_before_the_migration_still_can_and_sees_nothing_else(world: World) -> None:
    """Roles are granted anew only after a migration, by hand: meanwhile producers go on."""
    schema, role = f"{world.schema}_before", f"p_{world.schema}"
    migrate.apply(world.conn, schema, to=16)
    world.sql(f'CREATE ROLE "{role}" NOLOGIN')
    world.sql(f'GRANT USAGE ON SCHEMA "{schema}" TO "{role}"')
    world.sql(f'GRANT EXECUTE ON FUNCTION "{schema}".enqueue, "{schema}".enqueue_many TO "{role}"')
    world.sql(f'ALTER FUNCTION "{schema}".enqueue_many SECURITY DEFINER')
    sending = f"""SELECT outcome FROM "{schema}".enqueue('receipt', '{{"order_id": 1}}')"""
    try:
        migrate.apply(world.conn, schema)
        postgres.run(world.conn, kinds.declare("A", [MAIL]), schema)
        world.sql(f'SET ROLE "{role}"')
        assert world.sql(sending) == [("enqueued",)]
        assert postgres.run(world.conn, kinds.declared("receipt"), schema) == [MAIL]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            world.sql(f'SELECT * FROM "{schema}".kinds')
    finally:
        world.sql("RESET ROLE")
        world.sql(f'DROP SCHEMA "{schema}" CASCADE')
        world.sql(f'DROP ROLE "{role}"')


def test_what_is_encrypted_is_not_taken_in_clear(world: World) -> None:
    """Only the handler's own process has the key: psql, HTTP and the command line would leave a secret in the table."""
    world.run(kinds.declare("A", [Declaration("pay", encrypted=True), Declaration("tidy")]))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"rows of pay are encrypted.*from Python"):
        world.sql("SELECT enqueue('pay', '{\"card\": \"4111\"}')")
    ways = world.run(kinds.declared("pay"))
    for clear in ("null", "5", '"x"', "{}", '{"key": "k1", "print": "p", "data": 5}', '{"data": "AAAA"}'):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"rows of pay are encrypted"):
            world.sql("SELECT enqueue('pay', %s)", f'{{"$encrypted": {clear}, "card": "4111"}}')
    with pytest.raises(InvalidPayload, match=r"rows of .pay. are encrypted.*from Python"):
        fill({}, b'{"card": "4111"}', ways, "pay")
    sealed = '{"$encrypted": {"key": "k1", "print": "p", "data": "AAAA"}}'
    assert _sent(world, "'pay', %s::jsonb", sealed)[0] == "default"
    assert fill({}, sealed.encode(), ways, "pay").options["queue"] == "default"
    assert _sent(world, "'tidy', '{}'")[0] == "default"
