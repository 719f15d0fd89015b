"""The journal: whoever reads on from the last position misses no event and sees none twice, each stream in order."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import psycopg
import pytest
from psycopg.errors import FeatureNotSupported, InvalidParameterValue, SerializationFailure

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure.app.inbox import Inbox
from tenure.doctor import shapes
from tenure.errors import BadSettings, InvalidPayload, WrongVersion
from tenure.model.journal import NewEvent, event_type
from tenure.postgres import run
from tenure.shapes.projection import Journal
from tenure.verbs.journal import (
    append,
    erase_stream,
    horizon,
    journal_facts,
    keep_journal,
    read_after,
    read_stream,
    retain_journal,
)
from tenure.verbs.projections import plan_projection, projections
from world import World


@dataclass
class OrderPaid:
    amount: int


def add(world: World, stream: str = "order:1", conn: psycopg.Connection[Any] | None = None, **options: Any) -> int:
    """One event more; its position."""
    return world.run(append(stream, [NewEvent("order.paid", {"amount": 1})], **options), conn).position


def writer(world: World) -> psycopg.Connection[Any]:
    return user_connection(world, autocommit=True)


def positions(world: World, after: int = 0) -> list[int]:
    return [event.position for event in world.run(read_after(after))]


# -- streams


def test_events_of_a_stream_have_versions_without_gaps_and_come_back_as_they_were(world: World) -> None:
    journal, conn = Journal(Inbox(schema=world.schema)), world.conn
    first = journal.append(conn, "order:9182", OrderPaid(4200), expect=0)
    last = journal.append(conn, "order:9182", [NewEvent("order.sent", headers={"by": "ann"}), OrderPaid(1)], expect=1)
    assert (first.version, last.version) == (1, 3)
    events = journal.read_stream(conn, "order:9182")
    assert [(event.version, event.type, event.data) for event in events] == [
        (1, "order.paid", {"amount": 4200}),
        (2, "order.sent", {}),
        (3, "order.paid", {"amount": 1}),
    ]
    assert events[1].headers == {"by": "ann"}
    assert events[0].as_(OrderPaid) == OrderPaid(4200)
    assert journal.read(conn, of=["order.s*"]) == [events[1]]
    assert journal.read(conn, after=first.position, limit=1) == [events[1]]


def test_a_class_names_its_type() -> None:
    own = type("Anything", (), {"event_type": "order.paid"})
    assert [event_type(each) for each in (OrderPaid, type("HTTPCallEnded2", (), {}), own)] == [
        "order.paid",
        "http.call.ended2",
        "order.paid",
    ]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("Über", "über"), ("ÖffnungGeändert", "öffnung.geändert"), ("GEZÄHLTEIn2Läufen", "gezählte.in2.läufen"),
        ("ΠαραγγελίαΠληρώθηκε", "παραγγελία.πληρώθηκε"), ("注文済み", "注文済み"), ("Order_paid2", "order.paid2"),
    ],
)  # fmt: skip
def test_a_class_of_any_alphabet_names_its_type(name: str, named: str) -> None:
    assert event_type(type(name, (), {})) == named


def test_an_event_type_that_is_not_text_is_refused_unless_it_is_a_field(world: World) -> None:
    with pytest.raises(InvalidPayload, match=r"^OrderPaid.event_type=5 must be text, such as 'order.paid'$"):
        world.run(append("order:1", [type("OrderPaid", (), {"event_type": 5})()]))
    slots = make_dataclass("OrderPaid", [("event_type", int)], slots=True)
    assert event_type(slots) == "order.paid"


@pytest.mark.parametrize("expect", [0, 2, 4])
def test_a_stream_at_another_version_takes_nothing_and_the_transaction_goes_on(world: World, expect: int) -> None:
    add(world), add(world), add(world)
    with world.conn.transaction():
        with pytest.raises(WrongVersion, match=f"at version 3, not {expect}"):
            add(world, expect=expect)
        assert add(world, expect=3)
    assert [event.version for event in world.run(read_stream("order:1"))] == [1, 2, 3, 4]


def test_a_stream_that_is_not_there_is_at_version_zero(world: World) -> None:
    with pytest.raises(WrongVersion, match="at version 0, not 7"):
        add(world, expect=7)
    assert world.count("streams") == 0


def test_of_two_who_expect_the_same_version_one_appends(world: World) -> None:
    def race(_: int) -> bool:
        try:
            return bool(add(world, conn=writer(world), expect=0))
        except WrongVersion:
            return False

    assert sorted(together(6, race)) == [False] * 5 + [True]
    assert [event.version for event in world.run(read_stream("order:1"))] == [1]


def test_who_waited_for_a_stream_is_told_the_version_that_was_committed_meanwhile(world: World) -> None:
    add(world)
    first = writer(world)
    with first.transaction():
        add(world, conn=first, expect=1)
        conn = writer(world)
        second = Beside(lambda: add(world, conn=conn, expect=1))
        waits_for_a_lock(world, conn)
    with pytest.raises(WrongVersion, match="at version 2, not 1"):
        second.result()


def test_from_psql_a_wrong_version_is_an_error(world: World) -> None:
    assert (
        world.sql("""SELECT version, "position" FROM append('order:1', 'order.paid', '{}', expect => 0)""")[0][0] == 1
    )
    with pytest.raises(SerializationFailure, match="is at version 1, not 0: read it again"):
        world.sql("SELECT append('order:1', 'order.paid', '{}', expect => 0)")
    for bad, said in (
        ("'', 'a', '{}'", "stream"),
        ("'s', '', '{}'", "type"),
        ("NULL, 'a', '{}'", "stream"),
        ("'s', NULL, '{}'", "type"),
        ("'s', 'a', NULL", "payload"),
        ("'s', 'a', '{}', -1", "expect"),
        ("'s', 'a', '{}', NULL, '[]'", "headers"),
        (f"'{'s' * 513}', 'a', '{{}}'", "stream"),
        (f"'s', '{'a' * 129}', '{{}}'", "type"),
    ):
        with pytest.raises(InvalidParameterValue, match=said):
            world.sql(f"SELECT append({bad})")
    assert world.count("journal") == 1


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"amount": 1}, "has no type"),
        ("paid", "has no type"),
        (NewEvent("", {}), "type"),
        (NewEvent("a", {"x": "\0"}), "NUL"),
    ],
)
def test_what_is_no_event_is_refused_in_a_sentence(world: World, event: Any, said: str) -> None:
    with pytest.raises(InvalidPayload, match=said):
        world.run(append("order:1", [event]))
    with pytest.raises(InvalidPayload, match=r"^the data of event 'order.paid' has \d+ bytes"):
        append("order:1", [NewEvent("order.paid", "x" * 2_000_000)])
    with pytest.raises(InvalidPayload, match="at least one"):
        world.run(append("order:1", []))
    for expect, shown in ((-1, "-1"), (1 << 62, str(1 << 62)), (10**5000, "a huge number"), (True, "True")):
        with pytest.raises(InvalidPayload, match=f"expect={shown} must be the last version"):
            world.run(append("order:1", [OrderPaid(1)], expect=expect))


@pytest.mark.parametrize("of", [["*.paid"], ["or*der"], ["**"], ["order.*", "*.paid"]])
def test_a_pattern_that_would_match_nothing_is_refused(of: list[str]) -> None:
    for asked in (lambda: read_after(of=of), lambda: Journal(Inbox()).projection("p", of=of)(lambda _tx, _event: None)):
        with pytest.raises(BadSettings, match=r": a star stands at the end, as in order\.\*$"):
            asked()


@pytest.mark.parametrize(
    "columns", ["'', 'a', '{}'", "'s', '', '{}'", "'s', 'a', jsonb_build_object('x', repeat('é', 600000))"]
)
def test_an_insert_by_hand_has_the_same_limits(world: World, columns: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        world.sql(f"INSERT INTO journal (version, stream, type, data) SELECT 1, {columns}")


# -- positions


def test_an_event_that_is_committed_late_is_not_passed_by(world: World) -> None:
    late = writer(world)
    with late.transaction():
        first = add(world, "order:1", late)
        second = add(world, "order:2")
        assert positions(world) == []
        assert world.run(horizon()).last == second
    assert positions(world) == [first, second]


def test_control_by_the_sequence_alone_the_late_one_is_missed(world: World) -> None:
    late, seen = writer(world), list[int]()
    naive = "SELECT position FROM journal WHERE position > %s ORDER BY position"
    with late.transaction():
        add(world, "order:1", late)
        second = add(world, "order:2")
        seen += [row[0] for row in world.sql(naive, 0)]
    seen += [row[0] for row in world.sql(naive, seen[-1])]
    assert seen == [second]


def test_an_open_transaction_that_appends_nothing_holds_nobody_back(world: World) -> None:
    other = writer(world)
    with other.transaction():
        other.execute("CREATE TABLE unrelated (n int)")
        other.execute("SELECT pg_advisory_xact_lock_shared(0), pg_advisory_xact_lock(7, 7), pg_advisory_xact_lock(1)")
        mine = add(world)
        assert positions(world) == [mine]
        other.execute("DROP TABLE unrelated")


def test_the_marks_of_another_journal_hold_nobody_back(world: World) -> None:
    """The tag is 14 bits of a hash: two schemas in 16,384 share it, and then wait for each other."""
    other = writer(world)
    with other.transaction():
        tag = world.sql("SELECT mark_tag()")[0][0]
        other.execute("SELECT pg_advisory_xact_lock_shared(%s::bigint << 48)", [tag % 16384 + 1])
        mine = add(world)
        assert positions(world) == [mine]


def test_a_number_that_was_rolled_back_keeps_nobody_waiting(world: World) -> None:
    with world.conn.transaction(force_rollback=True):
        lost = add(world)
    kept = add(world)
    assert positions(world) == [kept]
    assert kept > lost


def test_a_savepoint_that_is_rolled_back_takes_its_mark_with_it(world: World) -> None:
    late = writer(world)
    with late.transaction():
        with late.transaction(force_rollback=True):
            add(world, "order:1", late)
            assert world.run(horizon()).position < world.run(horizon()).last
        other = add(world, "order:2")
        assert positions(world) == [other]
        mine = add(world, "order:1", late)
        more = add(world, "order:2")
        assert positions(world) == [other]
    assert positions(world, other) == [mine, more]


@pytest.mark.parametrize("said", ["999999999999999", "1", "x", "-5", ""])
def test_nobody_can_say_that_a_mark_was_left(world: World, said: str) -> None:
    add(world), add(world)
    late = writer(world)
    with late.transaction():
        late.execute("SELECT set_config('tenure_inbox.mark', %s, true)", [said])
        mine = add(world, "order:1", late)
        other = add(world, "order:2")
        assert not {mine, other} & set(positions(world))
    assert positions(world)[-2:] == [mine, other]


def test_a_mark_that_was_undone_and_is_said_again_is_left_again(world: World) -> None:
    """The setting of a savepoint that was rolled back, put back by hand: the lock is not there any more."""
    late = writer(world)
    with late.transaction():
        with late.transaction(force_rollback=True):
            add(world, "order:1", late)
            said = late.execute("SELECT current_setting('tenure_inbox.mark')").fetchone()
        late.execute("SELECT set_config('tenure_inbox.mark', %s, true)", said)
        mine = add(world, "order:1", late)
        other = add(world, "order:2")
        assert positions(world) == []
    assert positions(world) == [mine, other]


@pytest.mark.parametrize("table", ["journal", "journal_000000", "journal_rest"])
@pytest.mark.parametrize("way", ["insert", "copy"])
def test_neither_copy_nor_insert_passes_the_mark(world: World, way: str, table: str) -> None:
    late = writer(world)
    position = 5 * 10**7 + 1 if table == "journal_rest" else None
    if position:
        world.sql("SELECT setval('journal_position', %s, false)", position)
    with late.transaction():
        if way == "insert":
            late.execute(f"INSERT INTO {table} (version, stream, type, data) VALUES (1, 's', 'a', '{{}}')".encode())
        else:
            with late.cursor().copy(f"COPY {table} (version, stream, type, data) FROM STDIN".encode()) as copy:
                copy.write("1\ts\ta\t{}\n")
        other = add(world, "order:2")
        assert positions(world) == []
    assert len(positions(world)) == 2
    assert positions(world)[-1] == other


def test_many_appends_of_one_transaction_take_one_lock(world: World) -> None:
    late = writer(world)
    with late.transaction():
        for n in range(50):
            add(world, f"order:{n}", late)
            add(world, "other")
        assert world.sql("SELECT count(*) FROM marks()") == [(1,)]
    assert len(positions(world)) == 100


def test_an_older_snapshot_is_refused(world: World) -> None:
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        reader = writer(world)
        reader.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        with pytest.raises(FeatureNotSupported, match=f"not {level}"):
            run(reader, read_after(0), world.schema)
        reader.execute("ROLLBACK")
        reader.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        with pytest.raises(FeatureNotSupported, match=f"not {level}"):
            reader.execute("SELECT read_between(0, 9, NULL, 0, 1, 9)")
        reader.execute("ROLLBACK")


def test_control_horizon_and_events_in_one_statement_miss_what_commits_in_between(world: World) -> None:
    """A statement has one snapshot: the mark is gone when it is asked for, and the event is not seen yet."""
    late, reader = writer(world), writer(world)
    reader.execute(
        "CREATE FUNCTION merged() RETURNS SETOF bigint LANGUAGE sql VOLATILE AS $$"
        "  SELECT j.position FROM (SELECT pg_advisory_lock(42), pg_advisory_unlock(42),"
        "  horizon() AS upto OFFSET 0) AS h"
        "  JOIN journal AS j ON j.position <= h.upto ORDER BY 1 $$"
    )
    gate = writer(world)
    gate.execute("SELECT pg_advisory_lock(42)")
    late.execute("BEGIN")
    first = add(world, "order:1", late)
    asked = Beside(lambda: [row[0] for row in reader.execute("SELECT merged()").fetchall()])
    waits_for_a_lock(world, reader)
    late.execute("COMMIT")
    gate.execute("SELECT pg_advisory_unlock(42)")
    assert first not in asked.result(), "if it were seen, this would be no control"
    assert positions(world) == [first]


def test_control_a_cursor_of_transaction_ids_inverts_a_stream(world: World) -> None:
    """Who began to write early and appended late sorts first: with xids, version 2 comes before version 1."""
    world.sql("ALTER TABLE journal ADD COLUMN xid xid8 DEFAULT pg_current_xact_id()")
    early = writer(world)
    with early.transaction():
        early.execute("SELECT pg_current_xact_id()")
        add(world, "order:1")
        add(world, "order:1", early)
    by_xid = "SELECT version FROM journal WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid, position"
    assert world.sql(by_xid) == [(2,), (1,)]
    assert [event.version for event in world.run(read_after(0))] == [1, 2]


# -- keeping and erasing


def test_a_stream_is_erased_with_its_name_and_begins_anew(world: World) -> None:
    add(world), add(world), add(world, "order:2")
    world.sql(
        "INSERT INTO skipped (projection, position, shard, stream, type, error) VALUES"
        " ('p', 1, 0, 'order:1', 'a', 'e'), ('p', 3, 0, 'order:2', 'a', 'e')"
    )
    assert world.run(erase_stream("order:1")) == 2
    assert [event.stream for event in world.run(read_after(0))] == ["order:2"]
    assert world.sql("SELECT stream FROM streams") == [("order:2",)] == world.sql("SELECT stream FROM skipped")
    add(world, expect=0)


def test_who_appends_while_a_stream_is_erased_begins_a_new_one(world: World) -> None:
    add(world)
    eraser, conn = writer(world), writer(world)
    with eraser.transaction():
        run(eraser, erase_stream("order:1"), world.schema)
        appended = Beside(lambda: add(world, conn=conn))
        waits_for_a_lock(world, conn)
    appended.result()
    assert [event.version for event in world.run(read_stream("order:1"))] == [1]


def test_events_are_kept_for_ever_unless_somebody_says_for_how_long(world: World) -> None:
    old, new = [add(world), add(world)], add(world)
    world.sql("UPDATE journal SET at = clock_timestamp() - interval '2 hours' WHERE position = ANY (%s)", old)
    assert world.run(keep_journal())["events_forgotten"] == 0
    world.run(retain_journal(3600))
    world.sql("INSERT INTO checkpoints (projection, shard, position) VALUES ('p', 0, %s)", old[0])
    assert world.run(keep_journal())["events_forgotten"] == 1, "a projection has still to read the second"
    world.sql("UPDATE checkpoints SET position = %s", new)
    assert world.run(keep_journal(n=1))["events_forgotten"] == 1
    assert positions(world) == [new]
    assert world.sql("SELECT forgotten_to FROM journal_kept") == [(old[1],)]
    assert world.run(retain_journal(None)) is None


def test_so_many_are_forgotten_at_once_and_none_above_the_horizon(world: World) -> None:
    world.run(retain_journal(3600))
    late = writer(world)
    add(world), add(world)
    with late.transaction():
        add(world, "late", late)
        after = add(world)
        world.sql("UPDATE journal SET at = clock_timestamp() - interval '2 hours'")
        assert world.run(keep_journal(n=1))["events_forgotten"] == 1
        assert world.run(keep_journal())["events_forgotten"] == 1
    assert positions(world)[-1] == after


def test_partitions_are_made_ahead_and_dropped_when_all_they_had_is_forgotten(world: World) -> None:
    ten = 10_000_000

    def parts() -> list[str]:
        return [
            row[0]
            for row in world.sql(
                "SELECT c.relname::text FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid"
                " WHERE inhparent = 'journal'::regclass ORDER BY 1"
            )
        ]

    assert parts() == ["journal_000000", "journal_000001", "journal_000002", "journal_rest"]
    add(world)
    world.sql("SELECT setval('journal_position', %s)", ten * 3 + 5)
    assert add(world) == ten * 3 + 6
    made = world.run(keep_journal())
    assert made["partitions_made"] == 2, "of the third, events stand in the rest already"
    world.sql("UPDATE journal SET at = clock_timestamp() - interval '2 hours'")
    world.run(retain_journal(3600))
    world.run(keep_journal())
    assert world.run(keep_journal())["partitions_dropped"] == 1
    assert parts()[0] == "journal_000001"


# -- who holds it back


def test_the_facts_name_who_holds_readers_back_and_what_would_pass_by_the_marks(world: World) -> None:
    add(world)
    facts = world.run(journal_facts())
    assert (facts.held_back, facts.pid, facts.held_seconds, facts.cache, facts.open_partitions) == (
        0,
        None,
        None,
        1,
        [],
    )
    assert shapes.journal(facts).level == "ok"
    late = writer(world)
    with late.transaction():
        add(world, "late", late)
        add(world)
        facts = world.run(journal_facts())
        assert (facts.held_back, facts.pid, facts.prepared) == (2, late.info.backend_pid, False)
        assert shapes.journal(facts).level == "ok"
        old = shapes.journal(facts._replace(held_seconds=3600.0))
        assert (old.level, f"session {facts.pid}" in old.said) == ("warn", True)
        assert "prepared transaction" in shapes.journal(facts._replace(held_seconds=99.0, prepared=True)).said
    with world.conn.transaction(force_rollback=True):
        world.sql("ALTER SEQUENCE journal_position CACHE 20")
        world.sql("GRANT INSERT ON journal_000000 TO PUBLIC")
        facts = world.run(journal_facts())
        assert (facts.cache, facts.open_partitions) == (20, ["journal_000000"])
        assert shapes.journal(facts).level == shapes.journal(facts._replace(cache=1)).level == "fault"


def test_a_projection_that_has_stopped_or_is_late_is_found(world: World) -> None:
    world.run(plan_projection("p", shards=1, like=None))
    add(world)
    shards = world.run(projections())
    assert (shards[0].state, shapes.projections(shards).level) == ("no_worker", "warn")
    shards = [shards[0]._replace(state="running")]
    assert shapes.projections(shards).level == "ok"
    assert shapes.projections([shards[0]._replace(lag_seconds=999.0)]).level == "warn"
    assert shapes.projections([shards[0]._replace(state="stopped", stopped_at=1, error="boom")]).level == "fault"
