"""Projections and batches over HTTP: what each shard and batch shows, and what an operator may do with a projection."""

from __future__ import annotations

import pytest

from faces.web_tools import served
from tenure.model.journal import NewEvent
from tenure.model.rows import NewRow
from tenure.verbs import batches, settle
from tenure.verbs.journal import append
from tenure.verbs.projections import plan_projection
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
            assert web.post(f"/api/projections/totals/{verb}").json() == {"projection": "totals", "changed": True}
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
