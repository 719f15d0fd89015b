"""A slow or silent database and large rows: every wait of the web has an end, and nobody waits for somebody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import threading
import time
from typing import Any

import httpx
import pytest

import tenure.web
from crew import eventually
from faces.serving import serving
from faces.web_tools import CHANGING, SHOWN, running, served
from patience import soon
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import TenureError
from tenure.verbs import queues, search
from tenure.web import answers, export
from tenure.web import store as storing
from tenure.web.http_errors import Refused
from tenure.web.store import Store
from world import World

pytestmark = pytest.mark.one_server


def many(web: httpx.Client, path: str, n: int) -> list[httpx.Response]:
    """So many answers to the same question, asked at once."""
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(web.get(path))) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    return answers


def test_a_database_that_falls_silent_is_503_in_seconds_however_many_connections_were_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "PING_SECONDS", 0.3)
    with FaultProxy(world.url) as proxy:
        app = tenure.web.app(database_url=proxy.url, schema=world.schema, access=tenure.web.local)
        with running(app) as address, httpx.Client(base_url=address, timeout=120) as web:
            proxy.delay(0.05)
            many(web, "/api/overview", 6)
            assert app.state.site.store.open > 2
            proxy.delay(0.0)
            proxy.drop_replies()
            began = time.monotonic()
            assert web.get("/api/queues").status_code == 503
            assert time.monotonic() - began < 0.3 + storing.SILENCE_SECONDS + soon(3)
            assert app.state.site.store.open == 0


def test_ctrl_c_while_the_database_is_silent_ends_at_once_and_what_was_asked_is_not_done_afterwards(
    world: World,
) -> None:
    world.enqueue()
    with FaultProxy(world.url) as proxy, serving(world, "--port", "0", TENURE_DATABASE_URL=proxy.url) as server:
        assert (
            httpx.post(f"{server.address}/api/queues/mail/pause", headers=CHANGING | SHOWN, timeout=120).status_code
            == 200
        )
        assert httpx.get(f"{server.address}/api/queues", headers=SHOWN, timeout=120).status_code == 200
        kept = list(proxy._pairs)
        proxy.drop_replies()
        path = f"{server.address}/api/queues/default/pause"
        asking = [
            threading.Thread(target=_ignored, args=[how, where], daemon=True)
            for how, where in (("POST", path), ("GET", f"{server.address}/api/queues"))
        ]
        for thread in asking:
            thread.start()
        eventually(lambda: set(proxy._pairs) - set(kept))  # the kept one did not answer: another is tried
        code, seconds, _ = server.end(signal.SIGINT)
        proxy.heal()
        for thread in asking:
            thread.join(90)
        assert (code, seconds < soon(2.0)) == (0, True), seconds
    assert not [queue for queue in world.run(queues.queues()) if queue.queue == "default" and queue.paused]


def test_ctrl_c_does_not_wait_for_an_answer_that_never_comes(world: World) -> None:
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure serve' AND wait_event_type = 'Lock'"
    )
    locking = world.connect()
    with FaultProxy(world.url) as proxy, serving(world, "--port", "0", TENURE_DATABASE_URL=proxy.url) as server:
        with locking.transaction():
            locking.execute("LOCK TABLE live IN ACCESS EXCLUSIVE MODE")
            asking = threading.Thread(target=_ignored, args=["GET", f"{server.address}/api/rows"], daemon=True)
            asking.start()
            eventually(lambda: world.sql(waiting) == [(1,)])
            proxy.drop_replies()
            code, seconds, _ = server.end(signal.SIGINT)
        proxy.heal()
        asking.join(90)
        assert (code, seconds < soon(2.0)) == (0, True), seconds


def _ignored(method: str, path: str) -> None:
    with contextlib.suppress(httpx.HTTPError):
        httpx.request(method, path, headers=CHANGING | SHOWN, timeout=120)


def test_a_change_that_waited_until_the_server_stopped_is_refused_and_one_under_way_is_broken_off(
    world: World,
) -> None:
    done: list[str] = []

    async def story() -> None:
        store = Store(world.url, world.schema)
        sleeping = asyncio.ensure_future(store.blocking(lambda conn: conn.execute("SELECT pg_sleep(30)")))
        while not store._busy:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        began = time.monotonic()
        store.close()
        with pytest.raises(Exception, match="cancel"):
            await sleeping
        assert time.monotonic() - began < soon(5)
        with pytest.raises(Refused, match="about to stop"):
            await store.blocking(lambda _conn: done.append("late"))
        assert store.open == 0
        await store.aclose()

    asyncio.run(story())
    assert done == []


@pytest.mark.parametrize("kind", list(storing.PERMITS))
def test_whoever_is_many_keeps_out_only_their_own_kind_and_is_told_so(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: storing.Permits
) -> None:
    world.enqueue("k")
    monkeypatch.setitem(storing.PERMITS, kind, 0)
    monkeypatch.setattr(storing, "SLOT_SECONDS", 0.05)
    act = {"verb": "cancel", "filter": "kind:k"}
    with served(world) as web:
        answers = {
            "read": web.get("/api/queues"),
            "probe": web.get("/health/ready"),
            "change": web.post("/api/rows", json={"kind": "other"}),
            "count": web.post("/api/actions", json=act),
            "action": web.post("/api/actions", json={**act, "dry_run": False, "expect": 1}),
            "metrics": web.get("/metrics"),
        }
    refused = [name for name, answer in answers.items() if answer.status_code == 503]
    assert refused == [kind], {name: answer.text[:200] for name, answer in answers.items()}
    assert "try again" in answers[kind].json()["error"]


def test_metrics_that_were_just_counted_need_no_database(world: World) -> None:
    with FaultProxy(world.url) as proxy, served(world, url=proxy.url) as web:
        first = web.get("/metrics").text
        proxy.refuse()
        proxy.cut()
        assert (first, web.get("/metrics").text) == (first, first)
        assert web.get("/api/queues").status_code == 503


def test_a_refusal_costs_no_connection(world: World) -> None:
    async def story() -> None:
        store = Store(world.url, world.schema)
        for error in (Refused(404, "no"), TenureError("no")):
            with pytest.raises(type(error)):
                async with store.reading():
                    raise error
            with pytest.raises(type(error)):
                await store.blocking(lambda _conn, error=error: _raise(error))  # type: ignore[misc]
        assert store.open == 2
        with pytest.raises(Exception, match="syntax"):
            await store.blocking(lambda conn: (conn.execute("BEGIN"), conn.execute("nonsense")))
        assert store.open == 1
        await store.aclose()

    asyncio.run(story())


def _raise(error: Exception) -> None:
    raise error


# -- exports


def test_an_export_fetches_as_many_rows_at_once_as_their_size_lets_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE_BYTES", 50_000)
    asked: list[int] = []
    page = search.page

    def watched(*given: Any, n: int, **rest: Any) -> Any:
        asked.append(n)
        return page(*given, n=n, **rest)

    monkeypatch.setattr(search, "page", watched)
    for size in [10] * 60 + [20_000] * 20:
        world.enqueue(payload={"text": "x" * size})
    with served(world) as web:
        lines = web.get("/api/rows/export").text.splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == 80
    assert asked[:2] == [export.ROWS_FIRST, 2]  # the newest are large
    assert export.ROWS_FIRST < max(asked) <= export.ROWS_MAX


def test_the_head_of_an_export_asks_nothing_and_a_stop_breaks_it_off_with_a_word(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "ROWS_FIRST", 1)
    for _ in range(3):
        world.enqueue()
    app = tenure.web.app(database_url=world.url, schema=world.schema, access=tenure.web.local)
    site = app.state.site
    with running(app) as address:
        head = httpx.head(f"{address}/api/rows/export?format=csv")
        assert (head.status_code, site.store.open) == (200, 0)
        assert head.headers["content-type"].startswith("text/csv")
        shape = answers.row_shape

        def last(*given: Any, **rest: Any) -> Any:
            site.close()
            return shape(*given, **rest)

        monkeypatch.setattr(export, "row_shape", last)
        lines = httpx.get(f"{address}/api/rows/export", timeout=120).text.splitlines()
        assert len(lines) == 2
        assert "is incomplete" in json.loads(lines[1])["error"]


def test_ctrl_c_does_not_wait_for_whoever_reads_an_export_slowly(world: World) -> None:
    for _ in range(8):
        world.enqueue(payload={"text": "x" * 900_000})
    with (
        serving(world, "--port", "0") as server,
        httpx.stream("GET", f"{server.address}/api/rows/export", headers=SHOWN, timeout=120) as slow,
    ):
        next(slow.iter_raw(1))
        code, seconds, _ = server.end(signal.SIGINT)
        assert (code, seconds < soon(2.0)) == (0, True), seconds
