"""The end of a stage over HTTP: its limits, a server that stops, and who may act on one."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

import tenure.web
import warm
from crew import eventually
from faces.serving import serving
from faces.stage_tools import Log, alive, did, opened, pids, schemas
from faces.test_http_access import ADMIN, OPERATE, READ, bearer, door
from faces.web_tools import CHANGING, SHOWN, served
from patience import soon
from tenure.drills import host as hosting
from tenure.errors import BadSettings
from tenure.web.access import Open
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def before(world: World) -> set[str]:
    """The throw-away schemas that are there before the test."""
    return schemas(world)


# -- limits and ends


def test_two_stages_at_once_and_the_third_when_one_is_closed(world: World) -> None:
    with served(world, drills=True) as web:
        one, two = opened(web), opened(web)
        refused = web.post("/api/stage", json={})
        assert (refused.status_code, "2 stages" in refused.json()["error"]) == (409, True)
        assert web.delete(one).status_code == 204
        assert web.get(one).status_code == 404
        assert web.delete(one).status_code == 404
        assert opened(web) != two


def test_a_closed_stage_leaves_no_process_and_no_schema_and_two_lines_in_the_audit(
    world: World, before: set[str]
) -> None:
    with served(world, drills=True) as web:
        stage = opened(web)
        for verb in ("start", "start"):
            did(web, stage, verb)
        did(web, stage, "pause", worker="worker-A")
        found = pids(web, stage)
        schema = web.get(stage).json()["schema"]
        assert (len(found), all(map(alive, found)), schema in schemas(world)) == (2, True, True)
        assert web.delete(stage).status_code == 204
        assert (any(map(alive, found)), schemas(world) - before) == (False, set())
        lines = web.get("/api/audit").json()["audit"]
        assert [(line["verb"], line["target"], line["actor"]) for line in lines] == [
            ("close_stage", schema, "token"),
            ("open_stage", schema, "token"),
        ]


@pytest.mark.parametrize(("limit", "reason"), [("IDLE_SECONDS", "idle"), ("LIFE_SECONDS", "time")])
def test_a_stage_that_nobody_uses_or_that_is_old_ends_by_itself(
    world: World, before: set[str], monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    with served(world, drills=True) as web:
        stage = opened(web)
        log = Log(web, stage)
        did(web, stage, "start")
        (pid,) = pids(web, stage)
        monkeypatch.setattr(hosting, limit, 0.1)
        assert log.heard("stage_closed")["reason"] == reason
        assert log.ended.wait(90)
        assert (alive(pid), schemas(world) - before) == (False, set())
        assert web.get(stage).status_code == 404


def test_a_drill_that_plays_is_not_idle_and_is_ended_all_the_same_when_asked(
    world: World, before: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "IDLE_SECONDS", 0.0)
    with served(world, drills=True) as web:
        stage = opened(web, drill="receipt", pace_seconds=5)
        log = Log(web, stage)
        log.heard("step", step=1)
        began = time.monotonic()
        assert web.get(stage).json()["playing"]
        assert web.delete(stage).status_code == 204
        assert time.monotonic() - began < soon(3)
        assert log.ended.wait(90)
        assert (log.said[-1]["reason"], schemas(world) - before) == ("asked", set())
        assert not [said for said in log.said if said["event"] == "verdict"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_server_that_is_told_to_stop_leaves_no_process_and_no_schema(
    world: World, before: set[str], number: int
) -> None:
    with serving(world, "--port", "0", "--drills") as server, guest(server.address) as web:
        stage = opened(web)
        did(web, stage, "start")
        did(web, stage, "start")
        did(web, stage, "pause", worker="worker-A")
        opened(web, drill="receipt", pace_seconds=5)
        log = Log(web, stage)
        log.heard("worker_paused")
        found = pids(web, stage)
        assert (len(found), len(schemas(world) - before)) == (2, 2)
        code, seconds, said = server.end(number)
        assert (code, said) == (0, "")
        assert seconds < soon(4)
        assert (any(map(alive, found)), schemas(world) - before) == (False, set())
        assert log.ended.wait(90)


def test_the_processes_of_a_server_that_is_killed_die_with_it(world: World, before: set[str]) -> None:
    with serving(world, "--port", "0", "--drills") as server, guest(server.address) as web:
        stage = opened(web)
        did(web, stage, "start")
        did(web, stage, "pause", worker="worker-A")
        (pid,) = pids(web, stage)
        server.end(signal.SIGKILL)
        eventually(lambda: not alive(pid))
    for schema in schemas(world) - before:  # nobody was left to remove it
        world.sql(f"DROP SCHEMA {schema} CASCADE")


@contextmanager
def guest(address: str) -> Iterator[httpx.Client]:
    """A client of a server in another process."""
    with httpx.Client(base_url=address, headers=CHANGING | SHOWN, timeout=120) as web:
        yield web


# -- who may


def test_acting_on_a_stage_needs_admin_looking_at_it_read(world: World, before: set[str]) -> None:
    with served(world, drills=True, access=door()) as web:
        for token in (READ, OPERATE):
            assert web.get("/api/drills", headers=bearer(token)).status_code == 200
            assert web.post("/api/stage", json={}, headers=bearer(token)).status_code == 403
        web.headers.update(bearer(ADMIN))
        stage = opened(web)
        assert web.get(stage, headers=bearer(READ)).status_code == 200
        assert web.post(f"{stage}/do", json={"verb": "start"}, headers=bearer(OPERATE)).status_code == 403
        assert web.delete(stage, headers=bearer(READ)).status_code == 403
        assert did(web, stage, "enqueue").status_code == 200
    with served(world, drills=True, read_only=True) as web:
        assert web.post("/api/stage", json={}).status_code == 403
        assert schemas(world) <= before


def test_guests_of_other_machines_and_proxies_are_refused_whatever_they_show(world: World, before: set[str]) -> None:
    app = tenure.web.app(database_url=world.url, schema=world.schema, access=door(), drills=True)
    for client, headers, expected in (
        ("127.0.0.1", {}, 200),
        ("192.0.2.7", {}, 403),
        ("127.0.0.1", {"x-forwarded-for": "192.0.2.7"}, 403),
    ):
        shown = {**CHANGING, **bearer(ADMIN), **headers}
        assert asyncio.run(asked_from(client, app, "GET", "/api/drills", shown)) == expected
        if expected == 403:
            assert asyncio.run(asked_from(client, app, "POST", "/api/stage", shown)) == 403
    assert schemas(world) <= before


async def asked_from(client: str, app: Any, method: str, path: str, headers: dict[str, str]) -> int:
    """How the app answers somebody at this address."""
    transport = httpx.ASGITransport(app, client=(client, 50000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as web:
        return (await web.request(method, path, json={} if method == "POST" else None)).status_code


@pytest.mark.parametrize(
    ("options", "env", "said"),
    [
        (["--host", "0.0.0.0"], {"TENURE_WEB_TOKEN": "t" * 20}, "this machine only"),
        (["--host", "0.0.0.0", "--insecure"], {}, "this machine only"),
        (["--insecure"], {}, "--insecure lets everybody in"),
        ([], {"TENURE_DRILLS": "forbid"}, "forbidden here by TENURE_DRILLS"),
        ([], {"TENURE_DRILLS": "maybe"}, "must be allow or forbid"),
    ],
)
def test_where_drills_may_not_be_the_server_does_not_start(
    world: World, options: list[str], env: dict[str, str], said: str
) -> None:
    where = {"TENURE_DATABASE_URL": world.url, "TENURE_SCHEMA": world.schema}
    ended = warm.run("serve", "--port", "0", "--drills", *options, env={**os.environ, **where, **env})
    assert (ended.returncode, ended.stderr.count("\n"), said in ended.stderr) == (78, 1, True), ended.stderr


def test_an_app_with_drills_is_not_made_where_they_are_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_DRILLS", "forbid")
    with pytest.raises(BadSettings, match="forbidden"):
        tenure.web.app(database_url="postgresql://nobody@127.0.0.1/x", access=door(), drills=True)
    assert tenure.web.app(database_url="postgresql://nobody@127.0.0.1/x", access=door())


@pytest.mark.parametrize("access", [tenure.web.local, Open(any_host=True)])
def test_an_app_that_lets_everybody_in_plays_no_drills(access: Open) -> None:
    with pytest.raises(BadSettings, match="set TENURE_WEB_TOKEN"):
        tenure.web.app(database_url="postgresql://nobody@127.0.0.1/x", access=access, drills=True)
