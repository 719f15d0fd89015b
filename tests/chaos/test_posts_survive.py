"""One worker at two servers: one of them is killed and started again under load; the other does not notice."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from chaos.own_server import own_server
from crew import eventually
from pairs import Pair, both_ready, databases, serving
from tenure import postgres
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import DatabaseBack, DatabaseUnreachable, LeaseLost
from tenure.postgres import migrate
from world import World

pytestmark = pytest.mark.one_server


def fill(world: World, n: int) -> None:
    """So many rows."""
    world.sql("SELECT enqueue('short', '{}'::jsonb) FROM generate_series(1, %s)", n)


def done(world: World) -> int:
    """How many rows are completed."""
    return world.count("archive")


@pytest.mark.parametrize("way", ["killed"])
def test_a_server_is_killed_under_load_and_only_its_own_rows_wait(server_url: str, tmp_path: Path, way: str) -> None:
    inbox = Inbox()

    @inbox.handler("short")
    async def short(job: Job) -> None:
        await asyncio.sleep(0.02)

    with databases(server_url) as (url, _), own_server(tmp_path / "b") as server:
        with postgres.connect(server.url) as conn:
            migrate.apply(conn, "tenure")
        pair = Pair(World(url, "tenure"), World(server.url, "tenure"))
        for world in pair:
            fill(world, 200)
        with serving(pair, inbox, slots=4) as hired:
            both_ready(hired)
            eventually(lambda: min(done(world) for world in pair) > 10)
            pair.b.close()
            server.end(way)
            fill(pair.a, 100)
            eventually(lambda: done(pair.a) == 300)
            assert all(event.worker.endswith("@b") for event in hired.saw(DatabaseUnreachable))
            server.start()
            again = World(server.url, "tenure")
            fill(again, 20)
            eventually(lambda: done(again) == 220)
            assert {event.worker[-2:] for event in hired.saw(DatabaseBack)} == {"@b"}
        assert [event for event in hired.of(LeaseLost) if event.worker.endswith("@a")] == []
        assert Counter(n for (n,) in pair.a.sql("SELECT attempts FROM archive")) == {1: 300}
        assert [world.count("live") for world in (pair.a, again)] == [0, 0]
        for world in (pair.a, again):
            world.close()
