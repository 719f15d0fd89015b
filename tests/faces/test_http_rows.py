"""Rows over HTTP: enqueue, pages and counts, one row, exports, and what is hidden, on a real server."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from uuid import uuid4

import pytest

from faces.web_tools import said, served
from tenure.drills.stage.proxy import FaultProxy
from tenure.web.redact import NAMES, Redaction
from world import World

pytestmark = pytest.mark.one_server


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
        ({"kind": ""}, "kind='' has 0 bytes: it must have 1 to 128"),
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
        assert page["why"].startswith("It is due in ")
        assert world.sql(page["sql"].replace("%", "%%"))
        assert said(web.get(f"/api/rows/{uuid4()}"), 404)["error"].endswith("its transaction is not committed yet")
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
    world.enqueue("=cmd|calc", key="x;=calc")
    with served(world) as web:
        lines = web.get("/api/rows/export", params={"filter": "kind:send_receipt"}).text.splitlines()
        assert len([json.loads(line) for line in lines]) == 5
        table = list(csv.DictReader(io.StringIO(web.get("/api/rows/export?format=csv").text)))
        assert len(table) == 6
        assert {row["kind"] for row in table} == {"send_receipt", "'=cmd|calc"}
        assert '"x;=calc"' in web.get("/api/rows/export?format=csv").text
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
