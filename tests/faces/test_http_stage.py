"""The stage over HTTP: drills on real processes, for guests of this machine, and nothing left of them afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from crew import eventually
from faces.stage_tools import Log, alive, did, opened, pids
from faces.web_tools import served
from tenure.drills.scenes.book import BOOK
from tenure.drills.stage import record
from tenure.drills.stage.said import Said
from tenure.web.routes import ROUTES
from tenure.web.stage import ROUTES as STAGE_ROUTES
from world import World, new_world

pytestmark = pytest.mark.one_server

NOWHERE = "00000000"


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
