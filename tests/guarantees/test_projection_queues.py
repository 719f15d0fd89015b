"""Projections of two services in one schema: each has a queue of its own, and no worker takes the rows of another."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from crew import eventually, working
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import JobReleased
from tenure.model.journal import Event, NewEvent
from tenure.model.rows import Lane
from tenure.shapes.projection import Journal
from tenure.verbs.journal import append
from tenure.verbs.projections import plan_projection, shard_state
from tenure.verbs.rebuild import ask_rebuild
from tenure.worker.turned_away import FORGOTTEN_SECONDS, ROWS_MAX, TurnedAway
from world import World


def service(world: World, name: str, **how: Any) -> Inbox:
    """An application with one projection."""
    journal = Journal(inbox := Inbox(schema=world.schema))

    @journal.projection(name, **how)
    def apply(tx: psycopg.Connection[Any], event: Event) -> None: ...

    return inbox


def position(world: World, name: str) -> int:
    state = world.run(shard_state(name, 0))
    return state.position if state else -1


def test_a_worker_takes_no_shard_of_another_service(world: World) -> None:
    world.run(plan_projection("theirs", shards=3, like=None))
    read = world.run(append("order:1", [NewEvent("order.paid")])).position
    with working(world, service(world, "ours")) as hired:
        eventually(lambda: position(world, "ours") == read)
        assert not hired.of(JobReleased)
    untouched = world.sql("SELECT status, lease_generation, last_error FROM live WHERE kind = 'projection:theirs'")
    assert untouched == [("pending", 0, None)] * 3


def test_rows_in_another_queue_come_to_that_of_their_projection_when_its_worker_starts(world: World) -> None:
    for name in ("p", "q"):
        world.run(plan_projection(name, shards=2, like=None, queue="projections"))
    world.run(ask_rebuild("p"))
    held = world.claim_one("A", lanes=[Lane("projections")])
    world.run(plan_projection("p", shards=2, like=None))
    world.release(held.lease)
    queues = {(kind, queue) for kind, queue in world.sql("SELECT kind, queue FROM live")}
    assert queues == {
        ("projection:p", "projection:p"),
        ("rebuild:p", "projection:p"),
        ("projection:q", "projections"),
    }
    read = world.run(append("order:1", [NewEvent("order.paid")])).position
    with working(world, service(world, "p", queue="mine")):
        eventually(lambda: position(world, "p") == read)
        assert world.sql("SELECT DISTINCT queue FROM live WHERE kind = 'projection:p'") == [("mine",)]


@pytest.mark.one_server
def test_a_row_that_is_turned_away_for_the_first_time_waits_ten_seconds_however_often_it_was_held(world: World) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("known")
    async def known(job: Job) -> None: ...

    row = world.enqueue("of another service")
    world.sql("UPDATE live SET lease_generation = 9 WHERE id = %s", row)
    with working(world, inbox) as hired:
        hired.saw(JobReleased)
    ((waits, ended),) = world.sql(
        "SELECT date_part('epoch', i.available_at - a.ended_at), a.outcome"
        " FROM live AS i JOIN attempts AS a ON a.row_id = i.id"
    )
    assert ended == "released"
    assert 5 < waits < 11


@pytest.mark.one_server
def test_the_delay_doubles_with_each_time_and_begins_anew_after_a_long_hold_by_another() -> None:
    now = [0.0]
    turned_away = TurnedAway(lambda: now[0])
    row = uuid4()
    assert [turned_away.later(row, "no").seconds for _ in range(8)] == [10, 20, 40, 80, 160, 320, 600, 600]
    assert turned_away.later(uuid4(), "no", 0.5).seconds == 0.5
    now[0] += FORGOTTEN_SECONDS
    assert turned_away.later(row, "no").seconds == 10
    for _ in range(ROWS_MAX):
        turned_away.later(uuid4(), "no")
    assert turned_away.later(row, "no").seconds == 10, "of more rows than that the longest ago is forgotten"
