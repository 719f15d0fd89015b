"""Projections: what they write and how far they have read commit together, so each event counts exactly once."""

from __future__ import annotations

import sys
import threading
from typing import Any

import psycopg
import pytest

from crew import eventually, working
from guarantees.facts import user_connection
from tenure.app.inbox import Inbox
from tenure.errors import BadSettings, StaleLease
from tenure.events import ProjectionAdvanced, ProjectionStopped, ProjectionSwapped
from tenure.model.journal import Event, NewEvent
from tenure.model.rows import Claimed, Lane
from tenure.postgres import run
from tenure.shapes.projection import Journal
from tenure.verbs.journal import append
from tenure.verbs.projections import (
    advance,
    enter_batch,
    forget_projection,
    pause_projection,
    plan_projection,
    projections,
    reapplied,
    reapply,
    resume_projection,
    shard_state,
    skip_event,
    skip_stopped,
    skipped_again,
    stop_shard,
)
from tenure.verbs.rebuild import ask_rebuild
from world import World

ADD = b"INSERT INTO totals AS t VALUES (%s, %s) ON CONFLICT (stream) DO UPDATE SET amount = t.amount + EXCLUDED.amount"


def journal_of(world: World) -> Journal:
    world.sql("CREATE TABLE IF NOT EXISTS totals (stream text PRIMARY KEY, amount int)")
    return Journal(Inbox(schema=world.schema))


def table(world: World) -> str:
    return f'"{world.schema}".totals'


def paid(world: World, stream: str = "order:1", *amounts: int, conn: psycopg.Connection[Any] | None = None) -> int:
    events = [NewEvent("order.paid", {"amount": amount}) for amount in amounts or (1,)]
    return world.run(append(stream, events), conn).position


def totals(world: World) -> dict[str, int]:
    return dict(world.sql("SELECT stream, amount FROM totals"))


def hold(world: World, **options: Any) -> Claimed:
    """A projection p with its row, held."""
    world.run(plan_projection("p", **{"shards": 1, "like": None, **options}))
    return world.claim_one("A", lanes=[world_lane()])


def hold_named(world: World, name: str) -> Claimed:
    world.run(plan_projection(name, shards=1, like=["order.%"]))
    return world.claim_one("A", lanes=[world_lane(name)])


def world_lane(name: str = "p") -> Lane:
    return Lane(f"projection:{name}")


def plain(journal: Journal, world: World, name: str = "totals", **how: Any) -> None:
    into = ADD.replace(b"totals", table(world).encode())

    @journal.projection(name, of=["order.*"], **how)
    def apply(tx: psycopg.Connection[Any], event: Event) -> None:
        tx.execute(into, [event.stream, event.data["amount"]])


# -- the verbs


def test_a_checkpoint_moves_from_where_the_holder_read_and_only_once(world: World) -> None:
    lease = hold(world)
    world.run(advance("p", 0, 0, 5, lease))
    with pytest.raises(StaleLease, match="checkpoint_moved"):
        world.run(advance("p", 0, 0, 5, lease))
    world.run(advance("p", 0, 5, 9, lease))
    state = world.run(shard_state("p", 0))
    assert state is not None
    assert state.position == 9
    with pytest.raises(StaleLease, match="checkpoint_moved"):
        world.run(advance("p", 1, 0, 5, lease))
    with pytest.raises(StaleLease, match="checkpoint_moved"):
        world.run(advance("q", 0, 9, 10, lease))


def test_a_stale_holder_moves_nothing(world: World) -> None:
    old = hold(world)
    world.expire(old.lease)
    with pytest.raises(StaleLease, match="lease_expired"):
        world.run(advance("p", 0, 0, 5, old))
    world.sweep()
    world.due()
    new = world.claim_one("B", lanes=[world_lane()])
    for verb in (advance("p", 0, 0, 5, old), advance("p", 0, 0, 5, new._replace(generation=old.generation))):
        with pytest.raises(StaleLease, match="token_mismatch"):
            world.run(verb)
    with pytest.raises(StaleLease, match="token_mismatch"):
        world.run(advance("p", 0, 0, 5, new._replace(fence=old.fence)))
    assert not world.run(stop_shard("p", 0, 0, 1, "boom", old))
    world.run(advance("p", 0, 0, 5, new))


def test_a_lease_that_ends_within_a_long_transaction_moves_nothing(world: World) -> None:
    """The lease is current when the transaction begins, by its now(), and over when it advances."""
    held, writer = hold(world), world.connect()
    with writer.transaction():
        writer.execute("SELECT now()")
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = %s", held.id)
        assert writer.execute("SELECT lease_expires_at > now() FROM live").fetchone() == (True,)
        with pytest.raises(StaleLease, match="lease_expired"):
            world.run(advance("p", 0, 0, 5, held), writer)
    assert world.sql("SELECT position FROM checkpoints") == [(0,)]


def test_a_checkpoint_tells_when_it_moved_also_at_the_end_of_a_long_transaction(world: World) -> None:
    held = hold(world)
    with world.conn.transaction():
        world.sql("SELECT pg_sleep(0.1)")
        world.run(advance("p", 0, 0, 5, held))
        assert world.sql("SELECT updated_at > now() + interval '0.1 s' FROM checkpoints") == [(True,)]


def test_a_batch_is_entered_by_the_holder_who_locks_its_checkpoint_until_its_lease_ends(world: World) -> None:
    held, other = hold(world), world.connect()
    for name, shard, lease in (
        ("q", 0, held),
        ("p", 1, held),
        ("p", 0, held._replace(generation=9)),
        ("p", 0, held._replace(fence=held.fence - 1)),
    ):
        with pytest.raises(StaleLease):
            world.run(enter_batch(name, shard, lease))
    with world.conn.transaction():
        ((left,),) = world.sql(
            "SELECT date_part('epoch', lease_expires_at - clock_timestamp()) FROM live, pg_sleep(0.05)"
        )
        assert world.run(enter_batch("p", 0, held)).seconds_left < left
        ((milliseconds,),) = world.sql(
            "SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
        )
        assert milliseconds <= 1000 * left + 1
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("SELECT FROM checkpoints FOR UPDATE NOWAIT")
    with world.conn.transaction():
        world.sql("UPDATE live SET lease_expires_at = clock_timestamp() FROM pg_sleep(0.01)")
        with pytest.raises(StaleLease, match="lease_expired"):
            world.run(enter_batch("p", 0, held))


def test_a_checkpoint_written_under_a_higher_fence_is_not_moved(world: World) -> None:
    lease = hold(world)
    world.sql("UPDATE checkpoints SET fence_token = %s", lease.fence + 1)
    with pytest.raises(StaleLease, match="checkpoint_moved"):
        world.run(advance("p", 0, 0, 5, lease))


def test_progress_sets_attempts_back(world: World) -> None:
    lease = hold(world)
    world.sql("UPDATE live SET attempts = 7")
    world.run(advance("p", 0, 0, 5, lease))
    assert world.row(lease.id).attempts == 1


@pytest.mark.one_server
@pytest.mark.parametrize("how", ["idle", "paused", "stopped", "busy"])
def test_workers_that_end_while_a_shard_is_idle_cost_it_nothing(world: World, how: str) -> None:
    """Else a quiet projection waits longer after each, and is a dead letter after twenty; one with work is in doubt."""
    journal, called, go_on = journal_of(world), threading.Event(), threading.Event()

    @journal.projection("totals", of=["order.*"])
    def apply(tx: psycopg.Connection[Any], event: Event) -> None:
        called.set()
        assert go_on.wait(90)

    with working(world, journal.inbox) as hired:
        eventually(lambda: world.sql("SELECT 1 FROM live WHERE status = 'processing'"))
        assert hired.stop() == 0
    world.sql("UPDATE live SET attempts = 12")
    if how == "paused":
        world.run(pause_projection("totals"))
    if how == "stopped":
        world.sql("UPDATE checkpoints SET state = 'stopped'")
    if how == "busy":
        paid(world, "order:1", 1)
    with working(world, journal.inbox):
        if how == "busy":
            assert called.wait(90)
            assert world.sql("SELECT attempts FROM live") == [(13,)]
        go_on.set()
        eventually(lambda: world.sql("SELECT attempts FROM live") == [(1,)])
    assert world.sql("SELECT state FROM checkpoints") == [("stopped" if how == "stopped" else "running",)]


@pytest.mark.parametrize("rests", ["idle", "paused", "stopped"])
def test_a_shard_with_nothing_to_do_is_no_dead_letter_however_often_its_holder_was_killed(
    world: World, rests: str
) -> None:
    journal = journal_of(world)
    plain(journal, world)
    held = hold_named(world, "totals")
    poison = paid(world)
    if rests == "stopped":
        world.run(stop_shard("totals", 0, 0, poison, "boom", held))
    elif rests == "paused":
        world.run(pause_projection("totals"))
    else:
        world.run(advance("totals", 0, 0, poison, held))
    world.sql("UPDATE live SET attempts = 19")
    world.expire(held.lease)
    world.sweep()
    world.due()
    with working(world, journal.inbox):
        eventually(lambda: world.sql("SELECT 1 FROM live WHERE status = 'processing' AND attempts = 1"))
        (seen,) = world.run(projections())
        assert (seen.state, seen.error) == (("stopped", "boom") if rests == "stopped" else ("running", None))
        assert seen.stopped_at == (poison if rests == "stopped" else None)


def test_control_without_the_compare_two_holders_apply_the_same_events_twice(world: World) -> None:
    """Both read from 0 and add; the compare-and-set rolls the second back, without it the sum doubles."""
    lease = hold(world)
    world.sql("CREATE TABLE sums (n int)")
    world.sql("INSERT INTO sums VALUES (0)")

    def batch(conn: psycopg.Connection[Any], compare: bool) -> None:
        with conn.transaction():
            conn.execute("UPDATE sums SET n = n + 1")
            if compare:
                run(conn, advance("p", 0, 0, 5, lease), world.schema)
            else:
                conn.execute("UPDATE checkpoints SET position = 5")

    batch(world.conn, compare=True)
    with pytest.raises(StaleLease):
        batch(world.conn, compare=True)
    assert world.sql("SELECT n FROM sums") == [(1,)]
    batch(world.conn, compare=False)
    assert world.sql("SELECT n FROM sums") == [(2,)]


def test_planning_again_makes_no_second_row_and_keeps_the_number_of_shards(world: World) -> None:
    assert world.run(plan_projection("p", shards=3, like=None)) == 3
    assert world.run(plan_projection("p", shards=5, like=["a%"], on_error="skip")) == 0
    assert world.count("live") == world.count("checkpoints") == 3
    state = world.run(shard_state("p", 2))
    assert state is not None
    assert (state.shards, state.like_types, state.on_error) == (3, ["a%"], "skip")
    (first, *_) = world.claim("A", 1, lanes=[world_lane()])
    world.dead_letter(first.lease)
    assert world.run(plan_projection("p", shards=3, like=None)) == 0, "a dead one waits for somebody"
    world.sql("DELETE FROM dead")
    assert world.run(plan_projection("p", shards=3, like=None)) == 1


def test_a_projection_is_forgotten_with_its_rows_but_for_those_that_are_held(world: World) -> None:
    world.run(plan_projection("p", shards=2, like=None))
    world.run(plan_projection("q", shards=1, like=None))
    world.run(skip_event("q", 0, paid(world), "boom"))
    held = world.claim_one("A", lanes=[world_lane()])
    assert world.run(forget_projection("p"))
    assert not world.run(forget_projection("p"))
    kinds = [row[0] for row in world.sql("SELECT kind FROM live ORDER BY kind")]
    assert kinds == sorted(
        {held.kind, "projection:p", "projection:q"} if held.kind == "projection:p" else {"projection:q"}
    )
    assert world.run(shard_state("p", 0)) is None
    assert world.run(shard_state("q", 0)) is not None
    assert world.count("skipped") == 1


def test_a_stopped_shard_is_skipped_or_tried_again_and_the_others_go_on(world: World) -> None:
    lease = hold(world)
    poison = paid(world)
    assert not world.run(stop_shard("p", 0, 3, poison, "boom", lease)), "not where it is"
    assert not world.run(stop_shard("p", 0, 0, poison, "boom", lease._replace(generation=9)))
    assert world.run(stop_shard("p", 0, 0, poison, "boom", lease))
    (seen,) = world.run(projections())
    assert (seen.state, seen.stopped_at, seen.error, seen.behind) == ("stopped", poison, "boom", poison)
    assert world.run(resume_projection("p"))
    state = world.run(shard_state("p", 0))
    assert state is not None
    assert state.state == "running"
    assert world.run(skip_stopped("p")) == 0
    world.run(stop_shard("p", 0, 0, poison, "boom", lease))
    world.run(plan_projection("q", shards=1, like=None))
    assert world.run(skip_stopped("p")) == 1
    state = world.run(shard_state("p", 0))
    assert state is not None
    assert (state.position, state.state, state.again) == (poison, "running", False)
    assert world.sql("SELECT projection, position, error FROM skipped") == [("p", poison, "boom")]
    assert world.run(skipped_again("p", 0)) == []
    with pytest.raises(StaleLease):
        world.run(reapplied("p", 0, poison, lease))
    assert world.run(reapply("p", poison + 1)) == 0
    assert world.run(reapply("q")) == 0
    assert world.run(reapply("p", poison)) == 1
    assert [event.position for event in world.run(skipped_again("p", 0))] == [poison]
    assert world.run(skipped_again("p", 1)) == []
    world.run(reapplied("p", 0, poison, lease))
    assert world.count("skipped") == 0


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"shards": 0}, "shards=0"), ({"batch": 9999}, "batch=9999"), ({"on_error": "ignore"}, "stop, skip"),
        ({"tables": "totals"}, "give a list"), ({"tables": ("a", "b", "a")}, "name 'a' once"),
        ({"name": 5}, "has no name"), ({"of": "order.*"}, "list of types"),
        ({"name": "Order Totals"}, "small letters"),
    ],
)  # fmt: skip
def test_what_no_projection_can_be_is_refused_in_a_sentence(how: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        Journal(Inbox()).projection(how.pop("name", "totals"), **how)(lambda _tx, _event: None)
    with pytest.raises(BadSettings, match="must take"):
        Journal(Inbox()).projection("totals")(lambda _tx: None)
    with pytest.raises(BadSettings, match=r"'paid' has no name: write @journal\.projection\("):
        Journal(Inbox()).projection(paid)  # type: ignore[arg-type]


# -- in a worker


@pytest.mark.one_server
@pytest.mark.parametrize("way", ["plain", "async", "list"])
def test_events_are_applied_once_while_they_come(world: World, way: str) -> None:
    journal = journal_of(world)
    into = ADD.replace(b"totals", table(world).encode())
    if way == "plain":
        plain(journal, world, shards=2)
    elif way == "async":

        @journal.projection("totals", of=["order.*"], shards=2)
        async def apply(tx: psycopg.AsyncConnection[Any], event: Event) -> None:
            await tx.execute(into, [event.stream, event.data["amount"]])
    else:

        @journal.projection("totals", of=["order.*"], batch=3)
        def apply_all(tx: psycopg.Connection[Any], events: list[Event]) -> None:
            tx.cursor().executemany(into, [(event.stream, event.data["amount"]) for event in events])

    paid(world, "order:1", 1, 2, 3)
    world.run(append("other:1", [NewEvent("other.thing")]))
    with working(world, journal.inbox) as hired:
        eventually(lambda: totals(world) == {"order:1": 6})
        last = paid(world, "order:2", 10)
        paid(world, "order:1", 4)
        eventually(lambda: totals(world) == {"order:1": 10, "order:2": 10})
        assert {event.projection for event in hired.of(ProjectionAdvanced)} == {"totals"}
        last = world.run(append("other:2", [NewEvent("other.thing")])).position
        eventually(lambda: {row[0] for row in world.sql("SELECT position FROM checkpoints")} == {last})
        assert hired.stop() == 0
    assert world.sql("SELECT DISTINCT status, attempts FROM live") == [("pending", 0)], "given back, at no cost"


@pytest.mark.one_server
def test_an_event_committed_late_is_applied_and_what_follows_waits_for_it(world: World) -> None:
    journal, late = journal_of(world), user_connection(world)
    plain(journal, world)
    with working(world, journal.inbox):
        paid(world, "order:0", 5)
        eventually(lambda: totals(world) == {"order:0": 5})
        paid(world, "order:1", 1, conn=late)
        paid(world, "order:2", 2)
        late.commit()
        eventually(lambda: totals(world) == {"order:0": 5, "order:1": 1, "order:2": 2})


@pytest.mark.one_server
@pytest.mark.parametrize("rule", ["stop", "skip"])
def test_a_poison_event_stops_the_shard_or_is_skipped_and_never_in_silence(world: World, rule: str) -> None:
    journal, mended = journal_of(world), list[bool]()
    into = ADD.replace(b"totals", table(world).encode())

    @journal.projection("totals", on_error=rule)
    def apply(tx: psycopg.Connection[Any], event: Event) -> None:
        if event.data["amount"] == 666 and not mended:
            raise ValueError("the beast")
        tx.execute(into, [event.stream, event.data["amount"]])

    first = paid(world, "order:1", 1, 2, 3, 666, 4, 5) - 2
    with working(world, journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.position, stopped.error, stopped.skipped) == (first, "ValueError: the beast", rule == "skip")
        if rule == "skip":
            eventually(lambda: totals(world) == {"order:1": 15})
            assert world.sql("SELECT position, error FROM skipped") == [(first, "ValueError: the beast")]
            mended.append(True)
            world.run(reapply("totals"))
        else:
            assert totals(world) == {"order:1": 6}
            assert world.sql("SELECT state, stopped_at FROM checkpoints") == [("stopped", first)]
            mended.append(True)
            world.run(resume_projection("totals"))
        eventually(lambda: totals(world) == {"order:1": 681})
        eventually(lambda: world.count("skipped") == 0)


@pytest.mark.one_server
@pytest.mark.parametrize("way", ["plain", "async"])
def test_a_function_that_calls_sys_exit_stops_its_shard_as_any_error_does(world: World, way: str) -> None:
    journal = journal_of(world)
    into = ADD.replace(b"totals", table(world).encode())

    def apply(tx: psycopg.Connection[Any], event: Event) -> None:
        if event.data["amount"] == 666:
            sys.exit(3)
        tx.execute(into, [event.stream, event.data["amount"]])

    async def apply_on_loop(tx: psycopg.AsyncConnection[Any], event: Event) -> None:
        if event.data["amount"] == 666:
            sys.exit(3)
        await tx.execute(into, [event.stream, event.data["amount"]])

    journal.projection("totals")(apply_on_loop if way == "async" else apply)
    poison = paid(world, "order:1", 1, 2, 666)
    with working(world, journal.inbox) as hired:
        (stopped,) = hired.saw(ProjectionStopped)
        assert (stopped.position, stopped.error) == (poison, "RuntimeError: the function called sys.exit(3)")
        assert totals(world) == {"order:1": 3}


@pytest.mark.one_server
def test_a_paused_projection_applies_nothing_until_it_is_resumed_and_a_forgotten_one_ends(world: World) -> None:
    journal = journal_of(world)
    plain(journal, world)
    world.run(plan_projection("totals", shards=1, like=["order.%"]))
    world.run(pause_projection("totals"))
    assert not world.run(pause_projection("nobody"))
    paid(world, "order:1", 7)
    with working(world, journal.inbox) as hired:
        eventually(lambda: world.sql("SELECT 1 FROM live WHERE status = 'processing'"))
        assert totals(world) == {}
        world.run(resume_projection("totals"))
        eventually(lambda: totals(world) == {"order:1": 7})
        world.run(forget_projection("totals"))
        eventually(lambda: world.count("live") == 0)
        assert not hired.of(ProjectionStopped)


@pytest.mark.one_server
@pytest.mark.parametrize("pool", ["thread", "process", "loop"])
def test_a_job_that_stays_learns_of_a_drain_and_ends_by_itself(world: World, pool: str) -> None:
    from apps import staying

    inbox = staying.inbox
    kind = f"stay_{pool}"
    inbox[kind].schema = world.schema
    inbox[kind].enqueue(world.conn)
    with working(world, inbox, drain_seconds=60, lease_seconds=90) as hired:
        eventually(lambda: world.sql("SELECT 1 FROM live WHERE status = 'processing'"))
        assert hired.stop() == 0
    assert world.sql("SELECT status, attempts FROM live") == [("pending", 0)]


# -- rebuilding


@pytest.mark.one_server
@pytest.mark.parametrize("depends", [False, True])
def test_a_projection_is_rebuilt_beside_the_old_tables_and_swapped(world: World, depends: bool) -> None:
    place = f"s_{world.schema}"
    world.sql(f"CREATE SCHEMA {place}")
    world.sql(f"CREATE TABLE {place}.sums (stream text PRIMARY KEY, amount int)")
    if depends:
        world.sql(f"CREATE VIEW {place}.seen AS SELECT stream, amount FROM {place}.sums")
    journal = Journal(Inbox(schema=world.schema))
    factor, name = [1], f"sums_{world.schema}"

    @journal.projection(name, of=["order.*"], tables=[f"{place}.sums"], shards=2)
    def apply(tx: psycopg.Connection[Any], event: Event) -> None:
        tx.execute("SELECT set_config('search_path', current_setting('search_path') || %s, true)", [f", {place}"])
        tx.execute(ADD.replace(b"totals", b"sums"), [event.stream, event.data["amount"] * factor[0]])

    def sums() -> dict[str, int]:
        return dict(world.sql(f"SELECT stream, amount FROM {place}.sums"))

    for n in range(6):
        paid(world, f"order:{n}", 1, 2)
    with working(world, journal.inbox) as hired:
        eventually(lambda: sum(sums().values()) == 18)
        factor[0] = 10  # the function was mended
        asked = world.run(ask_rebuild(name))
        assert world.run(ask_rebuild(name)) == asked, "one at a time"
        (swapped,) = hired.saw(ProjectionSwapped)
        assert swapped.how == ("copied" if depends else "moved")
        assert sums() == {f"order:{n}": 30 for n in range(6)}
        paid(world, "order:0", 1)
        eventually(lambda: sums()["order:0"] == 40)
        assert world.sql("SELECT count(*) FROM pg_namespace WHERE nspname = %s", f"{name}_next") == [(0,)]
        assert world.sql("SELECT rebuild_id, rebuilt_at IS NOT NULL FROM projections") == [(None, True)]
    world.sql(f"DROP SCHEMA {place} CASCADE")


@pytest.mark.one_server
def test_a_function_that_writes_elsewhere_is_refused_and_the_old_tables_stay(world: World) -> None:
    journal = journal_of(world)
    plain(journal, world, name=f"t_{world.schema}")  # it names the schema, and no table to rebuild
    paid(world, "order:1", 5)
    with working(world, journal.inbox) as hired:
        eventually(lambda: totals(world) == {"order:1": 5})
        world.run(ask_rebuild(f"t_{world.schema}"))
        stopped = hired.saw(ProjectionStopped)[0]
        assert stopped.shard == -1
        assert f"writes to {world.schema}.totals while it is rebuilt" in stopped.error
        assert totals(world) == {"order:1": 5}


def test_what_retention_has_forgotten_is_told_before_a_rebuild(world: World) -> None:
    world.run(plan_projection("p", shards=1, like=None))
    with pytest.raises(BadSettings, match="there is no projection 'q'"):
        world.run(ask_rebuild("q"))
    world.sql("UPDATE journal_kept SET forgotten_to = 7")
    with pytest.raises(BadSettings, match="events up to 7 are past retention"):
        world.run(ask_rebuild("p"))
    assert world.run(ask_rebuild("p", partial=True))


@pytest.mark.one_server
def test_control_without_the_horizon_a_late_event_is_never_applied(world: World) -> None:
    journal, late = journal_of(world), user_connection(world)
    plain(journal, world)
    naive = f"SELECT {world.schema}.last_position()"
    world.sql(f"CREATE OR REPLACE FUNCTION horizon() RETURNS bigint LANGUAGE sql AS '{naive}'")
    with working(world, journal.inbox):
        paid(world, "order:1", 1, conn=late)
        last = paid(world, "order:2", 2)
        eventually(lambda: world.sql("SELECT 1 FROM checkpoints WHERE position = %s", last))
        late.commit()
        paid(world, "order:3", 3)
        eventually(lambda: "order:3" in totals(world))
        assert "order:1" not in totals(world), "and the second too, if the reader was between its number and its commit"
