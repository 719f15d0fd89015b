"""`tenure erase` and `tenure queues retain`: what they ask, say, leave and note; the same over HTTP."""

from __future__ import annotations

import json

import pytest

from faces.test_acting_commands import Terminal
from faces.test_fleet_commands import tenure
from faces.web_tools import served
from tenure.verbs import operators, queues
from world import World

WHO = "customer:ann"
pytestmark = pytest.mark.one_server


def test_erase_asks_and_says_how_many(world: World) -> None:
    world.enqueue("bill", {"to": WHO}, key=WHO)
    world.enqueue("bill", {"to": "bob"}, key="bob")
    screen = Terminal(world, "erase", f"key:{WHO}", "--reason", "request 17")
    screen.until("erase 1 row?")
    screen.type("y")
    assert screen.end() == 0
    assert "done  1 row changed" in screen.shown
    (line,) = world.run(operators.audit())
    assert (line.verb, line.rows, line.reason) == ("erase", 1, "request 17")
    assert WHO not in line.target
    assert WHO not in tenure(world, "audit").stdout
    assert world.count("live") == 1


def test_what_is_held_is_told_and_the_exit_code_says_no(world: World) -> None:
    for _ in range(2):
        world.enqueue("bill", {"to": WHO}, key=WHO)
    world.claim_one()
    dry = tenure(world, "erase", f"key:{WHO}", "--dry-run")
    assert (dry.returncode, world.count("live")) == (0, 2)
    said = (
        "tenure: 1 row is processing and left as it is: `tenure cancel ID` asks its worker to stop; then erase again\n"
    )
    assert dry.stderr == said
    done = tenure(world, "erase", f"key:{WHO}", "--yes", "--json")
    assert (done.returncode, world.count("live")) == (1, 1)
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["matched"], answer["changed"], answer["processing"]) == (1, 1, 1)
    assert said in done.stderr


def test_what_is_left_of_a_row_that_is_gone_is_erased_by_its_idempotency_key(world: World) -> None:
    world.enqueue("bill", {}, idempotency_key=WHO)
    world.complete(world.claim_one().lease)
    world.sql("DELETE FROM archive")
    done = tenure(world, "erase", f"idempotency:{WHO}", "--yes")
    assert (done.returncode, world.count("idempotency")) == (0, 0)
    assert "done  0 rows changed" in done.stdout


def test_an_admin_erases_over_http(world: World) -> None:
    world.enqueue("bill", {"to": WHO}, key=WHO)
    with served(world) as web:
        asked = {"verb": "erase", "filter": f"key:{WHO}"}
        assert web.post("/api/actions", json=asked).json()["matched"] == 1
        done = web.post("/api/actions", json={**asked, "dry_run": False, "expect": 1}).json()
        assert (done["changed"], world.count("live")) == (1, 0)
        assert WHO not in web.get("/api/audit").text


def test_a_queue_keeps_its_rows_for_as_long_as_is_said(world: World) -> None:
    world.enqueue("bill", queue="bills")
    said = tenure(world, "queues", "retain", "bills", "--retention", "7d")
    assert (said.returncode, said.stdout) == (0, "bills: kept for 1w\n")
    assert "kept for 1w" in tenure(world, "queues").stdout
    (queue,) = world.run(queues.queues())
    assert queue.retention_seconds == 604_800.0
    assert tenure(world, "queues", "retain", "bills", "--clear").stdout == "bills: kept as the workers say\n"
    assert [line.target for line in world.run(operators.audit())] == ["bills default", "bills 1w"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "keep its rows for how long?"),
        (["--retention", "7d", "--clear"], "keep its rows for how long?"),
        (["--retention", "soon"], "'soon' must be a span of time: write 36h, 7d or 4w"),
        (["--retention", "5m"], "--retention must be between 1h and ten years"),
    ],
)
def test_a_span_that_cannot_be_is_refused_in_one_sentence(world: World, given: list[str], sentence: str) -> None:
    said = tenure(world, "queues", "retain", "bills", *given)
    assert said.returncode == 2
    assert sentence in said.stderr


def test_retention_is_set_over_http(world: World) -> None:
    with served(world) as web:
        asked = {"retention_seconds": 86_400.0}
        assert web.put("/api/queues/bills/retention", json=asked).json() == asked
        (queue,) = web.get("/api/queues").json()["queues"]
        assert queue["retention_seconds"] == 86_400.0
        assert web.put("/api/queues/bills/retention", json={"retention_seconds": 5}).status_code == 400
        assert web.put("/api/queues/bills/retention", json={"retention_seconds": None}).status_code == 200
