"""The stage over HTTP: drills on real processes, for guests of this machine, and nothing left of them afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import tenure.web
from crew import eventually
from faces.test_http_access import ADMIN, OPERATE, READ, bearer, door
from faces.test_http_events import serving
from faces.web_tools import CHANGING, SHOWN, Stream, served
from patience import soon
from tenure.drills import host as hosting
from tenure.drills.scenes.book import BOOK
from tenure.drills.stage import record
from tenure.drills.stage.said import Said
from tenure.drills.stage.scene import perform
from tenure.errors import BadSettings
from tenure.web.access import Open
from tenure.web.app import ROUTES
from tenure.web.stage import ROUTES as STAGE_ROUTES
from world import World, new_world

pytestmark = pytest.mark.one_server

NOWHERE = "00000000"


def opened(web: httpx.Client, **plan: Any) -> str:
    """The path of a new stage."""
    answer = web.post("/api/stage", json=plan)
    assert answer.status_code == 201, answer.text
    return f"/api/stage/{answer.json()['id']}"


def did(web: httpx.Client, stage: str, verb: str, **fields: Any) -> httpx.Response:
    """What came of an act."""
    return web.post(f"{stage}/do", json={"verb": verb, **fields})


class Log(Stream):
    """Everything said on a stage."""

    def __init__(self, web: httpx.Client, stage: str, last_id: str | None = None) -> None:
        super().__init__(web, last_id, path=f"{stage}/events")

    @property
    def said(self) -> list[dict[str, Any]]:
        """What was said so far."""
        return [event["data"] for event in self.of("said")]

    def heard(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first thing of this name and with these fields, once it was said."""
        return eventually(lambda: self._first(event, fields))

    def _first(self, event: str, fields: dict[str, Any]) -> dict[str, Any]:
        """It, or nothing yet."""
        return next((each for each in self.said if each["event"] == event and fields.items() <= each.items()), {})


def schemas(world: World) -> set[str]:
    """The throw-away schemas that are there."""
    return {name for (name,) in world.sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenure\\_drill\\_%'")}


def alive(pid: int) -> bool:
    """True for a process that runs or is stopped; a zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def pids(web: httpx.Client, stage: str) -> list[int]:
    """The processes of a stage."""
    return [worker["pid"] for worker in web.get(stage).json()["picture"]["workers"]]


class Held:
    """A server with one empty stage, for many questions."""

    def __init__(self, web: httpx.Client) -> None:
        self.web, self.stage = web, opened(web)


@pytest.fixture(scope="module")
def kept(server_url: str) -> Iterator[Held]:
    """One server for all tests that need no other."""
    with new_world(server_url) as world, served(world, drills=True) as web:
        yield Held(web)


@pytest.fixture
def held(kept: Held) -> Held:
    """Its stage, a new one if a test of limits has ended it."""
    if kept.web.get(kept.stage).status_code == 404:
        kept.stage = opened(kept.web)
    return kept


@pytest.fixture
def before(world: World) -> set[str]:
    """The throw-away schemas that are there before the test."""
    return schemas(world)


# -- whether it is there


def test_without_drills_there_is_no_stage_and_nobody_hears_of_one(world: World) -> None:
    with served(world) as web:
        for route in STAGE_ROUTES:
            path = route.path.replace("{id}", NOWHERE).replace("{job_id}", NOWHERE)
            assert web.request(route.method, path, json={}).status_code == 404, route.path
        assert not [path for path in web.get("/api/openapi.json").json()["paths"] if "stage" in path or "drill" in path]
        me = web.get("/api/me").json()
        assert (me["drills"], "drill" in me["verbs"]) == (False, False)


def test_with_drills_its_routes_are_there_described_and_the_book_is_listed(world: World) -> None:
    with served(world, drills=True) as web:
        told = web.get("/api/openapi.json").json()["paths"]
        listed = {(method.upper(), path) for path, methods in told.items() for method in methods}
        assert listed == {(each.method, each.path.replace(":text}", "}")) for each in (*ROUTES, *STAGE_ROUTES)}
        me = web.get("/api/me").json()
        assert (me["drills"], "drill" in me["verbs"]) == (True, True)
        book = web.get("/api/drills").json()
        assert [drill["name"] for drill in book["drills"]] == list(BOOK)
        assert (book["workers_max"], book["idle_seconds"]) == (8, 300)
        for drill in book["drills"]:
            made = BOOK[drill["name"]]()
            assert drill["steps"] == [step.caption for step in made.scene.steps]
            assert (drill["control"] is None) == (made.control is None)
            assert drill["cli"] == f"tenure drill {drill['name']}"
            assert drill["settable"] == list(made.scene.settable)


# -- a stage


def test_a_guest_acts_on_an_empty_stage_and_sees_what_comes_of_it(world: World) -> None:
    with served(world, drills=True) as web:
        stage = opened(web, props={"lease_seconds": 2, "handler_seconds": 0.1})
        log = Log(web, stage)
        assert did(web, stage, "enqueue").json() == {"done": "enqueue"}
        assert did(web, stage, "start").status_code == 200
        written = log.heard("ledger_written", who="worker-A")
        log.heard("job_completed")
        seen = eventually(lambda: found if (found := web.get(stage).json())["picture"]["ledger"] else {})
        assert (seen["playing"], seen["drill"], seen["schema"]) == (False, None, f"tenure_drill_{seen['id']}")
        assert seen["picture"]["ledger"] == [{"order": 9182, "step": 0, "worker": "worker-A", "token": 1}]
        assert seen["picture"]["props"]["lease_seconds"] == 2
        (worker,) = seen["picture"]["workers"]
        assert (worker["name"], worker["role"], alive(worker["pid"])) == ("worker-A", "hand", True)
        row = web.get(f"{stage}/row/{written['job_id']}").json()
        assert row["row"]["status"] == "completed"
        assert [(held["worker"], held["token"], held["outcome"]) for held in row["tape"]] == [
            ("worker-A", 1, "completed")
        ]
        (shown,) = world.conn.execute(row["sql"].encode()).fetchall()
        assert str(shown[0]) == written["job_id"] == row["row"]["id"]
        assert web.get(f"{stage}/row/{world.enqueue()}").status_code == 404


def test_acts_reach_real_processes_and_pictures_say_so(world: World) -> None:
    with served(world, drills=True) as web:
        stage = opened(web)
        log = Log(web, stage)
        for verb in ("start", "start"):
            assert did(web, stage, verb).status_code == 200
        log.heard("worker_started", who="worker-B")
        one, two = pids(web, stage)
        assert did(web, stage, "pause", worker="worker-A").status_code == 200
        assert Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        assert did(web, stage, "kill", worker="worker-B").status_code == 200
        assert not alive(two)
        states = [worker["state"] for worker in web.get(stage).json()["picture"]["workers"]]
        assert states == ["paused", "gone"]
        assert did(web, stage, "resume", worker="worker-A").status_code == 200
        eventually(lambda: Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0] != "T")


@pytest.mark.parametrize(
    ("act", "named"),
    [
        ({"verb": "fly"}, "'fly'"),
        ({}, "verb"),
        ({"verb": "pause"}, "worker"),
        ({"verb": "pause", "worker": "worker-Z"}, "there is no worker-Z"),
        ({"verb": "pause", "worker": 1}, "$.worker"),
        ({"verb": "kill", "worker": "worker-A", "pid": 1}, "'pid'"),
        ({"verb": "set", "lease_seconds": 0.5}, "$.lease_seconds"),
        ({"verb": "orders", "n": 100000}, "$.n"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_that_names_it(held: Held, act: dict[str, Any], named: str) -> None:
    answer = held.web.post(f"{held.stage}/do", json=act)
    assert (answer.status_code, named in answer.json()["error"]) == (400, True), answer.text


@pytest.mark.parametrize(
    ("plan", "named"),
    [
        ({"drill": "crush"}, "'crush'"),
        ({"drill": "receipt", "control": True}, "no control"),
        ({"control": True}, "control"),
        ({"drill": "receipt", "explore": {}}, "one plan"),
        ({"explore": {"guard": "hope"}}, "$.explore.guard"),
        ({"tune": {"workers": 99}}, "$.tune.workers"),
        ({"pace_seconds": 60}, "$.pace_seconds"),
        ({"props": {"lease": 1}}, "'lease'"),
        ({"drill": "drain", "props": {"lease_seconds": 2}}, "lease_seconds cannot be set in drain"),
        ({"drill": "crash", "props": {"dedupe": False}}, "dedupe cannot be set in crash"),
        ({"explore": {}, "props": {"lease_seconds": 2}}, "lease_seconds cannot be set in explore"),
    ],
)
def test_a_plan_that_cannot_be_is_one_sentence_that_names_it(held: Held, plan: dict[str, Any], named: str) -> None:
    answer = held.web.post("/api/stage", json=plan)
    assert (answer.status_code, named in answer.json()["error"]) == (400, True), answer.text


def test_an_act_the_database_refuses_leaves_the_stage_as_good_as_before(held: Held) -> None:
    assert did(held.web, held.stage, "enqueue", order=7).status_code == 200
    answer = did(held.web, held.stage, "rollback", order=7)
    assert (answer.status_code, "rollback" in answer.json()["error"]) == (409, True)
    assert did(held.web, held.stage, "enqueue", order=8).status_code == 200


# -- what is played


@pytest.mark.parametrize(("name", "control"), [("receipt", False), ("lease-race", True)])
def test_a_drill_played_over_http_has_the_verdict_of_the_same_drill_played_alone(
    world: World, name: str, control: bool
) -> None:
    drill = BOOK[name]()
    scene = drill.control if control else drill.scene
    assert scene is not None
    with served(world, drills=True) as web:
        stage = opened(web, drill=name, control=control)
        log = Log(web, stage)
        assert did(web, stage, "start").status_code == 409
        alone = perform(world.url, scene, lambda _said: None)
        verdict = log.heard("verdict")
        assert verdict["ok"]
        for field in ("drill", "ok", "shown", "assertions"):
            assert verdict[field] == alone.fields()[field]
        assert [(each["name"], each["sentence"]) for each in verdict["checks"]] == [
            (check.name, check.sentence) for check in alone.checks
        ]
        steps = [(said["step"], said["of"], said["caption"]) for said in log.said if said["event"] == "step"]
        assert steps == [(n, len(scene.steps), step.caption) for n, step in enumerate(scene.steps, 1)]
        assert did(web, stage, "enqueue", order=1).status_code == 200  # the stage is its guest's now


def test_the_explorer_says_what_stopped_the_stale_write(world: World) -> None:
    with served(world, drills=True) as web:
        asked = {"lease_seconds": 0.3, "stall_seconds": 0.6}
        with_it, without = (Log(web, opened(web, explore={**asked, "guard": guard})) for guard in ("fence", "none"))
        verdict = with_it.heard("verdict")
        assert (verdict["ok"], verdict["stopped_by"]) == (True, "fence")
        assert verdict["explanation"].endswith(".")
        assert verdict["written"] == [{"worker": "worker-B", "token": 2}]
        assert without.heard("verdict")["stopped_by"] is None


def test_the_tuner_measures_and_names_what_held_it_up(world: World) -> None:
    with served(world, drills=True) as web:
        log = Log(web, opened(web, tune={"backlog": 20, "slots": 5, "handler_seconds": 0.01, "seconds": 10}))
        tuned = log.heard("tuned")
        assert (tuned["rows"], "trouble" in tuned) == (20, False)
        assert tuned["bottleneck"]
        assert tuned["explanation"].endswith(".")


# -- what is heard


def test_a_tab_that_comes_back_gets_what_it_missed_and_nothing_twice(world: World) -> None:
    with served(world, drills=True) as web:
        stage = opened(web, drill="receipt")
        stays = Log(web, stage)
        stays.heard("step", step=3)
        leaves = Log(web, stage)
        leaves.heard("step", step=3)
        leaves.close()
        eventually(leaves.ended.is_set)
        before = [event["id"] for event in leaves.of("said")]
        stays.heard("verdict")
        back = Log(web, stage, before[-1])
        back.heard("verdict")
        newcomer = Log(web, stage)
        newcomer.heard("verdict")
        assert web.delete(stage).status_code == 204
        for log in (stays, back, newcomer):
            assert log.ended.wait(90)
            assert log.said[-1]["event"] == "stage_closed"
        whole = stays.of("said")
        assert [event["id"] for event in whole] == [str(n) for n in range(1, len(whole) + 1)]
        assert newcomer.of("said") == whole
        assert before + [event["id"] for event in back.of("said")] == [event["id"] for event in whole]


@pytest.mark.parametrize("last", ["nonsense", "-1", "9" * 40])
def test_who_has_heard_nothing_of_this_stage_hears_all_of_it(held: Held, last: str) -> None:
    log = Log(held.web, held.stage, last)
    log.heard("schema_made")
    assert log.of("said")[0]["id"] == "1"
    log.close()


def test_a_long_log_loses_its_older_pictures_and_nothing_that_was_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "PICTURES_MAX", 4)
    with served(world, drills=True) as web:
        stage = opened(web)
        for order in range(1, 9):
            assert did(web, stage, "enqueue", order=order).status_code == 200
        log = Log(web, stage)
        log.heard("enqueued", order=8)
        assert [said["order"] for said in log.said if said["event"] == "enqueued"] == list(range(1, 9))
        pictures = [said for said in log.said if said["event"] == "picture"]
        assert len(pictures) <= 4
        eventually(lambda: len([each for each in log.said if each["event"] == "picture"][-1]["rows"]) == 8)


def test_of_a_log_without_pictures_the_oldest_part_goes() -> None:
    log = [record.Told(n, "picture" if n == 3 else "said", b"") for n in range(1, 101)]
    assert [told.n for told in record.shortened(log)] == list(range(11, 101))


def test_a_log_numbers_what_was_said_whatever_fields_that_has() -> None:
    log = record.Record()
    log.keep(Said(0.5, "shop", "counted", {"n": 9, "at": 9, "who": "nobody", "event": "other", "rows": 2}))
    (told,) = log.since(0)
    assert json.loads(told.line) == {"n": 1, "at": 0.5, "who": "shop", "event": "counted", "rows": 2}


def test_streams_have_a_limit(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.web.stage.STREAMS_MAX", 0)
    answer = held.web.get(f"{held.stage}/events")
    assert (answer.status_code, "close a tab" in answer.json()["error"]) == (503, True)


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
    ended = subprocess.run(
        [sys.executable, "-c", "from tenure.cli import main; main()", "serve", "--port", "0", "--drills", *options],
        env={**os.environ, "TENURE_DATABASE_URL": world.url, "TENURE_SCHEMA": world.schema, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
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
