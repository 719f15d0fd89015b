"""A rolling restart with another list of inboxes: old and new workers run side by side, and each tick is fired once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crew import Process, eventually, processes
from guarantees.test_schedule_homes import fired, planned
from tenure.model.rows import Worker
from tenure.verbs.fleet import leave, register
from tenure.verbs.schedules import Schedule, pause_schedule, plan
from tenure.worker.config import Terms
from tenure.worker.homes import Homes, home_of
from tenure.worker.lists import Lists
from tenure.worker.places import Places
from world import World

pytestmark = pytest.mark.one_server

NAMES = [f"s{n}" for n in range(6)]
AT_C = [name for name in NAMES if home_of(f"schedule:{name}", "abc") == "c"]
APP = """from tenure import Cron, Inbox

inbox = Inbox()


@inbox.handler("ticked")
def ticked(of: str) -> None: ...


for n in range(6):
    inbox.schedule(f"s{n}", Cron("* * * * * *", misfire="all"), ticked, of=f"s{n}")
"""
WITHOUT_THE_GUARD = """
from tenure.worker.homes import Homes

Homes.tend = lambda *_, **__: ""
Homes._may_fire_beyond = lambda *_: False
"""
SECOND = timedelta(seconds=1)


def started(trio: dict[str, World], names: str, folder: Path, text: str = APP) -> Process:
    """A worker process with this list."""
    (folder / "ticks.py").write_text(text)
    shards = ",".join(f"{name}={trio[name].url}" for name in names)
    options = ("--shards", shards, "--poll-seconds", "0.3")
    return Process(trio["a"], f"{folder / 'ticks.py'}:inbox", folder, *options)


def ticks(trio: dict[str, World]) -> Counter[tuple[str, datetime]]:
    """How often each tick was fired, in all inboxes together."""
    return Counter(tick for world in trio.values() for tick in fired(world))


def here(world: World) -> set[str]:
    """The schedules that fire in this inbox."""
    return {name for name, each in planned(world).items() if not each.rests}


def goes_on(trio: dict[str, World], names: list[str]) -> None:
    """Until each of these has fired three ticks from now on."""
    now = datetime.now(UTC)
    eventually(lambda: all(sum(1 for of, tick in ticks(trio) if of == name and tick > now) > 2 for name in names))


def single_and_whole(trio: dict[str, World]) -> None:
    """No tick was fired twice, and none between the first and the last was missed."""
    found = ticks(trio)
    assert [tick for tick, n in found.items() if n > 1] == []
    for name in NAMES:
        times = sorted(tick for of, tick in found if of == name)
        assert times == [times[0] + n * SECOND for n in range(len(times))]


def test_an_inbox_leaves_the_list_in_a_rolling_restart_and_each_tick_is_fired_once(
    trio: dict[str, World], tmp_path: Path
) -> None:
    old = started(trio, "abc", tmp_path)
    with processes(old):
        goes_on(trio, NAMES)
        assert here(trio["c"]) == set(AT_C)
        new = started(trio, "ab", tmp_path)
        with processes(new):
            eventually(lambda: not here(trio["c"]))
            goes_on(trio, NAMES)
            assert here(trio["a"]) | here(trio["b"]) == set(NAMES)
            assert old.end() == 0
            goes_on(trio, NAMES)
            again = started(trio, "abc", tmp_path)  # it comes back to the list
            with processes(again):
                eventually(lambda: here(trio["c"]) == set(AT_C))
                goes_on(trio, NAMES)
    single_and_whole(trio)


def test_control_without_the_guard_ticks_are_fired_twice(trio: dict[str, World], tmp_path: Path) -> None:
    old = started(trio, "abc", tmp_path, APP + WITHOUT_THE_GUARD)
    with processes(old):
        goes_on(trio, NAMES)
        with processes(started(trio, "ab", tmp_path, APP + WITHOUT_THE_GUARD)):
            eventually(lambda: max(ticks(trio).values()) > 1)


def test_one_inbox_takes_the_place_of_another(trio: dict[str, World], tmp_path: Path) -> None:
    """The old worker does not serve the new home: it gives its schedules to an inbox that both serve."""
    old = started(trio, "ac", tmp_path)
    with processes(old):
        goes_on(trio, NAMES)
        with processes(started(trio, "ab", tmp_path)):
            eventually(lambda: here(trio["b"]) == {n for n in NAMES if home_of(f"schedule:{n}", "ab") == "b"})
            eventually(lambda: not here(trio["c"]))
            goes_on(trio, NAMES)
            assert old.end() == 0
            goes_on(trio, NAMES)
    single_and_whole(trio)


def test_a_new_list_begins_when_the_last_worker_of_the_old_one_is_gone(trio: dict[str, World], tmp_path: Path) -> None:
    """Killed, it gives nothing up: its schedules begin elsewhere once nobody can fire them there."""
    old = started(trio, "abc", tmp_path)
    with processes(old):
        goes_on(trio, NAMES)
        old.end(9)
        with processes(started(trio, "ab", tmp_path)):
            goes_on(trio, NAMES)
            assert here(trio["a"]) | here(trio["b"]) == set(NAMES)
    assert max(ticks(trio).values()) == 1


def told_of(trio: dict[str, World], inboxes: str) -> None:
    """A worker with this list is alive in the first of them."""
    trio["a"].run(register("old@a", {"inboxes": list(inboxes)}))


def homes_of(trio: dict[str, World], *names: str, inboxes: str = "ab") -> Homes:
    """What a worker of these inboxes knows of these schedules, when it has begun in all of them."""
    places = Places({name: trio[name].url for name in inboxes}, "tenure")
    made = {name: Schedule(name, "* * * * * *", "ticked", misfire="all") for name in names}
    found = Homes(made, Terms(shards=places.urls), places)
    for inbox in inboxes:
        with places.others(inbox) as others:
            found.plan_in(trio[inbox].conn, inbox, others)
    return found


def alone(trio: dict[str, World], found: Homes, *turns: str) -> list[str]:
    """The old worker is gone, and these inboxes have their turn one after the other: what each has begun."""
    trio["a"].run(leave("old@a"))
    for inbox in turns:
        found.saw(inbox, [])
    return [found.tend(trio[inbox].conn, inbox) for inbox in turns]


def test_an_inbox_that_lacks_nothing_does_not_keep_another_from_what_it_awaits(trio: dict[str, World]) -> None:
    name = next(each for each in AT_C if home_of(f"schedule:{each}", "ab") == "b")
    told_of(trio, "abc")
    found = homes_of(trio, name)
    assert not here(trio["b"]), "a living worker may fire it in c"
    assert alone(trio, found, "a", "b") == ["", name]
    assert here(trio["b"]) == {name}


def test_what_was_awaited_begins_after_all_that_the_old_worker_can_have_fired(trio: dict[str, World]) -> None:
    """Another worker had the turns since: it would have known that the old one was still alive."""
    told_of(trio, "abc")
    found = homes_of(trio, AT_C[0])
    found._awaited[AT_C[0]] -= timedelta(hours=1)
    now = datetime.now(UTC)
    alone(trio, found, "a", "b")
    (begun,) = (each for name in "ab" for each in planned(trio[name]).values())
    assert begun.next_at > now - timedelta(seconds=Terms().grace_seconds)


def test_a_list_of_one_inbox_awaits_what_the_old_workers_may_fire_too(trio: dict[str, World]) -> None:
    name = next(each for each in NAMES if home_of(f"schedule:{each}", "ab") == "b")
    told_of(trio, "ab")
    found = homes_of(trio, name, inboxes="a")
    assert not here(trio["a"]), "a living worker may fire it in b"
    assert alone(trio, found, "a") == [name]


def test_one_that_is_paused_elsewhere_is_looked_for_once_and_not_told_as_begun(
    trio: dict[str, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(each for each in AT_C if home_of(f"schedule:{each}", "ab") == "b")
    trio["a"].run(plan(Schedule(name, "* * * * * *", "ticked")))
    trio["a"].run(pause_schedule(name))
    told_of(trio, "abc")
    found = homes_of(trio, name)
    monkeypatch.setattr(Places, "others", lambda *_: pytest.fail("it is not looked for again"))
    assert alone(trio, found, "a", "b", "b") == ["", "", ""]


def test_of_two_inboxes_one_is_left_and_each_tick_is_fired_once(trio: dict[str, World], tmp_path: Path) -> None:
    old = started(trio, "ab", tmp_path)
    with processes(old):
        goes_on(trio, NAMES)
        with processes(started(trio, "a", tmp_path)):
            eventually(lambda: here(trio["a"]) == set(NAMES))
            goes_on(trio, NAMES)
            assert not here(trio["b"])
            assert old.end() == 0
            goes_on(trio, NAMES)
    single_and_whole(trio)


def worker_of(*inboxes: str, minutes: int, schedules: list[str] | None = None) -> Worker:
    """One that was started so many minutes past noon."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    told = {"inboxes": list(inboxes), "schedules": schedules}
    return Worker("w", "alive", noon, noon + timedelta(minutes=minutes), told)


def test_the_newest_list_is_that_of_the_worker_that_started_last() -> None:
    lists = Lists()
    assert lists.newest("ab", "s") == {"a", "b"}
    lists.saw("a", [worker_of("a", "b", "c", minutes=1), worker_of("a", "b", minutes=2)])
    lists.saw("c", [worker_of("a", "b", "c", minutes=1)])
    assert lists.newest("abc", "s") == {"a", "b"}
    assert not lists.beyond("abc", ["s"])
    assert lists.beyond("ab", ["s"]) == {frozenset("abc")}
    told_nothing = worker_of(minutes=9)._replace(metadata={})
    lists.saw("b", [worker_of("a", "b", "c", minutes=3), told_nothing])
    assert lists.newest("ab", "s") == set("abc")


def test_a_worker_without_a_schedule_has_no_say_about_it() -> None:
    lists = Lists()
    lists.saw("a", [worker_of("a", "b", minutes=1, schedules=["s"]), worker_of("a", "c", minutes=2, schedules=["t"])])
    assert (lists.newest("ab", "s"), lists.newest("ab", "t")) == (frozenset("ab"), frozenset("ac"))
    assert lists.beyond("ab", ["s"]) == set()
    assert lists.beyond("ab", ["s", "t"]) == {frozenset("ac")}


@pytest.mark.parametrize("first", ["ab", "ac"])
def test_two_services_that_share_an_inbox_leave_each_other_their_schedules(
    trio: dict[str, World], tmp_path: Path, first: str
) -> None:
    """Whichever starts last: its list is not that of the other."""
    services = {"ab": tmp_path / "shop", "ac": tmp_path / "mail"}
    for folder in services.values():
        folder.mkdir()
    (last,) = set(services) - {first}
    other = APP.replace('f"s{n}"', 'f"m{n}"')
    begun = {names: started(trio, names, folder, APP if names == "ab" else other) for names, folder in services.items()}
    with processes(begun[first]):
        goes_on(trio, NAMES if first == "ab" else [f"m{n}" for n in range(6)])
        with processes(begun[last]):
            goes_on(trio, [*NAMES, *(f"m{n}" for n in range(6))])
            homes = {name: home_of(f"schedule:{name}", "ab") for name in NAMES}
            homes |= {f"m{n}": home_of(f"schedule:m{n}", "ac") for n in range(6)}
            assert {name: inbox for inbox in "abc" for name in here(trio[inbox])} == homes
    assert max(ticks(trio).values()) == 1
