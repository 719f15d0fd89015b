"""Rows whose time no calendar has, written by hand, break neither a worker nor anybody who reads."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from crew import eventually, working
from house.test_sql_files import SAMPLES
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import JobCompleted, LeaseAcquired
from tenure.model.filter import Filter
from tenure.verbs import history, questions, queues, search
from tenure.verbs.statement import Statement
from world import World

READERS = ("questions.", "search.", "history.", "why.", "doctor.", "capacity.", "queues.queues", "schedules.")
TIMES = ("infinity", "-infinity", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC")
_MAKE = (
    "INSERT INTO live (kind, payload, queue, partition_key, ordered, available_at)"
    " SELECT 'work', '{}', queue, key, key IS NOT NULL, %s"
    " FROM (VALUES ('default', NULL), ('default', 'k' || %s), ('limited', NULL), ('limited', 'k' || %s))"
    " AS v (queue, key) RETURNING id, available_at < clock_timestamp()"
)


def make(world: World) -> dict[UUID, bool]:
    """Rows of every time, unordered and ordered, with limits and without; whether each is due."""
    world.run(queues.limit("limited", max_running=9))
    with world.unguarded():
        return {id: due for time in TIMES for id, due in world.sql(_MAKE, time, time, time)}


def _readers(id: UUID) -> list[Statement[Any]]:
    found = [each for name, made in SAMPLES.items() if name.startswith(READERS) for each in made]
    kept = [each for each in found if isinstance(each, Statement) and "id" not in each.params]
    return [
        *kept,
        questions.row(id),
        questions.why(id),
        questions.tape(id),
        search.first_sent(id),
        history.refusals(id),
    ]


def test_every_question_is_answered(world: World) -> None:
    first, *others = make(world)
    asked = [*_readers(first), *(questions.why(id) for id in others)]
    assert {question.name: told for question in asked if (told := _trouble(world, question))} == {}
    lags = [*world.run(questions.queue_lags()).values(), *world.run(questions.oldest_runnable()).values()]
    lags.append(world.run(search.overview()).oldest_runnable_seconds or 0.0)
    assert all(1e9 < lag < 1e12 for lag in lags), lags


def _trouble(world: World, question: Statement[Any]) -> str:
    try:
        world.run(question)
    except psycopg.Error as error:
        return str(error)
    return ""


def test_a_time_that_no_calendar_has_is_read_as_the_first_or_the_last_one(world: World) -> None:
    make(world)
    page = world.run(search.page(Filter(), n=100))
    assert {row.available_at for row in page.rows} == {
        datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
    }  # fmt: skip


@pytest.mark.one_server
def test_a_worker_does_what_is_due_and_leaves_the_rest(world: World) -> None:
    due = {id for id, is_due in make(world).items() if is_due}
    inbox, seen = Inbox(), []

    @inbox.handler("work")
    def work(job: Job) -> None:
        seen.append((job.id, job.claimed.available_at.year))

    with working(world, inbox, queues={"default": 1.0, "limited": 1.0}, poll_seconds=0.2) as hired:
        eventually(lambda: {id for id, _ in seen} == due)
        later = world.enqueue("work")
        eventually(lambda: world.status(later) == "completed")
        assert {event.job_id for event in hired.saw(JobCompleted, len(due) + 1)} == due | {later}
        assert all(math.isfinite(event.wait_seconds) for event in hired.of(LeaseAcquired))
        assert hired.stop() == 0
    assert {year for id, year in seen if id in due} == {1}
    assert {world.status(id) for id in due} == {"completed"}
    assert world.sql("SELECT sum(acquired)::int FROM tally") == [(len(due) + 1,)]
    assert world.sql("SELECT count(*)::int FROM live WHERE status = 'pending'") == [(len(due),)]
