"""The HTTP API: what each route answers, changes and refuses, on a real server over real HTTP."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import tenure.web
from crew import eventually, working
from faces.web_tools import CHANGING, running, served
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import BadSettings
from tenure.model.rows import Lane, NewRow
from tenure.verbs import fleet, history, questions, queues, schedules
from tenure.web.redact import NAMES, Redaction
from world import World

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

pytestmark = pytest.mark.one_server


def said(response: httpx.Response, status: int = 200) -> Any:
    """The document of an answer with this status."""
    assert response.status_code == status, response.text
    return response.json()


# -- probes


def test_probes_say_live_whatever_the_database_does_and_ready_only_with_the_right_schema(world: World) -> None:
    with served(world) as web:
        assert said(web.get("/health/live")) == {"status": "live"}
        assert said(web.get("/health/ready"))["status"] == "ready"
    with served(world, schema="nothing_here") as web:
        assert said(web.get("/health/live")) == {"status": "live"}
        refused = said(web.get("/health/ready"), 503)
        assert "run `tenure migrate" in refused["error"]


def test_a_database_that_is_away_is_503_at_once_and_the_first_question_after_its_return_is_answered(
    world: World,
) -> None:
    with FaultProxy(world.url) as proxy, served(world, url=proxy.url) as web:
        assert said(web.get("/api/queues")) == {"queues": []}
        proxy.refuse()
        proxy.cut()
        away = web.get("/api/queues")
        assert (away.status_code, away.headers["retry-after"]) == (503, "2")
        assert "the database does not answer" in away.json()["error"]
        assert said(web.get("/health/ready"), 503)["status"] == "not ready"
        assert said(web.get("/health/live")) == {"status": "live"}
        proxy.heal()
        assert said(web.get("/api/queues")) == {"queues": []}


# -- enqueue


def test_a_row_is_enqueued_once_and_a_duplicate_or_a_conflict_is_told_apart(world: World) -> None:
    with served(world) as web:
        sent = {"kind": "send_receipt", "payload": {"order_id": 1}, "idempotency_key": "k"}
        first = said(web.post("/api/rows", json=sent), 201)
        assert first["outcome"] == "enqueued"
        assert said(web.post("/api/rows", json=sent), 200) == {"id": first["id"], "outcome": "duplicate"}
        conflict = said(web.post("/api/rows", json={**sent, "payload": {"order_id": 2}}), 409)
        assert conflict["id"] == first["id"]
        assert "another kind or payload" in conflict["error"]
    assert world.count("live") == 1


def test_headers_go_along_with_a_row_as_text(world: World) -> None:
    with served(world) as web:
        sent = {"kind": "k", "headers": {"tenant": "acme", "authorization": "Bearer x"}}
        id = said(web.post("/api/rows", json=sent), 201)["id"]
        assert json.loads(said(web.get(f"/api/rows/{id}"))["row"]["headers"]) == {
            "tenant": "acme",
            "authorization": "***",
        }
        assert "headers" in said(web.post("/api/rows", json={"kind": "k", "headers": {"n": 1}}), 400)["error"]


def test_the_digits_of_a_payload_are_as_they_were_written(world: World) -> None:
    text = '{"big": 12345678901234567890, "exact": 0.1000, "long": 0.12345678901234567890123}'
    with served(world) as web:
        body = f'{{"kind": "k", "payload": {text}}}'
        id = said(web.post("/api/rows", content=body, headers={"content-type": "application/json"}), 201)["id"]
        shown = said(web.get(f"/api/rows/{id}"))["row"]["payload"]
    for digits in ("12345678901234567890", "0.1000", "0.12345678901234567890123"):
        assert digits in shown


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"knd": "k"}, "did you mean 'kind'"),
        ({"kind": "k", "priority": 101}, "priority"),
        ({"kind": "k", "at": "tomorrow"}, "$.at"),
        ({"kind": "k", "at": "2026-01-01T00:00:00"}, "$.at"),
        ({"kind": "k", "ordered": True}, "needs a key"),
        ({"kind": "k", "payload": {"a": "\x00"}}, "NUL"),
        ({"kind": ""}, "$.kind"),
        ([], "expected `object`"),
    ],
)
def test_bad_input_is_400_with_the_value_and_the_way_out_and_writes_nothing(
    world: World, body: Any, words: str
) -> None:
    with served(world) as web:
        assert words in said(web.post("/api/rows", json=body), 400)["error"]
    assert world.count("live") == 0


def test_a_body_that_is_not_json_or_too_long_is_refused(world: World) -> None:
    with served(world) as web:
        assert web.post("/api/rows", content=b"kind=k").status_code == 415
        as_json = {"content-type": "application/json; charset=utf-8"}
        assert web.post("/api/rows", content=b'{"kind": ', headers=as_json).status_code == 400
        assert web.post("/api/rows", content=b" " * (2 * 1024 * 1024 + 1), headers=as_json).status_code == 413
        assert web.post("/api/rows", content=b'{"kind": "k"}', headers=as_json).status_code == 201


# -- rows


def test_rows_come_newest_first_page_by_page_and_every_one_once(world: World) -> None:
    ids = [str(world.enqueue(payload={"n": n})) for n in range(7)]
    world.enqueue("other")
    seen: list[str] = []
    with served(world) as web:
        before: dict[str, str] = {}
        while True:
            page = said(web.get("/api/rows", params={"filter": "kind:send_receipt", "n": 3, **before}))
            seen += [row["id"] for row in page["rows"]]
            if page["done"]:
                break
            before = {"before": page["next"]}
        assert page["filter"] == "kind:send_receipt"
        assert said(web.get("/api/rows/count", params={"filter": "kind:send_receipt"}))["n"] == 7
        assert said(web.get("/api/rows/count", params={"exact": "true"}))["n"] == 8
        assert said(web.get("/api/rows/statuses"))["pending"] == {"n": 8, "more": False}
    assert sorted(seen, reverse=True) == seen
    assert set(seen) == set(ids)


def test_a_bad_filter_is_400_and_names_the_word(world: World) -> None:
    with served(world) as web:
        refused = said(web.get("/api/rows", params={"filter": "kind:x knd:y"}), 400)
        assert refused["at"] == "knd:y"
        assert "kind" in refused["error"]
        assert "did you mean 'filter'" in said(web.get("/api/rows", params={"filtr": "x"}), 400)["error"]
        assert "given twice" in said(web.get("/api/rows?n=1&n=2"), 400)["error"]


def test_an_old_word_in_a_filter_is_understood_and_the_answer_says_the_new_one(world: World) -> None:
    world.enqueue()
    asked = {"verb": "cancel", "filter": "status:held,dead"}
    with served(world) as web:
        found = [
            said(web.get("/api/rows", params={"filter": asked["filter"]})),
            said(web.get("/api/rows/count", params={"filter": asked["filter"]})),
            said(web.post("/api/actions", json=asked)),
            said(web.post("/api/actions", json={**asked, "dry_run": False, "expect": 0})),
        ]
        assert {each["filter"] for each in found} == {"status:processing,dead_letter"}
        assert {each["hint"] for each in found} == {
            "status:held is now status:processing; status:dead is now status:dead_letter"
        }
        assert "hint" not in said(web.get("/api/rows", params={"filter": "status:processing"}))


def test_a_row_tells_its_whole_story(world: World) -> None:
    id = world.enqueue(payload={"order_id": 9182}, key="order:9182", ordered=True, idempotency_key="r-1")
    behind = world.enqueue(key="order:9182", ordered=True)
    (job,) = world.claim_ordered("W1")
    world.retry(job.lease, "Traceback\nOSError: time out")
    with served(world) as web:
        page = said(web.get(f"/api/rows/{id}"))
        assert page["row"]["status"] == "pending"
        assert page["row"]["fence"] == str(job.fence)
        assert [(each["worker"], each["outcome"]) for each in page["attempts"]] == [("W1", "retried")]
        assert page["attempts"][0]["error"].endswith("time out")
        assert page["idempotency"]["key"] == "r-1"
        assert [each["id"] for each in page["key_neighbours"]] == [str(behind)]
        assert page["row"]["created_at"].endswith("Z")
        assert "runnable in" in page["why"]
        assert world.sql(page["sql"].replace("%", "%%"))
        assert said(web.get(f"/api/rows/{uuid4()}"), 404)["error"].startswith("there is no row")
        assert web.get("/api/rows/not-an-id").status_code == 400


def test_a_list_shows_excerpts_and_a_row_everything(world: World) -> None:
    id = world.enqueue(payload={"text": "x" * 1000})
    with served(world) as web:
        (row,) = said(web.get("/api/rows"))["rows"]
        assert len(row["payload"]) == 300
        assert len(said(web.get(f"/api/rows/{id}"))["row"]["payload"]) > 1000


@pytest.mark.parametrize("length", [130, 1000])
def test_a_list_shows_the_line_of_an_error_that_tells_and_a_row_all_of_it(world: World, length: int) -> None:
    line = f"RuntimeError: {'x' * length}"
    error = f'Traceback (most recent call last):\n  File "{"d/" * 40}a.py", line 1, in boom\n    raise it\n{line}\nmore'
    id = world.enqueue()
    world.sql("UPDATE live SET last_error = %s", error)
    with served(world) as web:
        (row,) = said(web.get("/api/rows"))["rows"]
        assert row["last_error"] == line[:300]
        assert said(web.get(f"/api/rows/{id}"))["row"]["last_error"] == error


def test_an_export_holds_every_row_of_the_filter_as_csv_and_as_json_lines(world: World) -> None:
    for n in range(5):
        world.enqueue(payload={"n": n, "password": "hunter2"})
    world.enqueue("=cmd|calc")
    with served(world) as web:
        lines = web.get("/api/rows/export", params={"filter": "kind:send_receipt"}).text.splitlines()
        assert len([json.loads(line) for line in lines]) == 5
        table = list(csv.DictReader(io.StringIO(web.get("/api/rows/export?format=csv").text)))
        assert len(table) == 6
        assert {row["kind"] for row in table} == {"send_receipt", "'=cmd|calc"}
        assert "hunter2" not in json.dumps(table)
        assert len(web.get("/api/rows/export?n=2").text.splitlines()) == 2


# -- what is not shown


def test_values_of_secret_names_are_stars_everywhere_and_nothing_else_of_the_text_changes() -> None:
    redact = Redaction(NAMES)
    text = '{"a": 12345678901234567890, "password": "p\\"w", "b": [0.1000, {"api_key": {"deep": [1]}, "c": "token"}]}'
    assert redact(text) == (
        '{"a": 12345678901234567890, "password": "***", "b": [0.1000, {"api_key": "***", "c": "token"}]}'
    )
    for name in ("accessToken", "user_password", "API-Key", "cardNumber", "pass\\u0077ord"):
        assert redact(f'{{"{name}": 1}}') == f'{{"{name}": "***"}}', name
    for name in ("discard", "tokens_used", "secretary"):
        assert redact(f'{{"{name}": 1}}') == f'{{"{name}": 1}}', name


def test_a_payload_is_shown_redacted_or_not_at_all_and_cannot_be_guessed_by_a_filter(world: World) -> None:
    id = world.enqueue(payload={"card": "4111", "iban": "DE1", "shoe_size": 42, "order": 7})
    with served(world, redact=["shoe_size"]) as web:
        shown = said(web.get(f"/api/rows/{id}"))["row"]["payload"]
        assert json.loads(shown) == {"card": "***", "iban": "***", "shoe_size": "***", "order": 7}
        assert web.get("/api/rows", params={"filter": "payload.order:7"}).status_code == 200
        assert web.get("/api/rows", params={"filter": "payload.shoe_size:42"}).status_code == 403
        act = {"verb": "cancel", "filter": "payload.card:4111"}
        assert web.post("/api/actions", json=act).status_code == 403
    with served(world, hide_payloads=True) as web:
        row = said(web.get("/api/rows"))["rows"][0]
        assert (row["payload"], row["payload_hidden"]) == (None, True)
        assert "4111" not in web.get(f"/api/rows/{id}").text
        assert "4111" not in web.get("/api/rows/export").text
        assert web.get("/api/rows", params={"filter": "payload.order:7"}).status_code == 403


# -- actions


def test_an_action_counts_first_then_changes_exactly_that_and_is_in_the_audit(world: World) -> None:
    rows = [world.enqueue() for _ in range(3)]
    for job in world.claim(n=3):
        world.dead_letter(job.lease)
    asked = {"verb": "redrive", "filter": "status:dead_letter kind:send_receipt"}
    with served(world) as web:
        would = said(web.post("/api/actions", json=asked))
        assert (would["matched"], would["statuses"]["dead_letter"]["n"]) == (3, 3)
        assert world.count("dead") == 3
        assert said(web.post("/api/actions", json={**asked, "dry_run": False}), 400)["error"].startswith(
            "redrive needs `expect`"
        )
        fewer = said(web.post("/api/actions", json={**asked, "dry_run": False, "expect": 2}), 409)
        assert "3 rows" in fewer["error"]
        done = said(web.post("/api/actions", json={**asked, "dry_run": False, "expect": 3, "reason": "fixed"}))
        assert (done["changed"], done["skipped"], done["done"]) == (3, 0, True)
        (line,) = said(web.get("/api/audit"))["audit"]
        assert (line["actor"], line["via"], line["verb"], line["rows"]) == ("local", "http", "redrive", 3)
        assert line["reason"] == "fixed"
        assert said(web.get(f"/api/actions/{done['action']}")) == line
        assert web.get("/api/actions/999").status_code == 404
    assert {world.status(id) for id in rows} == {"pending"}


def test_an_action_longer_than_a_request_goes_on_without_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.web.actions.ANSWER_SECONDS", 0.0)
    for _ in range(5):
        world.enqueue()
    with served(world) as web:
        asked = {"verb": "cancel", "filter": "kind:send_receipt", "dry_run": False, "expect": 5}
        going = said(web.post("/api/actions", json=asked), 202)
        assert going["done"] is False
        eventually(lambda: said(web.get(f"/api/actions/{going['action']}"))["done_at"])
    assert world.count("dead") == 5


# -- queues, workers, ring, schedules, dead letters


def test_a_queue_is_paused_limited_and_resumed(world: World) -> None:
    world.enqueue(queue="mail/eu")
    with served(world) as web:
        name = "mail%2Feu"
        assert said(web.post(f"/api/queues/{name}/pause")) == {"queue": "mail/eu", "changed": True}
        assert said(web.post(f"/api/queues/{name}/pause"))["changed"] is False
        assert said(web.put(f"/api/queues/{name}/limits", json={"max_running": 2}))["max_running"] == 2
        (queue,) = said(web.get("/api/queues"))["queues"]
        assert (queue["queue"], queue["pending"], queue["paused"], queue["max_running"]) == ("mail/eu", 1, True, 2)
        assert said(web.put(f"/api/queues/{name}/limits", json={}))["max_running"] is None
        assert said(web.post(f"/api/queues/{name}/resume"))["changed"] is True
        assert "rate_per_second" in said(web.put(f"/api/queues/{name}/limits", json={"burst": 2}), 400)["error"]
        verbs = [line["verb"] for line in said(web.get("/api/audit"))["audit"]]
    assert verbs == ["resume", "limit", "limit", "pause", "pause"]
    assert world.run(queues.queues())[0].paused is False


def test_below_the_cap_the_bounded_counts_of_queues_are_the_exact_ones(world: World) -> None:
    for queue in ("mail", "reports"):
        for n in range(12):
            world.enqueue(queue=queue, priority=n % 2, key=f"k{n % 3}", ordered=n % 4 == 0, delay_seconds=60 * (n % 2))
    for job in [*world.claim(n=4, lanes=[Lane("mail")]), *world.claim_ordered(n=2, queues=["mail"])][:4]:
        world.dead_letter(job.lease)
    exact = {(each.queue, each.status): each.rows for each in world.run(questions.depth())}
    counted = world.run(questions.queue_depths())
    assert {(each.queue, each.status): each.rows for each in counted if each.rows} == exact
    assert not any(each.more for each in counted)
    lags, exact_lags = world.run(questions.queue_lags()), world.run(questions.oldest_runnable())
    assert lags.keys() == exact_lags.keys() == {"mail", "reports"}
    assert all(abs(lags[queue] - exact_lags[queue]) < 5 for queue in lags)


def test_counts_of_queues_stop_at_the_cap_and_say_so(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("k", queue="mail") for _ in range(150)]))
    world.run(verbs.enqueue_many([NewRow("k", queue="ordered", key=f"k{n}", ordered=True) for n in range(50)]))
    counted = {(each.queue, each.status): each for each in world.run(questions.queue_depths(cap=100))}
    assert (counted["mail", "pending"].rows, counted["mail", "pending"].more) == (100, True)
    assert counted["ordered", "pending"].more
    assert sum(world.run(questions.ring_depth(["mail"])).values()) == 150
    assert sum(world.run(questions.ring_depth(["ordered", "mail"])).values()) == 200
    assert max(world.run(questions.ring_depth(["mail"], cap=1)).values()) == 1


def test_a_worker_is_shown_with_its_buckets_and_drains_when_asked(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("nothing")
    async def nothing(job: Job) -> None: ...

    with served(world) as web, working(world, inbox) as hired:
        (worker,) = said(web.get("/api/workers"))["workers"]
        assert (worker["id"], worker["status"], worker["buckets"]) == (hired.worker.id, "alive", 1024)
        assert worker["queues"] == ["default"]
        ring = said(web.get("/api/ring"))
        assert (ring["workers"], set(ring["buckets"]), len(ring["depth"])) == ([hired.worker.id], {0}, 64)
        assert ring["history"][0]["what"] == "joined"
        assert web.get("/api/ring?queues=nobody").status_code == 404
        assert said(web.post(f"/api/workers/{hired.worker.id}/drain"))["changed"] is True
        assert hired.gone() == 0
        assert web.post("/api/workers/nobody/drain").status_code == 404


def test_a_dead_worker_is_shown_with_the_rows_it_left_behind(world: World) -> None:
    world.run(fleet.register("W1"))
    world.enqueue()
    world.enqueue(key="order:1", ordered=True)
    world.enqueue("waits", delay_seconds=60)
    assert len([*world.claim("W1", 1), *world.claim_ordered("W1", 1)]) == 2
    world.sql("UPDATE workers SET status = 'dead'")
    with served(world) as web:
        (worker,) = said(web.get("/api/workers"))["workers"]
        assert (worker["status"], worker["held"], worker["buckets"]) == ("dead", 2, 0)


def test_a_schedule_is_told_in_words_paused_resumed_and_removed(world: World) -> None:
    world.run(schedules.plan(schedules.Schedule("nightly", "30 2 * * *", "report", zone="Europe/Berlin")))
    with served(world) as web:
        (planned,) = said(web.get("/api/schedules"))["schedules"]
        assert (planned["words"], planned["time_zone"]) == ("At 02:30 every day", "Europe/Berlin")
        assert said(web.post("/api/schedules/nightly/pause"))["changed"] is True
        assert said(web.get("/api/schedules"))["schedules"][0]["paused"] is True
        assert said(web.post("/api/schedules/nightly/resume"))["changed"] is True
        assert said(web.delete("/api/schedules/nightly"))["changed"] is True
        assert web.delete("/api/schedules/nightly").status_code == 404


def test_what_ended_badly_is_grouped_and_each_group_names_the_filter_that_finds_it(world: World) -> None:
    for n in range(3):
        world.enqueue()
        world.dead_letter(world.claim_one().lease, f"OSError: no route to 10.0.0.{n}")
    with served(world) as web:
        (group,) = said(web.get("/api/dead"))["groups"]
        assert (group["n"], group["kind"], group["status"]) == (3, "send_receipt", "dead_letter")
        assert said(web.get("/api/rows/count", params={"filter": group["filter"]}))["n"] == 3
        assert UUID(group["sample"])


def test_a_key_that_waits_for_an_operator_is_shown_and_freed(world: World) -> None:
    world.enqueue(key="order:1", ordered=True, hold=True)
    world.enqueue(key="order:1", ordered=True)
    (job,) = world.claim_ordered()
    world.fail(job.lease)
    with served(world) as web:
        (blocked,) = said(web.get("/api/blocked"))["keys"]
        assert (blocked["key"], blocked["reason"], blocked["waiting"]) == ("order:1", "waits_for_operator", 1)
        asked = {"queue": "default", "key": "order:1"}
        assert said(web.post("/api/blocked/free", json=asked))["changed"] is True
        assert web.post("/api/blocked/free", json=asked).status_code == 404
        assert said(web.get("/api/blocked"))["keys"] == []


def test_the_overview_has_the_numbers_the_charts_and_the_fence(world: World) -> None:
    world.enqueue()
    world.enqueue(delay_seconds=600)
    world.enqueue("held")
    world.run(fleet.register("W1"))
    with served(world) as web:
        seen = said(web.get("/api/overview?seconds=600"))
        assert seen["runnable"]["n"] == 2
        assert seen["scheduled"]["n"] == 1
        assert seen["oldest_runnable_seconds"] >= 0
        assert seen["workers"] == {"alive": 1, "draining": 0, "dead": 0}
        assert seen["fence"]["seconds"] == 600
        assert len(seen["series"]) == 60
        assert "tenure_rows{" in web.get("/metrics").text


def test_a_refused_write_is_shown_with_the_key_of_its_row(world: World) -> None:
    keyed, plain = world.enqueue(key="order:1"), world.enqueue()
    for id in (keyed, plain):
        refused = {"row_id": str(id), "age_seconds": 1.0, "worker": "W1", "verb": "complete", "kind": "send_receipt"}
        world.run(history.refuse([{**refused, "stale_token": 1, "current_token": 2, "reason": "stale"}]))
    with served(world) as web:
        shown = {each["row"]: each["key"] for each in said(web.get("/api/overview"))["recent_refusals"]}
    assert shown == {str(keyed): "order:1", str(plain): None}


# -- pages and prefixes


@pytest.mark.parametrize("prefix", ["", "/tenure", "/ops/queue"])
def test_below_any_prefix_pages_files_and_api_are_found(world: World, prefix: str) -> None:
    with served(world, prefix=prefix) as web:
        for path in ("/", "/rows", "/rows/some-id", "/workers", "/ring", "/dead", "/queues", "/audit"):
            page = web.get(path)
            assert page.status_code == 200
            assert f'<base href="{prefix}/">' in page.text
            assert "script-src 'self'" in page.headers["content-security-policy"]
        assert web.get("/static/app.js").headers["content-type"].startswith("text/javascript")
        assert said(web.get("/api/me"))["prefix"] == prefix
        assert said(web.get("/api/openapi.json"))["servers"] == [{"url": prefix or "/"}]


@pytest.mark.parametrize("prefix", ["", "/ops/queue"])
@pytest.mark.parametrize("path", ["/nope", "/schedules", "/workers/x", "/rows/a/b", "/drills", "/nope.html", "/apis"])
def test_a_browser_at_no_page_gets_the_shell_with_404_and_everybody_else_a_sentence(
    world: World, prefix: str, path: str
) -> None:
    with served(world, prefix=prefix) as web:
        page = web.get(path, headers={"accept": BROWSER})
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert page.text == web.get("/").text
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["vary"] == "accept"
        for accept in ("*/*", "application/json", "text/html-not", ""):
            assert "there is nothing at" in said(web.get(path, headers={"accept": accept}), 404)["error"], accept
        assert said(web.request("BREW", path, headers={"accept": BROWSER}), 404)["error"]


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/nope", "/static/nope.js", "/health/nope", "/metrics/nope"])
def test_what_is_no_page_is_refused_in_a_sentence_to_a_browser_too(world: World, path: str) -> None:
    with served(world, prefix="/ops") as web:
        assert "there is nothing at" in said(web.get(path, headers={"accept": BROWSER}), 404)["error"]


def test_in_somebody_elses_app_it_opens_by_itself_and_gives_back_when_their_lifespan_ends(world: World) -> None:
    mine = tenure.web.app(database_url=world.url, schema=world.schema, access=tenure.web.local)
    theirs = Starlette(routes=[Mount("/jobs", mine)], lifespan=lambda _: tenure.web.lifespan(mine))
    theirs.state.site = mine.state.site
    with running(theirs) as address:
        assert said(httpx.get(f"{address}/jobs/api/queues", timeout=120)) == {"queues": []}
        assert httpx.get(f"{address}/jobs", timeout=120).next_request is not None
        assert mine.state.site.store.open == 1
    assert mine.state.site.store.open == 0


@pytest.mark.parametrize(
    "path", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "app.py", "nothing.js", "", "vendor", "/etc/hostname"]
)
def test_no_file_but_the_dashboards_own_is_served(world: World, path: str) -> None:
    with served(world) as web:
        assert web.get(f"/static/{path}").status_code == 404


def test_a_file_that_has_not_changed_is_not_sent_again(world: World) -> None:
    with served(world) as web:
        etag = web.get("/static/app.js").headers["etag"]
        assert web.get("/static/app.js", headers={"if-none-match": etag}).status_code == 304


def test_every_answer_names_its_request_and_keeps_browsers_strict(world: World) -> None:
    with served(world) as web:
        for path in ("/api/me", "/api/nothing", "/", "/health/live"):
            answer = web.get(path, headers={"x-request-id": "abc-1"})
            assert answer.headers["x-request-id"] == "abc-1"
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert web.get("/api/me").headers["cache-control"] == "no-store"
        refused = web.patch("/api/rows")
        assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "POST"})
        assert refused.json()["error"]


def test_an_app_without_a_database_or_without_access_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TENURE_WEB_TOKEN", "TENURE_WEB_TOKENS", "TENURE_WEB_USERS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadSettings, match="no credentials"):
        tenure.web.app(database_url="postgresql://nobody@127.0.0.1/x")
    monkeypatch.delenv("TENURE_DATABASE_URL", raising=False)
    with pytest.raises(BadSettings, match="no database"):
        tenure.web.app(access=tenure.web.local)


def test_the_header_that_no_form_can_send_is_needed_for_every_change(world: World) -> None:
    with served(world) as web:
        del web.headers["x-tenure"]
        assert web.post("/api/rows", json={"kind": "k"}).status_code == 403
        elsewhere = {**CHANGING, "origin": "https://evil.example"}
        assert web.post("/api/rows", json={"kind": "k"}, headers=elsewhere).status_code == 403
        own = {**CHANGING, "origin": str(web.base_url).rstrip("/")}
        assert web.post("/api/rows", json={"kind": "k"}, headers=own).status_code == 201
    assert world.count("live") == 1
