"""What a new user does around `job.fenced()`: a connection that is not there yet, an error after the block."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from crew import working
from tenure import Fail, Inbox, Job, Retry
from tenure.app.fence import fenced
from tenure.app.job import Job as MadeJob
from tenure.events import JobCompleted, JobRetried, RaisedAfterCompletion
from tenure.telemetry.log import Log
from world import World

pytestmark = pytest.mark.one_server


# -- a connection that is None: Django has none before its first query


def test_a_fence_on_none_is_refused_before_any_write(world: World) -> None:
    """It was read as "not given": the fence opened a connection of its own, and the writes committed outside it."""
    world.enqueue()
    claimed = world.claim_one("A")
    job: Any = MadeJob(claimed, schema=world.schema)
    with pytest.raises(TypeError, match=r"fenced\(None\).*not open yet.*job\.fenced\(\)"):
        job.fenced(None)
    nothing: Any = None
    with pytest.raises(TypeError, match=r"fenced\(None\)"):
        fenced(nothing, claimed, schema=world.schema)
    assert world.status(claimed.id) == "processing"


def test_a_handler_that_gives_none_is_tried_again_and_wrote_nothing(world: World) -> None:
    world.sql("CREATE TABLE receipts (n int)")
    inbox = Inbox()

    @inbox.handler("receipt", backoff=lambda _: 3600)
    def receipt(job: Job) -> None:
        theirs = world.connect()
        nothing: Any = None
        with job.fenced(nothing):
            theirs.execute("INSERT INTO receipts VALUES (1)")
            raise ValueError("out of ink")

    with working(world, inbox) as hired:
        id = world.enqueue("receipt")
        (retried,) = hired.saw(JobRetried)
    assert "fenced(None)" in retried.error
    assert world.sql("SELECT n FROM receipts") == []
    assert world.status(id) == "pending"


# -- an error after the block


async def on_loop(job: Job) -> Any:
    async with job.fenced():
        pass
    raise ValueError("the printer burns")


def in_thread(job: Job) -> Any:
    with job.fenced():
        pass
    raise ValueError("the printer burns")


@pytest.mark.parametrize("handler", [on_loop, in_thread])
def test_an_error_after_the_fenced_block_is_told_although_the_row_is_completed(world: World, handler: Any) -> None:
    inbox, lines = Inbox(), io.StringIO()
    inbox.handler("receipt", queue="mail")(handler)
    with working(world, inbox) as hired:
        hired.worker.bus.subscribe(Log(lines, as_json=True))
        id = world.enqueue("receipt", queue="mail")
        (told,) = hired.saw(RaisedAfterCompletion)
        hired.saw(JobCompleted)
    assert (told.job_id, told.kind, told.queue, told.token) == (id, "receipt", "mail", 1)
    assert "the printer burns" in told.error
    assert "Traceback" in told.error
    assert re.fullmatch(rf".*test_after_fenced\.py:\d+ {handler.__name__}", told.where)
    assert (world.status(id), world.row(id).attempts) == ("completed", 1)
    (line,) = [line for line in map(json.loads, lines.getvalue().splitlines()) if line["event"] == told.name]
    assert line["level"] == "error"
    assert not hired.of(JobRetried)


@pytest.mark.parametrize(("outcome", "said"), [(Fail("no ink"), "Fail"), (Retry("later"), "Retry")])
def test_an_outcome_after_the_fenced_block_that_cannot_be_is_told(world: World, outcome: Any, said: str) -> None:
    inbox = Inbox()

    @inbox.handler("receipt")
    def receipt(job: Job) -> Any:
        with job.fenced():
            pass
        return outcome

    with working(world, inbox) as hired:
        id = world.enqueue("receipt")
        (told,) = hired.saw(RaisedAfterCompletion)
    assert (told.error, told.where) == (f"{said}: {outcome.error}", "")
    assert world.status(id) == "completed"


def test_a_handler_that_ends_well_after_its_fenced_block_is_not_told(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("receipt")
    def receipt(job: Job) -> None:
        with job.fenced():
            pass

    with working(world, inbox) as hired:
        world.enqueue("receipt")
        hired.saw(JobCompleted)
    assert not hired.of(RaisedAfterCompletion)
