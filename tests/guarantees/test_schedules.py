"""A schedule fires each tick once across the fleet, by the clocks of its zone; missed ticks go by its policy."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from guarantees.facts import Beside, together, waits_for_a_lock
from tenure import sql
from tenure.errors import BadSettings, InvalidPayload
from tenure.model.rows import Row
from tenure.verbs import schedules
from tenure.verbs.schedules import CATCH_UP_MAX, Due, Fired, Planned, Schedule, next_after, ticks_due
from tenure.verbs.statement import Statement
from tenure.worker.cron import Round, fire_due
from world import World

FLEET = 8
UNREADABLE = 120  # more than a page
HOURLY = Schedule("report", "0 * * * *", "make_report", {"team": 7})
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def plan(world: World, schedule: Schedule = HOURLY, **changes: Any) -> Planned:
    """Plan a schedule, a little changed; how the database keeps it."""
    wanted = dataclasses.replace(schedule, **changes)
    world.run(schedules.plan(wanted))
    return kept(world, wanted.name)


def kept(world: World, name: str = "report") -> Planned:
    """One schedule as the database keeps it."""
    (found,) = [each for each in world.run(schedules.schedules()) if each.name == name]
    return found


def come(world: World, next_at: datetime = NOON) -> list[Due]:
    """Let every schedule have been due at this time; what is due now."""
    world.sql("UPDATE schedules SET next_at = %s", next_at)
    return world.run(schedules.due_schedules())


def fire(world: World) -> Round:
    """One look at the schedules, as housekeeping does it."""
    return fire_due(world.conn, world.schema)


def tick(world: World, due: Due, conn: psycopg.Connection[Any] | None = None) -> Fired | None:
    """The second half of that look, with what was read before."""
    return world.run(schedules.tick(due, *ticks_due(due)), conn)


def enqueued(world: World) -> list[Row]:
    """Every row of the inbox, in the order in which they went in."""
    return [world.row(id) for (id,) in world.sql("SELECT id FROM live ORDER BY seq")]


# -- one firing across the fleet


def test_a_fleet_that_looks_at_once_fires_each_tick_once(world: World) -> None:
    for n in range(5):
        plan(world, name=f"report {n}")
    come(world)
    conns = [world.connect() for _ in range(FLEET)]
    rounds = together(FLEET, lambda n: fire_due(conns[n], world.schema))
    assert sorted(fired.name for done in rounds for fired in done.fired) == [f"report {n}" for n in range(5)]
    assert world.count("live") == 5


KEYS = "'schedule:' || w.name || ':' || t.at"
WITHOUT = {"moving next_at": ("AND s.next_at = :expected", ""), "the key": (KEYS, "NULL")}


@pytest.mark.parametrize(
    ("without", "winners", "rows"),
    [
        ((), 1, 1),
        (("the key",), 1, 1),
        (("moving next_at",), FLEET, 1),
        (("moving next_at", "the key"), FLEET, FLEET),
    ],
    ids=lambda value: " and ".join(value) or "nothing" if isinstance(value, tuple) else None,
)
def test_one_of_all_who_saw_a_tick_due_fires_it_and_without_both_guards_all_do(
    world: World, monkeypatch: pytest.MonkeyPatch, without: tuple[str, ...], winners: int, rows: int
) -> None:
    plan(world)
    (due,) = come(world)
    conns = [world.connect() for _ in range(FLEET)]
    _weaken(monkeypatch, without)
    fired = together(FLEET, lambda n: tick(world, due, conns[n]))
    assert len([one for one in fired if one]) == winners
    assert world.count("live") == rows


def _weaken(monkeypatch: pytest.MonkeyPatch, without: tuple[str, ...]) -> None:
    text, whole = sql.text("tick"), sql.text
    for guard in without:
        before, after = WITHOUT[guard]
        assert before in text
        text = text.replace(before, after)
    monkeypatch.setattr(sql, "text", lambda name: text if name == "tick" else whole(name))
    monkeypatch.setattr(sql, "prepared", sql.prepared.__wrapped__)  # without its memory of the whole text


def test_a_process_that_slept_since_it_looked_does_not_turn_the_schedule_back(world: World) -> None:
    plan(world)
    (old,) = come(world)
    fire(world)
    went_on = kept(world).next_at
    assert tick(world, old) is None
    assert kept(world).next_at == went_on


@pytest.mark.parametrize("payload", [{"team": 7}, {"team": 8}], ids=["the same row", "another row"])
def test_a_schedule_changed_in_the_moment_it_fires_does_not_fire_that_tick_twice(
    world: World, payload: dict[str, int]
) -> None:
    plan(world)
    change = schedules.plan(dataclasses.replace(HOURLY, cron="0 12 * * *", payload=payload))
    changed = change.read([(NOON - timedelta(seconds=1),)])  # it has read the clock just before noon
    assert isinstance(changed, Statement)
    (due,) = come(world)
    assert tick(world, due._replace(at=NOON))
    assert world.run(changed) == NOON
    fired = tick(world, due._replace(cron="0 12 * * *", at=NOON))
    assert fired is not None
    assert [row.outcome for row in fired.rows] == ["duplicate" if payload == {"team": 7} else "conflict"]
    assert world.count("live") == 1


def test_only_the_schedule_that_was_named_is_fired(world: World) -> None:
    plan(world, name="a")
    plan(world, name="b")
    first, second = come(world)
    assert tick(world, first)
    assert [row.idempotency_key for row in enqueued(world)] == [f"schedule:a:{_stamp(_this_hour(first))}"]
    assert kept(world, "b").next_at == second.next_at


@pytest.mark.parametrize(
    ("change", "value"), [("cron", "30 * * * *"), ("zone", "Europe/Berlin"), ("paused", True)], ids=lambda v: str(v)
)
def test_what_was_read_before_a_change_fires_nothing_after_it(world: World, change: str, value: object) -> None:
    plan(world)
    (due,) = come(world)
    world.sql(f"UPDATE schedules SET {change} = %s", value)
    assert tick(world, due) is None
    assert kept(world).next_at == due.next_at
    assert world.count("live") == 0


def test_a_process_killed_while_it_fires_leaves_nothing_half_done(world: World) -> None:
    plan(world)
    (due,) = come(world)
    (last,), _ = ticks_due(due)
    blocker, dying = world.connect(), world.connect()
    with blocker.transaction(force_rollback=True):
        blocker.execute(
            "INSERT INTO idempotency (key, row_id, content_hash) VALUES (%s, new_id(), '')",
            [f"schedule:report:{_stamp(last)}"],
        )
        firing = Beside(lambda: tick(world, due, dying))
        waits_for_a_lock(world, dying)  # next_at is moved, the row is about to be enqueued
        world.sql("SELECT pg_terminate_backend(%s::int)", dying.info.backend_pid)
        with pytest.raises(psycopg.OperationalError):
            firing.result()
    assert kept(world).next_at == due.next_at
    assert world.count("live") == 0
    assert [fired.name for fired in fire(world).fired] == ["report"]
    assert world.count("live") == 1


def test_a_tick_whose_row_is_refused_stays_due_is_told_and_stops_no_other(world: World) -> None:
    plan(world)
    plan(world, name="a")
    plan(world, name="b")
    (due, *_) = come(world)
    world.sql("UPDATE schedules SET priority = 500 WHERE name = 'a'")
    world.sql("UPDATE schedules SET name = repeat(name, 500) WHERE name = 'b'")
    done = fire(world)
    assert [fired.name for fired in done.fired] == ["report"]
    assert done.unfired.pop("a") == "priority=500 must be a whole number between -100 and 100"
    (long,) = done.unfired.values()
    assert long.startswith("idempotency_key=")
    assert kept(world, "a").next_at == due.next_at


def test_a_tick_that_fails_for_another_reason_fails_the_round_and_stays_due(world: World) -> None:
    plan(world)
    (due,) = come(world)
    world.sql("ALTER TABLE live RENAME TO elsewhere")
    with pytest.raises(psycopg.errors.UndefinedTable):
        fire(world)
    assert kept(world).next_at == due.next_at


def test_a_schedule_this_process_cannot_read_is_reported_and_stops_no_other(world: World) -> None:
    plan(world)
    for n in range(UNREADABLE):
        plan(world, name=f"mars {n}")
    world.sql("UPDATE schedules SET zone = 'Mars/Olympus' WHERE name LIKE 'mars%%'")
    plan(world, name="a")
    come(world)
    world.sql("UPDATE schedules SET cron = 'when it rains' WHERE name = 'a'")
    done = fire(world)
    assert [fired.name for fired in done.fired] == ["report"]
    assert len(done.unfired) == UNREADABLE + 1
    assert done.unfired["a"].startswith("cron='when it rains' cannot be read")
    assert done.unfired["mars 7"].startswith("zone='Mars/Olympus' is not known here")
    assert kept(world, "mars 7").next_at == NOON, "it stays due, for a process that knows the zone"


# -- what a tick enqueues


def test_a_tick_enqueues_the_row_as_it_was_planned(world: World) -> None:
    options: dict[str, Any] = {"queue": "slow", "key": "team:7", "priority": 9, "max_attempts": 2, "ordered": True}
    plan(world, **options)
    (due,) = come(world)
    fired = tick(world, due)
    assert fired is not None
    (row,) = enqueued(world)
    assert (row.kind, json.loads(row.payload)) == ("make_report", {"team": 7})
    assert (row.queue, row.partition_key, row.priority, row.max_attempts, row.ordered) == tuple(options.values())
    assert row.idempotency_key == f"schedule:report:{_stamp(_this_hour(due))}"
    assert row.available_at >= due.at - MINUTE, "a tick missed long ago is no lag of the queue"
    assert (fired.ticks, fired.rows[0].id, fired.rows[0].outcome) == ((_this_hour(due),), row.id, "enqueued")
    assert (kept(world).last_at, kept(world).next_at) == (_this_hour(due), fired.next_at)
    assert fired.next_at == _this_hour(due) + HOUR


def test_the_row_is_the_one_planned_last_also_for_who_looked_before(world: World) -> None:
    plan(world)
    (due,) = come(world)
    plan(world, payload={"team": 8})
    tick(world, due)
    assert [json.loads(row.payload) for row in enqueued(world)] == [{"team": 8}]


def test_the_tick_stands_in_the_payload_under_the_name_asked_for(world: World) -> None:
    plan(world, tick_as="hour", misfire="all")
    (due,) = come(world)
    world.sql("SET TimeZone = 'Asia/Tokyo'")
    tick(world, due._replace(at=NOON + 2 * HOUR))
    assert [json.loads(row.payload) for row in enqueued(world)] == [
        {"team": 7, "hour": f"2026-06-01T{hour}:00:00Z"} for hour in (12, 13, 14)
    ]


def _this_hour(due: Due) -> datetime:
    return due.at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


# -- missed ticks


def due_at(misfire: str, late: timedelta, cron: str = "* * * * *", zone: str = "UTC") -> Due:
    """A schedule that was due at noon, looked at so much later."""
    return Due("report", cron, zone, misfire, NOON, NOON + late)


@pytest.mark.parametrize("misfire", ["once", "skip", "all"])
def test_a_tick_in_time_fires_under_every_policy(misfire: str) -> None:
    assert ticks_due(due_at(misfire, timedelta(0))) == ([NOON], NOON + MINUTE)
    assert ticks_due(due_at(misfire, timedelta(seconds=59, microseconds=999_999))) == ([NOON], NOON + MINUTE)


def test_once_fires_one_row_for_all_that_was_missed_and_it_carries_the_latest_tick() -> None:
    assert ticks_due(due_at("once", 90 * MINUTE + timedelta(seconds=5))) == ([NOON + 90 * MINUTE], NOON + 91 * MINUTE)
    assert ticks_due(due_at("once", timedelta(days=2), "0 12 * * *")) == (
        [NOON + timedelta(days=2)],
        NOON + timedelta(days=3),
    )
    assert ticks_due(due_at("once", timedelta(days=2) - MINUTE, "0 12 * * *"))[0] == [NOON + timedelta(days=1)]


def test_a_year_of_missed_minutes_is_passed_over_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[datetime] = []

    def counted(cron: str, zone: str, after: datetime) -> datetime:
        steps.append(after)
        return next_after(cron, zone, after)

    monkeypatch.setattr(schedules, "next_after", counted)
    (latest,), following = ticks_due(due_at("once", timedelta(days=365)))
    assert (latest, following) == (NOON + timedelta(days=365), NOON + timedelta(days=365) + MINUTE)
    assert len(steps) < 40


def test_skip_fires_only_a_tick_younger_than_a_minute() -> None:
    young, old = timedelta(seconds=59.9), timedelta(seconds=60)
    assert ticks_due(due_at("skip", young, "0 * * * *")) == ([NOON], NOON + HOUR)
    assert ticks_due(due_at("skip", old, "0 * * * *")) == ([], NOON + HOUR)
    assert ticks_due(due_at("skip", 3 * HOUR + young, "0 * * * *")) == ([NOON + 3 * HOUR], NOON + 4 * HOUR)
    assert ticks_due(due_at("skip", 3 * HOUR + old, "0 * * * *")) == ([], NOON + 4 * HOUR)


def test_all_fires_every_missed_tick_and_a_long_absence_in_several_rounds() -> None:
    assert ticks_due(due_at("all", 2 * MINUTE)) == ([NOON, NOON + MINUTE, NOON + 2 * MINUTE], NOON + 3 * MINUTE)
    due = due_at("all", (CATCH_UP_MAX + 4) * MINUTE)
    first, following = ticks_due(due)
    assert (len(first), first[-1]) == (CATCH_UP_MAX, NOON + (CATCH_UP_MAX - 1) * MINUTE)
    rest, following = ticks_due(due._replace(next_at=following))
    assert rest == [NOON + n * MINUTE for n in range(CATCH_UP_MAX, CATCH_UP_MAX + 5)]
    assert following == NOON + (CATCH_UP_MAX + 5) * MINUTE


def test_missed_ticks_are_enqueued_by_policy_and_in_order(world: World) -> None:
    for misfire in ("once", "skip", "all"):
        plan(world, name=misfire, misfire=misfire)
    for due in come(world):
        tick(world, due._replace(at=NOON + 2 * HOUR + MINUTE))
    assert [row.idempotency_key for row in enqueued(world)] == [
        *(f"schedule:all:2026-06-01T{hour}:00:00Z" for hour in (12, 13, 14)),
        "schedule:once:2026-06-01T14:00:00Z",
    ]
    assert {each.next_at for each in world.run(schedules.schedules())} == {NOON + 3 * HOUR}
    assert (kept(world, "all").last_at, kept(world, "skip").last_at) == (NOON + 2 * HOUR, None)


def test_a_round_that_skips_says_so_and_forgets_no_earlier_tick(world: World) -> None:
    plan(world, misfire="skip")
    world.sql("UPDATE schedules SET last_at = %s", NOON - HOUR)
    (due,) = come(world)
    assert tick(world, due._replace(at=NOON + MINUTE)) == Fired("report", (), (), NOON + HOUR)
    assert kept(world).last_at == NOON - HOUR


# -- planning


def test_a_new_schedule_counts_from_the_servers_clock(world: World) -> None:
    planned = plan(world, cron="* * * * *")
    ((now,),) = world.sql("SELECT clock_timestamp()")
    assert now - MINUTE < planned.next_at <= now + MINUTE
    assert planned.next_at.second == 0
    assert (planned.last_at, planned.paused) == (None, False)


def test_planned_again_by_every_process_of_a_deploy_it_stays_one_schedule_that_is_due(world: World) -> None:
    plan(world)
    come(world)
    conns = [world.connect() for _ in range(FLEET)]
    assert together(FLEET, lambda n: world.run(schedules.plan(HOURLY), conns[n])) == [NOON] * FLEET
    changed = plan(world, payload={}, misfire="all", queue="slow")
    assert (changed.next_at, changed.payload, changed.misfire, changed.queue) == (NOON, "{}", "all", "slow")


@pytest.mark.parametrize("change", [{"cron": "30 * * * *"}, {"zone": "Asia/Kolkata"}], ids=["cron", "zone"])
def test_with_another_cron_or_zone_it_counts_from_now(world: World, change: dict[str, Any]) -> None:
    plan(world)
    (due,) = come(world)
    changed = plan(world, **change)
    assert due.at < changed.next_at <= due.at + HOUR + MINUTE
    assert changed.next_at.astimezone(UTC).minute == 30
    assert (changed.cron, changed.zone) == (change.get("cron", "0 * * * *"), change.get("zone", "UTC"))


def test_everything_that_was_planned_is_kept_and_everything_can_be_changed(world: World) -> None:
    first = Schedule("s", "0 1 * * *", "k", {"a": 1}, "UTC", "q", "key", 1, 2, True, "skip", "at")
    second = Schedule("s", "0 2 * * *", "l", {"b": 2}, "Europe/Berlin", "r", "other", 3, 4, False, "all", "when")
    for wanted in (first, second):
        found = plan(world, wanted)
        named = {**found._asdict(), "payload": json.loads(found.payload), "key": found.partition_key}
        assert {name: named[name] for name in Schedule.__slots__} == dataclasses.asdict(wanted)


def test_an_operator_runs_a_schedule_now_and_its_next_time_stays(world: World) -> None:
    report = Schedule("report", "30 2 * * *", "build", {"a": 1}, queue="mail", key="one", tick_as="at", ordered=True)
    next_at = world.run(schedules.plan(report))
    world.run(schedules.plan(Schedule("other", "0 0 1 1 *", "other")))
    world.run(schedules.pause_schedule("report"))
    assert world.run(schedules.fire("report")), "also while it is paused"
    assert world.run(schedules.fire("report")), "each click is a row"
    assert not world.run(schedules.fire("nobody"))
    sent = world.sql("SELECT kind, queue, partition_key, ordered, payload ->> 'a', payload ->> 'at' FROM live")
    assert [row[:5] for row in sent] == [("build", "mail", "one", True, "1")] * 2
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row[5]) for row in sent)
    planned = kept(world)
    assert (planned.next_at, planned.last_at, planned.paused) == (next_at, None, True)
    world.run(schedules.fire("other"))
    assert world.sql("SELECT payload::text FROM live WHERE kind = 'other'") == [("{}",)]


def test_an_operators_tick_has_the_time_of_the_click_not_of_the_transaction(world: World) -> None:
    world.run(schedules.plan(Schedule("report", "30 2 * * *", "build", tick_as="at")))
    with world.conn.transaction():
        world.sql("SELECT pg_sleep(1.1)")
        world.run(schedules.fire("report"))
        assert world.sql("SELECT (payload ->> 'at')::timestamptz > now() FROM live") == [(True,)]


def test_a_paused_schedule_fires_nothing_until_it_is_resumed_and_then_by_its_policy(world: World) -> None:
    plan(world, name="other")
    plan(world)
    assert world.run(schedules.pause_schedule("report"))
    assert [due.name for due in come(world)] == ["other"]
    assert [fired.name for fired in fire(world).fired] == ["other"]
    assert plan(world, cron="*/5 * * * *").paused, "a deploy does not undo what an operator did"
    come(world)
    assert [fired.name for fired in fire(world).fired] == ["other"]
    assert world.run(schedules.pause_schedule("other"))
    assert world.run(schedules.resume_schedule("report"))
    come(world)
    (fired,) = fire(world).fired
    assert (fired.name, len(fired.rows)) == ("report", 1)
    assert kept(world, "other").paused


def test_an_unplanned_schedule_is_gone_and_its_rows_are_not(world: World) -> None:
    plan(world)
    plan(world, name="other")
    come(world)
    fire(world)
    assert world.run(schedules.unplan("report"))
    assert [each.name for each in world.run(schedules.schedules())] == ["other"]
    assert world.count("live") == 2


def test_a_schedule_nobody_planned_cannot_be_paused_resumed_or_removed(world: World) -> None:
    plan(world)
    for verb in (schedules.pause_schedule, schedules.resume_schedule, schedules.unplan):
        assert world.run(verb("nobody")) is False
    assert kept(world).paused is False


def test_what_is_not_yet_due_is_left_alone(world: World) -> None:
    plan(world, cron="@yearly")
    world.sql("UPDATE schedules SET next_at = clock_timestamp() + interval '1 minute'")
    assert fire(world) == Round([], {})


def test_due_schedules_come_page_by_page(world: World) -> None:
    for name in ("c", "a", "b"):
        plan(world, name=name)
    come(world)
    first = world.run(schedules.due_schedules(n=2))
    assert [due.name for due in first] == ["a", "b"]
    assert [due.name for due in world.run(schedules.due_schedules(after="b", n=2))] == ["c"]
    assert all(due.next_at == NOON < due.at for due in first)


def test_a_long_transaction_sees_what_came_due_since_it_began(world: World) -> None:
    plan(world)
    other = world.connect()
    with world.conn.transaction():
        ((begun,),) = world.sql("SELECT clock_timestamp()")
        other.execute("UPDATE schedules SET next_at = clock_timestamp()")
        (due,) = world.run(schedules.due_schedules())
    assert begun < due.next_at <= due.at


def test_changes_in_a_long_transaction_carry_the_time_of_the_change(world: World) -> None:
    pause, resume = schedules.pause_schedule("report"), schedules.resume_schedule("report")
    changes: list[Statement[Any]] = [schedules.plan(HOURLY), pause, resume]
    plan(world)
    for change in changes:
        with world.conn.transaction():
            ((begun,),) = world.sql("SELECT clock_timestamp()")
            world.run(change)
        assert kept(world).updated_at >= begun


def test_a_policy_nobody_knows_is_refused_by_the_table_too(world: World) -> None:
    plan(world)
    with pytest.raises(psycopg.errors.CheckViolation):
        world.sql("UPDATE schedules SET misfire = 'maybe'")
    with pytest.raises(psycopg.errors.UniqueViolation):
        world.sql("INSERT INTO schedules SELECT * FROM schedules")


# -- clocks that change


def ticks(cron: str, zone: str, start: str, n: int) -> list[str]:
    """The next n ticks, in UTC."""
    at, found = datetime.fromisoformat(start), []
    for _ in range(n):
        at = next_after(cron, zone, at)
        found.append(f"{at:%m-%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("zone", "cron", "start", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-10-23T12:00Z", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
        ("Europe/Berlin", "30 2 * * *", "2026-03-27T12:00Z", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("America/New_York", "30 1 * * *", "2026-10-30T12:00Z", ["10-31 05:30", "11-01 05:30", "11-02 06:30"]),
        ("America/New_York", "30 2 * * *", "2026-03-06T12:00Z", ["03-07 07:30", "03-08 07:00", "03-09 06:30"]),
        ("UTC", "30 2 * * *", "2026-10-23T12:00Z", ["10-24 02:30", "10-25 02:30", "10-26 02:30"]),
    ],
    ids=["Berlin in autumn", "Berlin in spring", "New York in autumn", "New York in spring", "UTC"],
)
def test_a_nightly_job_fires_once_each_night_also_when_the_clocks_change(
    zone: str, cron: str, start: str, expected: list[str]
) -> None:
    assert ticks(cron, zone, start, 3) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "first"),
    [("Europe/Berlin", "30 2 * * *", "2026-10-25T00:30Z"), ("America/New_York", "30 1 * * *", "2026-11-01T05:30Z")],
)
def test_within_the_hour_that_comes_twice_the_next_tick_is_never_one_that_has_passed(
    zone: str, cron: str, first: str
) -> None:
    passed = datetime.fromisoformat(first)
    tomorrow = passed + timedelta(hours=25)
    for minutes in range(0, 25 * 60, 5):
        assert next_after(cron, zone, passed + minutes * MINUTE) == tomorrow
    due = Due("report", cron, zone, "once", passed, passed + 40 * MINUTE)
    assert ticks_due(due) == ([passed], tomorrow)


def test_two_times_that_the_spring_night_leaves_out_fire_as_one() -> None:
    assert ticks("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", 2) == ["03-29 01:00", "03-30 00:00"]
    due = Due("r", "0,30 2 * * *", "Europe/Berlin", "all", datetime(2026, 3, 29, 1, tzinfo=UTC), NOON)
    assert len(set(ticks_due(due)[0])) == len(ticks_due(due)[0])


def test_an_hourly_job_follows_the_clock_on_the_wall() -> None:
    night = ["10-24 23:00", "10-25 00:00", "10-25 01:00", "10-25 02:00"]
    assert ticks("0 * * * *", "Europe/Berlin", "2026-10-24T22:30Z", 4) == night
    assert ticks("@hourly", "Europe/Berlin", "2026-10-24T22:30Z", 4) == night


def test_seconds_are_a_sixth_field_in_front() -> None:
    assert next_after("*/20 * * * * *", "UTC", NOON) == NOON + timedelta(seconds=20)
    assert next_after("30 * * * * *", "Europe/Berlin", NOON) == NOON + timedelta(seconds=30)


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("@hourly", "2026-06-03T13:00Z"),
        ("@daily", "2026-06-04T00:00Z"),
        ("@Weekly ", "2026-06-07T00:00Z"),
        ("@monthly", "2026-07-01T00:00Z"),
        ("@yearly", "2027-01-01T00:00Z"),
    ],
)
def test_the_usual_names_are_understood(alias: str, expected: str) -> None:
    assert next_after(alias, "UTC", datetime(2026, 6, 3, 12, tzinfo=UTC)) == datetime.fromisoformat(expected)


def test_a_tick_is_later_than_the_question_whatever_its_microseconds() -> None:
    for microseconds in (1, 500_000, 999_999):
        assert next_after("* * * * *", "UTC", NOON - timedelta(microseconds=microseconds)) == NOON
        assert next_after("* * * * *", "UTC", NOON + timedelta(microseconds=microseconds)) == NOON + MINUTE


# -- bad input


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"cron": "61 * * * *"},
            r"cron='61 \* \* \* \*' cannot be read \(Bad minute\): write it like '30 2",
        ),
        ({"cron": "* * * *"}, r"cannot be read \(Wrong number of fields\)"),
        ({"cron": ""}, "cron='' cannot be read"),
        ({"cron": "@reboot"}, "cron='@reboot' cannot be read"),
        ({"cron": "0 0 30 2 *"}, r"cannot be read \(Bad day-of-month\)"),
        ({"cron": "0 0 * 2 MON#5,TUE#5 *"}, "cannot be read"),
        (
            {"cron": "0 30 2 * * *"},
            "with seconds, a fixed time of day would be skipped in spring and run twice",
        ),
        ({"cron": "9" * 5000 + " * * * *"}, "cannot be read"),
        ({"cron": None}, r"cron=None cannot be read \(not text\)"),
        (
            {"zone": "Mars/Olympus"},
            "zone='Mars/Olympus' is not known here: write it like 'Europe/Berlin', or",
        ),
        ({"zone": "Europe"}, "zone='Europe' is not known here"),
        ({"zone": "../../etc/passwd"}, "is not known here"),
        ({"zone": ""}, "zone='' is not known here"),
        ({"zone": "x" * 5000}, "is not known here"),
        ({"zone": None}, "zone=None is not known here"),
        ({"misfire": "maybe"}, "misfire='maybe' must be once, skip or all"),
        ({"payload": [1], "tick_as": "at"}, r"tick_as='at' adds a field to the payload \[1\]: make that an object"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_schedule_that_could_not_fire_is_refused_in_one_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadSettings, match=sentence):
        dataclasses.replace(HOURLY, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 129},
        {"kind": ""},
        {"queue": ""},
        {"key": ""},
        {"priority": 101},
        {"max_attempts": 0},
        {"ordered": True},
        {"payload": {"f": print}},
        {"tick_as": ""},
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_a_schedule_whose_rows_the_inbox_would_refuse_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayload):
        dataclasses.replace(HOURLY, **wrong)


def test_a_cron_that_never_comes_is_refused() -> None:
    with pytest.raises(BadSettings, match="names no day within fifty years: correct its day, month or weekday"):
        dataclasses.replace(HOURLY, cron="0 0 */30 * MON#2")  # the 1st or 31st, and then the second Monday


def test_utc_needs_no_time_zones_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "ZoneInfo", lambda name: pytest.fail(f"asked for {name}"))
    assert next_after("0 13 * * *", "UTC", NOON) == NOON + HOUR
