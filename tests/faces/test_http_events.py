"""The stream of events: ticks for everybody, the fleet's events with resume, and an end when the server's comes."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, cast

import pytest

from chaos.pgbouncer import PROGRAM, pgbouncer
from crew import eventually, working
from faces.web_tools import Stream, served
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.drills.stage.proxy import FaultProxy
from tenure.events import JobDeadLettered
from tenure.web import feed as feeding
from tenure.web.store import Store
from world import World

pytestmark = pytest.mark.one_server


def an_inbox() -> Inbox:
    """Handlers that end in different ways."""
    inbox = Inbox()

    @inbox.handler("good")
    async def good(job: Job) -> None: ...

    @inbox.handler("bad", max_attempts=1)
    async def bad(job: Job) -> None:
        raise OSError("no route")

    return inbox


def _dead(stream: Stream) -> list[dict[str, Any]]:
    return [event for event in stream.of("fleet") if event["data"]["event"] == "job_dead_lettered"]


async def never() -> bool:
    """Nobody is refused."""
    return False


def listeners(world: World) -> int:
    """How many sessions listen for the web of this test: those of the test before it may not have ended yet."""
    query = """
      SELECT count(*) FROM pg_stat_activity AS a, pg_stat_activity AS ours
      WHERE ours.pid = pg_backend_pid() AND a.backend_start > ours.backend_start
        AND a.application_name = 'tenure serve events'
    """
    return int(world.sql(query)[0][0])


def test_every_tab_gets_ticks_with_the_numbers_of_the_overview(world: World) -> None:
    world.enqueue()
    with served(world) as web:
        one, two = Stream(web), Stream(web)
        for stream in (one, two):
            (tick, *_) = stream.saw("tick")
            assert tick["data"]["runnable"] == {"n": 1, "more": False}
            assert tick["data"]["fence"]["seconds"] == 3600
        world.enqueue()
        eventually(lambda: one.of("tick")[-1]["data"]["runnable"]["n"] == 2)


def test_what_happens_in_the_fleet_reaches_every_tab_over_one_connection(world: World) -> None:
    with served(world) as web, working(world, an_inbox()):
        one, two = Stream(web), Stream(web)
        eventually(lambda: listeners(world) == 1)
        one.saw("tick")
        id = world.enqueue("bad", max_attempts=1)
        for stream in (one, two):
            dead = eventually(partial(_dead, stream))
            assert dead[0]["data"]["job_id"] == str(id)
            assert re.fullmatch(r"[0-9a-f]{8}-\d+", dead[0]["id"])
        assert listeners(world) == 1


def test_nobody_listens_to_the_database_when_no_tab_is_open(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "LINGER_SECONDS", 0.0)
    with served(world) as web:
        assert listeners(world) == 0
        stream = Stream(web)
        stream.saw("tick")
        eventually(lambda: listeners(world) == 1)
        stream.close()
        eventually(lambda: listeners(world) == 0)


def test_a_tab_that_comes_back_gets_what_it_missed_and_nothing_twice(world: World) -> None:
    with served(world) as web, working(world, an_inbox()):
        stays, leaves = Stream(web), Stream(web)
        eventually(lambda: listeners(world) == 1)
        stays.saw("tick")
        world.enqueue("bad", max_attempts=1)
        leaves.saw("fleet")
        leaves.close()
        last = stays.saw("fleet")[-1]["id"]
        n = len(stays.of("fleet"))
        world.enqueue("bad", max_attempts=1)
        stays.saw("fleet", n + 2)
        back = Stream(web, last)
        later = [event["id"] for event in stays.of("fleet")[n:]]
        assert [event["id"] for event in back.saw("fleet", len(later))][: len(later)] == later
        assert not back.of("reset")


@pytest.mark.parametrize("last", ["00000000-5", "nonsense", "-", "abc-" + "9" * 40])
def test_a_tab_that_comes_back_too_late_is_told_to_fetch_anew(world: World, last: str) -> None:
    with served(world) as web:
        stream = Stream(web, last)
        assert stream.saw("reset")
        stream.saw("tick")
        assert len(stream.of("reset")) == 1


def test_more_events_than_are_kept_are_a_reset_not_a_hole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "KEPT_MAX", 2)
    with served(world) as web, working(world, an_inbox()):
        stream = Stream(web)
        eventually(lambda: listeners(world) == 1)
        first = stream.saw("tick")[0]["id"]
        for _ in range(3):
            world.enqueue("bad", max_attempts=1)
        eventually(lambda: int(stream.events[-1].get("id", "x-0").split("-")[1]) >= 3)
        back = Stream(web, first)
        assert back.saw("reset")


def test_while_the_database_is_away_streams_stay_open_and_afterwards_are_told_to_fetch_anew(world: World) -> None:
    with FaultProxy(world.url) as proxy, served(world, url=proxy.url) as web:
        stream = Stream(web)
        stream.saw("tick")
        eventually(lambda: listeners(world) == 1)
        proxy.refuse()
        proxy.cut()
        eventually(lambda: "error" in stream.of("tick")[-1]["data"])
        assert stream.of("tick")[-1]["data"]["away"] is True
        assert stream.saw("reset")
        proxy.heal()
        eventually(lambda: "runnable" in stream.of("tick")[-1]["data"])
        assert not stream.ended.is_set()


def test_a_database_that_answers_with_an_error_is_not_said_to_be_away(world: World) -> None:
    with served(world) as web:
        stream = Stream(web)
        stream.saw("tick")
        world.sql("ALTER TABLE live RENAME TO lively")
        eventually(lambda: stream.of("tick")[-1]["data"].get("away") is False)
        assert "tenure migrate" in stream.of("tick")[-1]["data"]["error"]


@pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed (tools/pgbouncer)")
def test_through_a_pooler_there_are_ticks_but_no_events_and_every_page_is_answered(world: World) -> None:
    with pgbouncer(world.url) as url, served(world, url=url) as web, working(world, an_inbox()) as hired:
        stream = Stream(web)
        stream.saw("tick")
        world.enqueue("bad", max_attempts=1)
        hired.saw(JobDeadLettered)
        stream.saw("tick", len(stream.of("tick")) + 2)
        assert not stream.of("fleet")
        assert not stream.of("reset")
        for path in ("overview", "rows", "queues", "workers", "ring", "dead", "audit"):
            assert web.get(f"/api/{path}").status_code == 200, path
        assert web.post("/api/queues/default/pause").status_code == 200


# -- who hears


def test_the_fleet_is_asked_only_for_tabs_that_want_to_hear_it(world: World) -> None:
    with served(world) as web, working(world, an_inbox()) as hired:
        quiet = Stream(web, fleet=False)
        quiet.saw("tick")
        world.enqueue("bad", max_attempts=1)
        hired.saw(JobDeadLettered)
        quiet.saw("tick", len(quiet.of("tick")) + 1)
        assert (listeners(world), quiet.of("fleet"), quiet.of("reset")) == (0, [], [])
        Stream(web).saw("tick")
        eventually(lambda: listeners(world) == 1)


class SlowToLeave:
    """A store whose listener takes its time to end, as one does behind a slow network."""

    schema = "nobody"

    def __init__(self) -> None:
        self.listened = 0

    async def listen(self) -> Any:
        self.listened += 1
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)


def test_a_tab_that_opens_while_the_ear_is_ending_is_heard_and_ticks_outlive_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeding, "TICK_SECONDS", 0.01)
    ticks = iter([ZeroDivisionError("a bug")])

    async def tick() -> dict[str, int]:
        for error in ticks:
            raise error
        return {"n": 1}

    async def story() -> None:
        store = SlowToLeave()
        feed = feeding.Feed(cast("Store", store), tick)
        first, second = (feed.open(None, never, fleet=True) for _ in range(2))
        while b"ZeroDivisionError" not in await anext(first):
            pass
        assert store.listened == 1
        assert feed._ear is not None
        feed._ear.cancel()
        await asyncio.sleep(0)
        await anext(second)
        while store.listened < 2 or b'{"n":1}' not in await anext(second):
            await asyncio.sleep(0.01)
        feed.close()
        await feed.aclose()

    asyncio.run(asyncio.wait_for(story(), 90))
