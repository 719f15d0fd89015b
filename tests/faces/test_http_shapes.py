"""Projections, batches and endpoints over HTTP: what each shows, and what an operator may do with it."""

from __future__ import annotations

from uuid import UUID

import pytest

from faces.web_tools import served
from tenure.model.journal import NewEvent
from tenure.model.rows import NewRow
from tenure.verbs import batches, endpoints, settle
from tenure.verbs.journal import append
from tenure.verbs.projections import plan_projection
from tenure.verbs.rebuild import ask_rebuild
from tenure.verbs.results import progress
from world import World

pytestmark = pytest.mark.one_server
STOP = "UPDATE checkpoints SET state = 'stopped', stopped_at = 1, error = 'no such customer' WHERE shard = 0"


def test_a_projection_tells_its_lag_and_what_stopped_it_and_obeys(world: World) -> None:
    world.run(plan_projection("totals", shards=2, like=None))
    world.run(append("order:1", [NewEvent("order.paid")]))
    world.sql(STOP)
    with served(world) as web:
        told = web.get("/api/projections").json()
        assert (told["horizon"], told["last"]) == (1, 1)
        (one,) = told["projections"]
        assert (one["projection"], one["paused"]) == ("totals", False)
        first, second = one["shards"]
        assert (first["stopped_at"], first["error"], first["behind"]) == (1, "no such customer", 1)
        assert (second["stopped_at"], second["behind"], second["lag_seconds"] > 0) == (None, 1, True)
        for verb in ("pause", "resume", "rebuild"):
            said = {"resume": "it is no longer paused; 1 shard tries its event again"}.get(verb, "")
            answer = web.post(f"/api/projections/totals/{verb}").json()
            assert answer == {"projection": "totals", "changed": True, "said": said}
        world.sql(STOP)
        assert web.post("/api/projections/totals/skip").status_code == 200
        lines = [each["verb"] for each in web.get("/api/audit").json()["audit"]]
        for path, why in (("totals/skip", "no shard of it has stopped"), ("nobody/pause", "none of this name")):
            refused = web.post(f"/api/projections/{path}")
            assert refused.status_code == 404
            assert why in refused.json()["error"]
        assert web.post("/api/projections/nobody/rebuild").status_code == 404
    assert lines[:4] == ["skip_stopped", "ask_rebuild", "resume_projection", "pause_projection"]


def test_numbers_that_a_writer_holds_back_are_told(world: World) -> None:
    with world.connect() as writer, writer.transaction():
        world.run(append("order:1", [NewEvent("order.paid")]), writer)
        with served(world) as web:
            told = web.get("/api/projections").json()
    assert (told["horizon"], told["last"], told["projections"]) == (0, 1, [])


def test_what_is_committed_behind_an_open_append_and_why_a_rebuild_fails_are_told(world: World) -> None:
    world.run(plan_projection("totals", shards=1, like=None))
    asked = world.run(ask_rebuild("totals"))
    world.sql("UPDATE live SET attempts = 3, last_error = 'no such table' WHERE id = %s", asked)
    with world.connect() as writer, writer.transaction():
        world.run(append("order:1", [NewEvent("order.paid")]), writer)
        world.run(append("order:2", [NewEvent("order.paid")]))
        with served(world) as web:
            told = web.get("/api/projections").json()
            metrics = web.get("/metrics").text
    rebuild, shard = told["projections"][0]["shards"]
    assert (rebuild["shard"], rebuild["state"], rebuild["error"]) == (-1, "no_worker", "no such table")
    assert (told["horizon"], shard["behind"], shard["lag_seconds"] > 0, shard["error"]) == (0, 2, True, None)
    assert 'tenure_projection_lag_events{projection="totals"} 2' in metrics


def test_batches_and_the_row_of_one_with_its_progress_and_result(world: World) -> None:
    made = world.run(batches.open_group([NewRow("part")] * 3, name="nightly"))
    with served(world) as web:
        world.fail(world.claim_one().lease, "broken")
        job = world.claim_one()
        world.run(progress(job.lease, 0.4, "decoding"))
        (listed,) = web.get("/api/batches").json()["batches"]
        assert {name: listed[name] for name in ("id", "name", "size", "open", "ended", "failed")} == {
            "id": made.id, "name": "nightly", "size": 3, "open": 2, "ended": 1, "failed": 1,
        }  # fmt: skip
        page = web.get(f"/api/batches/{made.id}").json()
        assert sorted((each["status"], each["error"]) for each in page["rows"] if each["error"]) == [
            ("failed", "broken")
        ]
        assert len(page["rows"]) == 3
        left = web.get(f"/api/rows/{job.id}").json()["left"]
        assert (left["progress"]["share"], left["progress"]["note"], left["batch"]) == (0.4, "decoding", made.id)
        assert (left["result"], left["result_hidden"]) == (None, False)
        world.run(settle.complete([job.lease], results=['{"width": 640, "password": "hush"}']))
        assert "640" in web.get(f"/api/rows/{job.id}").json()["left"]["result"]
        assert web.get(f"/api/batches/{made.id + 1}").status_code == 404
    with served(world, hide_payloads=True) as web:
        left = web.get(f"/api/rows/{job.id}").json()["left"]
        assert (left["result"], left["result_hidden"]) == (None, True)
    with served(world, redact=["password"]) as web:
        assert "hush" not in web.get(f"/api/rows/{job.id}").json()["left"]["result"]


def test_an_endpoint_tells_its_calls_without_a_secret_and_obeys(world: World) -> None:
    id, url = UUID(int=5), "https://acme.example/hook?key=hush"
    world.run(endpoints.add_endpoint(id, "acme", url, ["order.*"], "whsec_hush"))
    sent = world.run(endpoints.send_webhook("acme", "order.paid", b"{}", queue="webhooks")).webhook_id
    for status, ms in ((200, 20), (503, 40)):
        world.sql(
            "INSERT INTO deliveries (row_id, fence_token, attempt, endpoint_id, webhook_id, status, ms, note) "
            "VALUES (new_id(), 1, 1, %s, %s, %s, %s, 'said')",
            *(id, sent, status, ms),
        )
    world.sql("UPDATE endpoints SET failures = 5, open_until = clock_timestamp() + interval '1 hour'")
    with served(world) as web:
        (one,) = web.get("/api/hooks").json()["endpoints"]
        assert (one["tenant"], one["state"], one["pending"]) == ("acme", "active", 1)
        assert one["open_until"] is not None
        assert (one["lately"]["p50_ms"], one["lately"]["p99_ms"], one["lately"]["answers"]) == (20, 40, [503, 200])
        shown = web.get(f"/api/hooks/{id}")
        first, _ = shown.json()["calls"]
        assert (first["status"], first["kind"], first["note"]) == (503, "order.paid", "said")
        assert shown.json()["endpoint"]["url"] == "https://acme.example/hook?…"
        assert "hush" not in shown.text
        for verb, body in (("pause", None), ("resume", None), ("test", None), ("resend", {"webhooks": [str(sent)]})):
            assert web.post(f"/api/hooks/{id}/{verb}", json=body).status_code == 200, verb
        assert web.get(f"/api/hooks/{id}").json()["endpoint"]["open_until"] is None
        assert world.count("live") == 3
        lines = [each["verb"] for each in web.get("/api/audit").json()["audit"]]
        assert lines == ["resend_webhooks", "test_endpoint", "resume_endpoint", "pause_endpoint"]
        nobody = web.post(f"/api/hooks/{UUID(int=6)}/pause")
        assert (nobody.status_code, "GET api/hooks lists them" in nobody.json()["error"]) == (404, True)
        assert web.get(f"/api/hooks/{UUID(int=6)}").status_code == 404
        assert web.post(f"/api/hooks/{id}/resend", json={"webhooks": []}).status_code == 400
        assert len(web.get("/api/audit").json()["audit"]) == 4
        some = web.post(f"/api/hooks/{id}/resend", json={"webhooks": [str(sent), str(UUID(int=9))]}).json()
        assert (some["rows"], some["left_out"]) == (1, [str(UUID(int=9))])
    with served(world, hide_payloads=True) as web:
        assert web.get("/api/hooks").json()["endpoints"][0]["url"] == "https://acme.example/…?…"
