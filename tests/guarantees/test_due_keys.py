"""A key that can go on does so within the poll interval and a second, whatever other keys wait, full or not due."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crew import eventually, working
from patience import soon
from slices import slice_of
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.model.rows import NewRow
from tenure.verbs import queues
from world import World

pytestmark = pytest.mark.one_server
POLL_SECONDS = 1.0
MANY = slice_of([8_000, 100_000], [8_000])

_WAITING = """
INSERT INTO live (kind, payload, partition_key, ordered, available_at)
SELECT 'work', '{}', 'k' || k, true, clock_timestamp() + interval '1 hour' FROM generate_series(1, %s) AS k
"""


def _inbox() -> Inbox:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None:
        pass

    return inbox


def _starts(world: World, workers: int, **row: Any) -> None:
    """A row that falls due beside all the others, of which no note comes, is started by one of so many workers."""
    crew = [working(world, _inbox(), poll_seconds=POLL_SECONDS) for _ in range(workers)]
    for each in crew:
        each.__enter__()
    try:
        eventually(lambda: not world.sql("SELECT 1 FROM arrivals UNION ALL SELECT 1 FROM lane_arrivals LIMIT 1"))
        sent = world.enqueue("work", delay_seconds=2, **row)
        began = time.monotonic()
        eventually(
            lambda: world.sql("SELECT 1 FROM inbox WHERE id = %s AND status = 'completed'", sent),
            seconds=soon(2 + POLL_SECONDS + 10),
        )
        print(f"completed {time.monotonic() - began - 2:.2f} s after it was due")
    finally:
        for each in crew:
            each.__exit__(None, None, None)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("keys", MANY)
def test_an_ordered_key_falls_due_among_many_that_wait(world: World, keys: int, workers: int) -> None:
    world.sql(_WAITING, keys)
    _starts(world, workers, key="due", ordered=True)


def _full_keys(world: World, keys: int, rows: int, priority: int = 0) -> None:
    """Keys at their limit, each with so many older rows."""
    world.run(queues.limit("default", max_per_key=1))
    world.run(
        verbs.enqueue_many(
            [NewRow("work", key=f"full:{k}", priority=priority) for k in range(keys) for _ in range(rows + 1)]
        )
    )
    assert len(world.run(queues.claim_limited("somebody", keys, "default"))) == keys


@pytest.mark.parametrize("workers", [1, 2])
def test_a_free_key_starts_beside_three_thousand_full_ones(world: World, workers: int) -> None:
    _full_keys(world, 3_000, slice_of(10, 2))
    _starts(world, workers, key="free")


@pytest.mark.parametrize("key", ["free", None])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_row_starts_beside_full_keys_that_are_more_urgent(world: World, workers: int, key: str | None) -> None:
    _full_keys(world, 200, 10, priority=1)
    _starts(world, workers, key=key)


def test_many_rows_that_cannot_run_yet_do_not_cost_a_poll_each_ten_thousand(world: World) -> None:
    world.sql(_WAITING, 25_000)
    with working(world, _inbox(), poll_seconds=3600):
        sent = world.enqueue("work", key="due", ordered=True)
        eventually(lambda: world.sql("SELECT 1 FROM inbox WHERE id = %s AND status = 'completed'", sent))
