"""The HTTP API over several inboxes: one answer of all, with the name of each; who is away is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from crew import eventually
from faces.test_http_tokens import NOBODY, made, tenure
from faces.test_inboxes import NOWHERE, failed
from faces.test_inboxes import tenure as in_both
from faces.web_tools import Stream, said, served
from pairs import Pair
from patience import soon
from tenure.cli.serve import check_schemas
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import BAD_SETTINGS
from tenure.web import again, app, inboxes, local
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def web(pair: Pair) -> Iterator[httpx.Client]:
    """The server of both."""
    with served(pair.a, shards={"eu": pair.a.url, "us": pair.b.url}) as client:
        yield client


@pytest.fixture
def half(pair: Pair) -> Iterator[httpx.Client]:
    """The server of both, one of which is away."""
    with served(pair.a, shards={"eu": pair.a.url, "us": NOWHERE}) as client:
        yield client


BOTH = {"eu": {"answers": True}, "us": {"answers": True}}


def test_rows_of_all_inboxes_are_one_page(pair: Pair, web: httpx.Client) -> None:
    ids = [str(world.enqueue("mail", {})) for world in (pair.a, pair.b, pair.a)][::-1]
    page = said(web.get("/api/rows"))
    assert [(row["id"], row["inbox"]) for row in page["rows"]] == list(zip(ids, ["eu", "us", "eu"], strict=True))
    assert page["inboxes"] == BOTH
    assert [row["id"] for row in said(web.get("/api/rows?inbox=us"))["rows"]] == [ids[1]]
    first = said(web.get("/api/rows?n=2"))
    assert (first["done"], first["next"]) == (False, ids[1])
    assert [row["id"] for row in said(web.get(f"/api/rows?n=2&before={first['next']}"))["rows"]] == ids[2:]
    assert "there are eu, us" in said(web.get("/api/rows?inbox=asia"), 404)["error"]


def test_the_overview_has_the_numbers_of_all(pair: Pair, web: httpx.Client) -> None:
    for world in pair:
        world.enqueue("mail", {})
        failed(world)
    seen = said(web.get("/api/overview"))
    assert (seen["runnable"]["n"], seen["dead"]["n"], seen["workers"]["alive"]) == (2, 2, 0)
    assert seen["fence"]["seconds"] == 3600
    assert len({point["at"] for point in seen["series"]}) == len(seen["series"])
    assert said(web.get("/api/me"))["inboxes"] == ["eu", "us"]
    (tick, *_) = Stream(web, fleet=False).saw("tick")
    assert (tick["data"]["runnable"]["n"], tick["data"]["inboxes"]) == (2, BOTH)


def test_a_row_is_found_in_its_inbox_and_acts_go_there(pair: Pair, web: httpx.Client) -> None:
    id = failed(pair.b)
    assert said(web.get(f"/api/rows/{id}"))["inbox"] == "us"
    assert web.get("/api/rows/01a1e7ef-aaca-7459-81d3-c5c58a2cb213").status_code == 404
    failed(pair.a)
    act = {"verb": "redrive", "filter": "kind:mail"}
    assert said(web.post("/api/actions", json={**act, "dry_run": True}))["matched"] == 2
    assert web.post("/api/actions", json={**act, "dry_run": False, "expect": 1}).status_code == 409
    assert said(web.post("/api/actions", json={**act, "dry_run": False, "expect": 2}))["changed"] == 2
    lines = said(web.get("/api/audit"))["audit"]
    assert sorted(line["inbox"] for line in lines) == ["eu", "us"]
    (via,) = {line["via"] for line in lines}
    assert via.startswith("http:")


def test_a_queue_is_paused_in_all_or_in_one(pair: Pair, web: httpx.Client) -> None:
    for world in pair:
        world.enqueue("mail", {}, queue="mail")
    said(web.post("/api/queues/mail/pause", json={}))
    said(web.post("/api/queues/mail/resume?inbox=us", json={}))
    queues = said(web.get("/api/queues"))["queues"]
    assert [(each["inbox"], each["paused"]) for each in queues] == [("eu", True), ("us", False)]


def test_a_row_goes_into_the_inbox_that_is_named(pair: Pair, web: httpx.Client) -> None:
    row = {"kind": "mail", "payload": {}}
    assert "give ?inbox=, one of eu, us" in said(web.post("/api/rows", json=row), 400)["error"]
    assert web.post("/api/rows?inbox=us", json=row).status_code in (200, 201)
    assert pair.b.sql("SELECT count(*) FROM live") == [(1,)]


def test_metrics_have_the_name_of_the_inbox(pair: Pair, web: httpx.Client, half: httpx.Client) -> None:
    pair.b.enqueue("mail", {}, queue="mail")
    text = web.get("/metrics").text
    assert 'tenure_rows{inbox="us",queue="mail",status="pending"} 1' in text
    assert text.count("# TYPE tenure_rows gauge") == 1
    assert 'tenure_inbox_up{inbox="us"} 1' in text
    assert 'tenure_inbox_up{inbox="us"} 0' in half.get("/metrics").text


def test_while_one_is_away_the_pages_of_the_others_are_right(pair: Pair, half: httpx.Client) -> None:
    id = str(pair.a.enqueue("mail", {}))
    page = said(half.get("/api/rows"))
    assert [(row["id"], row["inbox"]) for row in page["rows"]] == [(id, "eu")]
    assert page["inboxes"]["us"]["answers"] is False
    assert "does not answer" in page["inboxes"]["us"]["error"]
    assert said(half.get("/api/overview"))["runnable"]["n"] == 1
    ready = said(half.get("/health/ready"))
    assert (ready["status"], ready["inboxes"]["eu"], ready["inboxes"]["us"]["answers"]) == ("ready", BOTH["eu"], False)
    missing = half.get("/api/rows/01a1e7ef-aaca-7459-81d3-c5c58a2cb213")
    assert missing.status_code == 503
    assert "1 of 2 inboxes answer" in missing.json()["error"]


def test_a_change_that_is_left_undone_in_one_inbox_has_a_status_of_its_own(pair: Pair, half: httpx.Client) -> None:
    told = said(half.post("/api/queues/mail/pause", json={}), 207)
    assert told["changed"] is True
    assert (told["inboxes"]["us"]["answers"], told["inboxes"]["us"]["status"]) == (False, 503)
    said(half.post("/api/queues/mail/pause?inbox=eu", json={}), 200)
    said(half.get("/api/queues"), 200)


def test_if_all_are_away_it_is_not_ready(pair: Pair) -> None:
    with served(pair.a, shards={"eu": NOWHERE, "us": f"{NOWHERE}2"}) as web:
        assert web.get("/health/ready").status_code == 503
        assert web.get("/api/rows").status_code == 503


def test_a_change_is_waited_for_as_long_as_it_takes(web: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "ANSWER_SECONDS", 0)
    assert "has not answered within 0 s" in said(web.get("/api/queues"), 503)["error"]
    assert said(web.post("/api/queues/mail/pause", json={}))["inboxes"] == BOTH


def test_health_is_well_while_one_inbox_answers(half: httpx.Client) -> None:
    found = said(half.get("/health"))
    assert (found["status"], found["inboxes"]["us"]["answers"]) == ("ready", False)


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/metrics"])
def test_a_silent_inbox_does_not_keep_a_probe_waiting(pair: Pair, path: str) -> None:
    with FaultProxy(pair.b.url) as proxy, served(pair.a, shards={"eu": pair.a.url, "us": proxy.url}) as web:
        assert web.get(path).status_code == 200
        proxy.blackhole()
        took = []
        for _ in range(3):
            begun = time.monotonic()
            assert web.get(path).status_code == 200
            took.append(time.monotonic() - begun)
        assert max(took) < soon(1.0)
        assert min(took) < 1.0, "whatever the machine does: who was silent a moment ago is not asked again"
        found = said(web.get("/health"))["inboxes"]
        assert (found["eu"], found["us"]["answers"]) == (BOTH["eu"], False)
        proxy.heal()
        eventually(lambda: said(web.get("/health"))["inboxes"] == BOTH)


def test_an_act_tells_of_an_inbox_without_such_rows_too(trio: dict[str, World]) -> None:
    failed(trio["a"])
    shards = {"a": trio["a"].url, "b": NOWHERE, "c": trio["c"].url}
    with served(trio["a"], shards=shards) as web:
        dry: dict[str, Any] = {"dry_run": True}
        for body, status in ((dry, 200), ({"dry_run": False, "expect": 1, "reason": "again"}, 207)):
            done = said(web.post("/api/actions", json={"verb": "redrive", "filter": "status:failed", **body}), status)
            told = {name: each["answers"] for name, each in done["inboxes"].items()}
            assert told == {"a": True, "b": False, "c": True}


def test_what_is_about_one_inbox_is_refused_before_it_begins(pair: Pair, web: httpx.Client) -> None:
    flow = "/api/flows/01a1e7ef-aaca-7459-81d3-c5c58a2cb213/said"
    for path in ("/api/rows/export", "/api/ring", flow, "/api/actions/4", "/api/batches/7"):
        assert "give ?inbox=, one of eu, us" in said(web.get(path), 400)["error"]
    assert [world.sql("SELECT count(*) FROM audit") for world in pair] == [[(0,)], [(0,)]]
    assert web.get("/api/rows/export?inbox=us").status_code == 200
    assert [world.sql("SELECT count(*) FROM audit") for world in pair] == [[(0,)], [(1,)]]
    assert web.get("/api/batches/7?inbox=us").status_code == 404
    ((line,),) = pair.b.sql("SELECT id FROM audit")
    assert said(web.get(f"/api/actions/{line}?inbox=us"))["verb"] == "export"


def test_rows_of_all_are_counted(pair: Pair, web: httpx.Client) -> None:
    for world in (pair.a, pair.b, pair.b):
        world.enqueue("mail", {})
    assert [said(web.get(f"/api/rows/count?{more}"))["n"] for more in ("", "exact=true", "inbox=us")] == [3, 3, 2]


def test_the_audit_goes_on_in_one_inbox(pair: Pair, web: httpx.Client) -> None:
    for verb in ("pause", "resume"):
        said(web.post(f"/api/queues/mail/{verb}", json={}))
    found = said(web.get("/api/audit?n=3"))
    assert (len(found["audit"]), found["next"], found["inboxes"]) == (3, None, BOTH)
    assert "give ?inbox=, one of eu, us" in said(web.get("/api/audit?before=2"), 400)["error"]
    assert "give ?inbox=, one of eu, us" in said(web.get("/api/batches?before=2"), 400)["error"]
    first = said(web.get("/api/audit?n=1&inbox=us"))
    (second,) = said(web.get(f"/api/audit?n=1&inbox=us&before={first['next']}"))["audit"]
    assert second["verb"] == "pause"


def test_a_token_of_the_first_inbox_is_good_in_all(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "AGAIN_SECONDS", 0.2)
    ci = made(pair.a, "ci")
    with served(pair.a, shards={"eu": pair.a.url, "us": pair.b.url}, access=NOBODY) as web:
        web.headers.update(ci)
        stream = Stream(web, path="/api/events?inbox=us")
        stream.saw("tick", 3)
        assert not stream.ended.is_set()
        tenure(pair.a, "revoke", "ci")
        eventually(stream.ended.is_set)
        eventually(lambda: pair.a.sql("SELECT 1 FROM audit WHERE verb = 'login_failed'"))
    assert pair.b.sql("SELECT verb FROM audit") == []


def test_a_server_that_stops_ends_the_streams_of_each_inbox() -> None:
    site = app(shards={"eu": NOWHERE, "us": f"{NOWHERE}2"}, access=local).state.site
    site.close()
    assert [each.closed for each in (site, *site.inboxes.values())] == [True, True, True]
    assert all(each.store.closed for each in site.inboxes.values())
    site.open()
    assert not any(each.closed or each.store.closed for each in (site, *site.inboxes.values()))


def test_an_empty_name_is_not_all_of_them(pair: Pair, web: httpx.Client) -> None:
    assert "give one of eu, us" in said(web.post("/api/queues/mail/pause?inbox=", json={}), 400)["error"]
    assert web.get("/api/rows?inbox=").status_code == 400
    assert [world.sql("SELECT count(*) FROM audit") for world in pair] == [[(0,)], [(0,)]]


def test_who_asks_at_one_inbox_is_told_the_names_of_all(web: httpx.Client) -> None:
    assert said(web.get("/api/me?inbox=us"))["inboxes"] == ["eu", "us"]


def test_of_one_inbox_with_a_name_nothing_need_be_chosen(pair: Pair) -> None:
    with served(pair.a, shards={"eu": pair.a.url}) as web:
        assert web.get("/api/batches/7").status_code == 404
        assert web.post("/api/rows", json={"kind": "mail", "payload": {}}).status_code in (200, 201)
        assert said(web.get("/api/rows"))["rows"][0]["inbox"] == "eu"


def test_a_server_does_not_start_where_a_schema_is_missing(pair: Pair) -> None:
    check_schemas({"eu": NOWHERE, "us": pair.b.url}, "tenure")
    answer = in_both(pair, "serve", "--port", "0", "--schema", "nothing_here", b=NOWHERE)
    assert answer.returncode == BAD_SETTINGS
    assert answer.stderr.startswith("tenure: inbox eu: schema 'nothing_here' is missing")
    assert "run `tenure migrate --schema nothing_here --inbox eu`" in " ".join(answer.stderr.split())
