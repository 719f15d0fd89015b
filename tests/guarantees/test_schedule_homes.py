"""Schedules where there are several inboxes: each has one home, fires there alone, and moves when there are others."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

import warm
from crew import eventually
from faces.test_inboxes import tenure
from pairs import Pair, both_ready, hired_at, serving
from tenure.app.clock_times import Cron
from tenure.app.inbox import Inbox
from tenure.cli import doctor, inbox_told, inboxes
from tenure.cli.database import Database
from tenure.doctor import examine
from tenure.drills.stage.proxy import FaultProxy
from tenure.verbs import schedules
from tenure.verbs.questions import waiting_of, workers
from tenure.verbs.schedules import RESTS_UNTIL, Planned
from tenure.verbs.statement import Statement
from tenure.worker import homes
from tenure.worker.config import Terms
from tenure.worker.homes import Homes, home_of
from tenure.worker.places import Places
from world import World

pytestmark = pytest.mark.one_server

DAILY = Cron("0 3 * * *")
NAMES = [f"s{n}" for n in range(6)]
AT_B = [name for name in NAMES if home_of(f"schedule:{name}", "ab") == "b"]


def scheduled(cron: Cron = DAILY) -> Inbox:
    """An inbox with some schedules, whose rows do nothing."""
    inbox = Inbox()

    @inbox.handler("ticked")
    def ticked(of: str) -> None: ...

    for name in NAMES:
        inbox.schedule(name, cron, ticked, of=name)
    return inbox


def planned(world: World) -> dict[str, Planned]:
    """What this inbox has of each schedule."""
    return {each.name: each for each in world.run(schedules.schedules())}


def plan_in(pair: Pair, here: str, *, places: str = "ab", **urls: str) -> None:
    """What a worker of these inboxes does in one of them when it begins."""
    every = {"a": pair.a.url, "b": pair.b.url, **urls}
    known = {name: every[name] for name in places}
    known_places = Places(known, "tenure")
    with known_places.others(here) as others:
        Homes(scheduled().schedules, Terms(shards=known), known_places).plan_in(getattr(pair, here).conn, here, others)


def fired(world: World) -> list[tuple[str, datetime]]:
    """The ticks that this inbox has enqueued."""
    keys = world.sql("SELECT key FROM idempotency WHERE key LIKE 'schedule:%'")
    return [(key.split(":")[1], datetime.fromisoformat(key.split(":", 2)[2])) for (key,) in keys]


def both_fired(pair: Pair, *, name: str) -> set[datetime]:
    """The ticks of one schedule that were fired in both inboxes, once each had time for some."""
    inbox = scheduled(Cron("* * * * * *"))
    with serving(pair, inbox) as hired:
        both_ready(hired)
        eventually(lambda: len({at for each in pair for of, at in fired(each) if of == name}) > 3)
    a, b = ({at for of, at in fired(world) if of == name} for world in pair)
    return a & b


def test_of_two_inboxes_one_fires_each_tick(pair: Pair) -> None:
    assert both_fired(pair, name=AT_B[0]) == set()
    assert AT_B[0] not in {name for name, _ in fired(pair.a)}


def test_control_planned_in_both_each_tick_fires_twice(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_both(plans: Homes, conn: object, here: str, others: object) -> None:
        plans._urls = {here: ""}
        plan_here(plans, conn, here, {})  # type: ignore[arg-type]

    plan_here = Homes.plan_in
    monkeypatch.setattr(Homes, "plan_in", in_both)
    monkeypatch.setattr(Homes, "tend", lambda *_, **__: "")
    assert both_fired(pair, name=AT_B[0])


def test_a_schedule_goes_to_its_new_home_with_its_next_tick_and_rests_in_the_old(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    overdue = datetime.now(UTC) - timedelta(hours=1)
    pair.a.sql("UPDATE schedules SET next_at = %s", overdue)
    plan_in(pair, "a")
    plan_in(pair, "b")
    a, b = map(planned, pair)
    assert {name for name, each in a.items() if each.rests} == set(b) == set(AT_B)
    assert {each.next_at for each in b.values()} == {overdue}
    assert a[AT_B[0]].next_at == RESTS_UNTIL
    assert not pair.a.run(schedules.fire(AT_B[0])), "nor does it fire by hand, where it rests"
    assert pair.b.run(schedules.fire(AT_B[0]))


def test_its_new_home_fetches_it_from_an_inbox_that_begins_later(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    plan_in(pair, "b")
    a, b = map(planned, pair)
    assert {name for name, each in a.items() if each.rests} == set(b) == set(AT_B)


def test_if_an_inbox_leaves_again_its_schedules_come_back_and_are_due_again(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    plan_in(pair, "a")
    plan_in(pair, "a", places="a")
    assert not any(each.rests for each in planned(pair.a).values())


def test_a_schedule_that_fires_while_it_is_moved_is_not_moved_with_a_tick_that_is_over(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    found = planned(pair.a)[AT_B[0]]
    pair.a.sql("UPDATE schedules SET next_at = next_at + interval '1 day'")
    assert not pair.a.run(schedules.rest(found))
    assert not planned(pair.a)[AT_B[0]].rests


@pytest.mark.parametrize("begins", ["a", "b"])
def test_one_that_fires_in_the_moment_of_its_move_fires_in_one_inbox_after_it(
    pair: Pair, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_in(pair, "a", places="a")
    plan_in(pair, "b", places="b")
    rest, fires = schedules.rest, dict.fromkeys(AT_B, "a") | {AT_B[0]: "b"}

    def rest_too_late(found: Planned) -> Statement[bool]:
        for world in filter(None, [getattr(pair, fires.pop(found.name, ""), None)]):
            world.sql("UPDATE schedules SET next_at = next_at + interval '1 day' WHERE name = %s", found.name)
        return rest(found)

    monkeypatch.setattr(homes, "rest", rest_too_late)
    plan_in(pair, begins)
    a, b = map(planned, pair)
    moved = [name for name in AT_B if name not in fires]
    assert moved == AT_B
    assert all(a[name].rests and not b[name].rests for name in moved)


def test_the_moment_that_it_rests_is_that_of_the_verb_and_not_of_its_transaction(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    with pair.a.conn.transaction():
        ((begun,),) = pair.a.sql("SELECT clock_timestamp()")
        assert pair.a.run(schedules.rest(planned(pair.a)[AT_B[0]]))
    assert pair.a.sql("SELECT updated_at > %s FROM schedules WHERE name = %s", begun, AT_B[0]) == [(True,)]


def test_while_its_new_home_is_away_it_stays_where_it_is(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    plan_in(pair, "a", b="postgresql://tenure@127.0.0.1:1/tenure")
    assert not any(each.rests for each in planned(pair.a).values())


def test_what_an_operator_paused_is_not_started_by_a_move(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    pair.a.run(schedules.pause_schedule(AT_B[0]))
    for here in "abab":
        plan_in(pair, here)
    assert AT_B[0] not in planned(pair.b)
    pair.a.run(schedules.resume_schedule(AT_B[0]))
    plan_in(pair, "b")
    assert planned(pair.a)[AT_B[0]].rests
    assert not planned(pair.b)[AT_B[0]].paused


def told(world: World) -> dict[str, str]:
    """The schedules that wait, as the workers of this inbox say."""
    alive = world.run(workers())
    return waiting_of(alive)


def test_while_its_home_is_away_a_schedule_waits_and_it_is_told_for_which_inbox(pair: Pair) -> None:
    with FaultProxy(pair.b.url) as proxy:
        proxy.refuse()
        terms = {"urls": {"b": proxy.url}, "heartbeat_seconds": 0.5}
        with serving(pair, scheduled(), **terms) as hired:  # type: ignore[arg-type]
            eventually(lambda: told(pair.a))
            assert set(planned(pair.a)) == set(NAMES) - set(AT_B)
            said = tenure(pair, "schedules", "--inbox", "eu").stderr
            assert f"{AT_B[0]} waits: its home is the inbox b, which does not answer its workers\n" in said
            (found,) = (each for each in examine(pair.a.url, "tenure") if each.check == "schedules")
            assert (found.level, found.value) == ("warn", dict.fromkeys(AT_B, "b"))
            proxy.heal()
            eventually(lambda: set(planned(pair.b)) == set(AT_B))
            eventually(lambda: not told(pair.a))
            both_ready(hired)
    (found,) = (each for each in examine(pair.a.url, "tenure") if each.check == "schedules")
    assert found.level == "ok"


def test_a_home_that_comes_back_does_not_fire_again_what_another_inbox_has_fired(pair: Pair) -> None:
    for here in "ab":
        plan_in(pair, here)
    fired_up_to, stale = datetime.now(UTC) + timedelta(hours=5), datetime.now(UTC) - timedelta(days=1)
    for begins in "ab":  # whichever inbox a worker begins with
        plan_in(pair, "a", places="a")  # `b` leaves the list, and nobody can reach it
        pair.a.sql("UPDATE schedules SET next_at = %s", fired_up_to)
        pair.b.sql("UPDATE schedules SET next_at = %s", stale)
        plan_in(pair, begins)
        assert {each.next_at for each in planned(pair.b).values()} == {fired_up_to}
        assert all(planned(pair.a)[name].rests for name in AT_B)


def test_a_home_that_is_ahead_of_an_inbox_that_came_back_goes_on_as_it_was(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    plan_in(pair, "b", places="b")
    ahead, stale = datetime.now(UTC) + timedelta(hours=5), datetime.now(UTC) - timedelta(days=1)
    pair.a.sql("UPDATE schedules SET next_at = %s", stale)
    pair.b.sql("UPDATE schedules SET next_at = %s", ahead)
    plan_in(pair, "a")
    assert {planned(pair.b)[name].next_at for name in AT_B} == {ahead}
    assert all(planned(pair.a)[name].rests for name in AT_B)


def test_the_list_says_where_it_rests(pair: Pair) -> None:
    plan_in(pair, "a", places="a")
    plan_in(pair, "a")
    lines = [line.split("\t") for line in tenure(pair, "schedules").stdout.splitlines()]
    assert {(name, inbox) for name, inbox, *_, coming, _ in lines if coming == "elsewhere"} == {
        (name, "eu") for name in AT_B
    }


def test_doctor_names_a_schedule_that_fires_in_two_inboxes(pair: Pair) -> None:
    for here in "ab":
        plan_in(pair, here, places=here)  # two lists that have no inbox in common
    told = "schedules fire here and in another inbox, so each tick comes twice: s0 in us"
    assert told in " ".join(tenure(pair, "doctor").stdout.split())
    plan_in(pair, "a")
    plan_in(pair, "b")
    assert "each tick comes twice" not in " ".join(tenure(pair, "doctor").stdout.split())


def test_doctor_does_not_say_of_an_inbox_that_is_away_that_nothing_fires_there(pair: Pair) -> None:
    plan_in(pair, "a")
    said = " ".join(tenure(pair, "doctor", b="postgresql://tenure@127.0.0.1:1/tenure").stdout.split())
    assert "not known whether schedules of this inbox fire in us too: no answer" in said
    assert "no schedule of this inbox fires in another one" not in said


def test_doctor_looks_into_the_other_nodes_of_a_citus_cluster(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for here in "ab":
        plan_in(pair, here, places=here)
    monkeypatch.setenv("TENURE_CITUS", "on")
    monkeypatch.setattr(inboxes, "nodes_of", lambda *_: {"1": pair.a.url, "2": pair.b.url})
    at = inbox_told.HERE.set("1")
    try:
        (found,) = doctor._twice(Database(pair.a.url, "tenure", "", ""))
    finally:
        inbox_told.HERE.reset(at)
    assert found.value == {name: ["2"] for name in NAMES}


def test_a_schedule_that_waits_is_told_once_for_all_inboxes(trio: dict[str, World]) -> None:
    away = "postgresql://tenure@127.0.0.1:1/tenure"
    shards = {"a": trio["a"].url, "b": trio["b"].url, "c": away}
    waits = {name for name in NAMES if home_of(f"schedule:{name}", "abc") == "c"}
    with hired_at(scheduled(), shards) as hired:
        eventually(lambda: all(set(told(trio[name])) == waits for name in "ab"))
        every = ",".join(f"{name}={url}" for name, url in shards.items())
        said = warm.run("schedules", env={**os.environ, "TENURE_SHARDS": every, "COLUMNS": "200"}).stderr
        assert [said.count(f"{name} waits: its home is the inbox c") for name in sorted(waits)] == [1] * len(waits)
        assert "a: " not in said.split("inboxes answer")[0]
        assert hired.stop() == 0


def test_it_is_told_at_once_that_an_inbox_is_away_and_back(pair: Pair) -> None:
    with FaultProxy(pair.b.url) as proxy:
        terms = {"urls": {"b": proxy.url}, "heartbeat_seconds": 3600.0, "ttl_seconds": 7200.0}
        with serving(pair, scheduled(), **terms) as hired:  # type: ignore[arg-type]
            both_ready(hired)
            proxy.refuse()
            proxy.cut()
            eventually(lambda: set(told(pair.a)) == set(AT_B))
            proxy.heal()
            eventually(lambda: not told(pair.a))


def test_on_citus_the_door_says_which_home_it_is(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def at_b(url: str, schema: str, keys: list[str]) -> dict[str, str]:
        asked.extend(keys)
        return dict.fromkeys(keys, "b")

    monkeypatch.setattr(homes, "homes", at_b)
    known = {"a": pair.a.url, "b": pair.b.url}
    plans = Homes(scheduled().schedules, Terms(shards=known, citus=pair.a.url), Places(known, "tenure"))
    for here, world in zip("ab", pair, strict=True):
        plans.plan_in(world.conn, here, {})
    assert [set(planned(world)) for world in pair] == [set(), set(NAMES)]
    assert asked[:1] == ["schedule:s0"]
