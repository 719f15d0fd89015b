"""Doctor names what is full while rows wait: a rule over what was measured, and fleets that force its answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from crew import eventually, working
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.doctor import Finding, bottleneck, examine
from tenure.doctor.bottleneck import Fleet
from tenure.model.rows import NewRow
from tenure.verbs import enqueue_many
from tenure.verbs.questions import Member
from tenure.worker.cpu import CpuShare
from world import World

CALM = Fleet(due_seconds=10.0, slots=40, slots_used=20, cpu_share=0.3, doing={"resting": 0.8, "cpu": 0.2})


@pytest.mark.parametrize(
    ("fleet", "name", "words"),
    [
        (replace(CALM, due_seconds=0.5, slots_used=40), None, "no row waits; 40 of 40 slots were used"),
        (replace(CALM, cpu_share=0.97, slots_used=40), "worker CPU", "used 97% of a core"),
        (replace(CALM, slots_used=36), "handlers", "36 of 40 slots are used"),
        (replace(CALM, doing={"lock": 0.3, "resting": 0.7}), "locks", "waited for locks 30% of the time"),
        (replace(CALM, doing={"wal": 0.4, "cpu": 0.6}), "WAL", "waited for the WAL 40% of the time"),
        (replace(CALM, doing={"cpu": 0.4, "other": 0.2, "resting": 0.4}), "server CPU", "60% of the time"),
        (replace(CALM, doing={"hidden": 1.0}), "not seen", "what the sessions do is hidden"),
        (CALM, "round trips", "no slot, process or session is full"),
        (replace(CALM, doing={}), "round trips", "waited 10 s"),
    ],
)
def test_the_rule_names_what_is_full(fleet: Fleet, name: str | None, words: str) -> None:
    found = bottleneck.bottleneck(fleet)
    assert found.value["bottleneck"] == name
    assert words in found.said
    assert (found.level, bool(found.next)) == ("ok", name is not None)


def test_rows_that_wait_for_minutes_make_it_a_warning() -> None:
    assert bottleneck.bottleneck(replace(CALM, due_seconds=400.0)).level == "warn"


@pytest.mark.parametrize("odd", ["many", None, -1, float("nan"), float("inf"), [1], {"slots": 1}])
def test_a_worker_may_say_anything_of_itself(odd: Any) -> None:
    facts = dict.fromkeys(("slots", "slots_used", "cpu_share"), odd)
    one = Member("w", "alive", 1.0, 1.0, present=True, metadata=facts)
    fleet = bottleneck.measured(10.0, [one], [])
    assert (fleet.slots, fleet.slots_used, fleet.cpu_share) == (0, 0, 0.0)
    assert bottleneck.bottleneck(fleet).value["bottleneck"] == "round trips"


def test_the_share_of_a_core_is_that_since_it_was_asked_last() -> None:
    share = CpuShare()
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert share() > 0.02  # on a machine with load 15, a twentieth of a core is much
    time.sleep(0.5)
    assert share() < 0.5


# -- live fleets


def asked(world: World, until: Callable[[Finding], bool]) -> Finding:
    """The finding, as soon as it is as it should be: a worker tells of itself with each heartbeat."""
    last: list[Finding] = []

    def look() -> bool:
        last.append({each.check: each for each in examine(world.url, world.schema, {})}["bottleneck"])
        return until(last[-1])

    eventually(look)
    return last[-1]


@pytest.mark.one_server
def test_slots_that_are_all_used_are_named(world: World) -> None:
    inbox, over = Inbox(), threading.Event()

    @inbox.handler("wait")
    def wait(job: Job) -> None:
        over.wait(60)

    world.run(enqueue_many([NewRow("wait") for _ in range(20)]))
    with working(world, inbox, slots=2):
        try:
            found = asked(world, lambda found: found.value["bottleneck"] == "handlers")
        finally:
            over.set()
    assert "2 of 2 slots are used" in found.said
    assert found.next.startswith("raise --slots")


@pytest.mark.one_server
def test_sessions_that_wait_for_a_lock_are_named(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("nothing")
    async def nothing(job: Job) -> None: ...

    with working(world, inbox, slots=2), world.connect() as blocker:
        blocker.execute(f'BEGIN; LOCK TABLE "{world.schema}".claims IN SHARE MODE'.encode())
        world.run(enqueue_many([NewRow("nothing") for _ in range(20)]))
        found = asked(world, lambda found: found.value["bottleneck"] == "locks")
        blocker.execute("ROLLBACK")
        eventually(lambda: world.count("live") == 0)
    assert "waited for locks" in found.said


@pytest.mark.one_server
def test_with_no_row_that_waits_it_takes_no_time(world: World) -> None:
    began = time.monotonic()
    found = asked(world, lambda _: True)
    assert found.value["bottleneck"] is None
    assert time.monotonic() - began < 20
