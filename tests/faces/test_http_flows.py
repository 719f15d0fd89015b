"""Flows over HTTP: a list, one with its steps and its children, signal and cancel with their lines in the audit."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest

from faces.web_tools import served
from tenure.model.rows import NewRow
from tenure.verbs import batches, operators, steps
from tenure.verbs.steps import Parking, Recording, Step, Wait
from tenure.web import flow_stream
from tenure.web.access import Access
from world import World

pytestmark = pytest.mark.one_server


def _waiting(world: World) -> UUID:
    """A flow that has charged, waits for two children and for a signal."""
    id = world.enqueue("checkout", headers={"tenure-flow": "checkout", "tenure-version": "2"})
    lease = world.claim_one()
    rows = [NewRow("part", {"n": n}) for n in range(3)]
    group = world.run(batches.open_group(rows, then_row=id)).id
    world.complete(world.claim_one().lease)
    done = Step("", 0, "charge", "done", result='{"id": 7, "token": "hush"}')
    world.run(steps.record([Recording(lease, 1, [done, Step("", 1, "map:part", "done", result=str(group))])]))
    waits = [Wait("", 2, f"group:{group}", seconds=600.0), Wait("3.0", 0, "wait:shipped", seconds=60.0)]
    world.run(steps.park([Parking(lease, waits)]))
    return id


def test_a_flow_is_listed_and_shown_with_its_waits_and_its_children_counted(world: World) -> None:
    id = _waiting(world)
    with served(world, access=lambda _request: Access("ann", "operate")) as web:
        (line,) = web.get("/api/flows?state=waiting").json()["flows"]
        assert (line["id"], line["workflow"], line["version"]) == (str(id), "checkout", 2)
        assert web.get("/api/flows?workflow=other").json() == {"flows": []}
        shown = web.get(f"/api/flows/{id}").json()
        assert web.get(f"/api/flows/{uuid4()}").status_code == 404
    found = {step["name"].partition(":")[0]: step for step in shown["steps"]}
    assert found["charge"]["result"] == '{"id": 7, "token": "***"}'
    assert found["wait"]["until"] is not None
    children = found["group"]["children"]
    assert (children["size"], children["open"], children["ended"]) == (3, 2, False)


def test_flows_that_somebody_should_look_at_are_listed(world: World) -> None:
    id = _waiting(world)
    with served(world, access=lambda _request: Access("ann", "read")) as web:
        assert web.get("/api/flows/stuck").json() == {"stuck": []}
        world.run(steps.cancel_flow(id, reason="no stock"))
        (line,) = web.get("/api/flows/stuck?workflow=checkout").json()["stuck"]
        assert (line["id"], line["reason"]) == (str(id), "cancel")
        assert line["why"] == "asked to cancel, and has not begun to undo what it did"


def test_an_operator_signals_and_cancels_and_the_audit_knows(world: World) -> None:
    id = _waiting(world)
    roles = iter([Access("ann", "operate")] * 3 + [Access("eve", "read")] * 2)
    with served(world, access=lambda _request: next(roles)) as web:
        sent = web.post(f"/api/flows/{id}/signal", json={"name": "shipped", "payload": {"n": 1}})
        assert sent.json() == {"id": str(id), "outcome": "delivered"}
        assert web.post(f"/api/flows/{id}/cancel", json={"reason": "no stock"}).json()["outcome"] == "asked"
        assert web.post(f"/api/flows/{uuid4()}/cancel", json={}).status_code == 404
        assert web.post(f"/api/flows/{id}/signal", json={"name": "shipped"}).status_code == 403
        assert web.get(f"/api/flows/{id}").json()["cancel"] == "no stock"
    lines = [(line.actor, line.verb, line.target, line.rows) for line in world.run(operators.audit())]
    assert lines[1:] == [("ann", "cancel_flow", str(id), 1), ("ann", "signal", f"{id} shipped", 1)]
    assert lines[0][3] == 0


def test_the_actions_on_rows_ask_a_flow_to_undo_and_do_not_delete_it(world: World) -> None:
    id = _waiting(world)
    with served(world, access=lambda _request: Access("ann", "admin")) as web:

        def act(verb: str) -> int:
            asked = {"verb": verb, "filter": str(id), "dry_run": False, "expect": 1}
            return int(web.post("/api/actions", json=asked).json()["changed"])

        assert (act("delete"), act("cancel")) == (0, 1)
        shown = web.get(f"/api/flows/{id}").json()
    assert (shown["status"], shown["cancel"]) == ("pending", "cancelled by an operator")


def _saying(world: World) -> UUID:
    """A flow that has said a word."""
    id = _waiting(world)
    world.sql("INSERT INTO said (row_id, chunk) VALUES (%s, 'of patient 7')", id)
    return id


@pytest.mark.parametrize(("hidden", "chunk"), [(False, "of patient 7"), (True, None)])
def test_what_a_flow_says_is_hidden_where_payloads_are(world: World, hidden: bool, chunk: str | None) -> None:
    id = _saying(world)
    with (
        served(world, access=lambda _request: Access("ann", "read"), hide_payloads=hidden) as web,
        web.stream("GET", f"/api/flows/{id}/said") as told,
    ):
        data = next(line for line in told.iter_lines() if line.startswith("data:"))
    assert json.loads(data.removeprefix("data:"))["chunk"] == chunk


def test_one_actor_cannot_take_all_streams(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_stream, "_open", ["ann"] * flow_stream.OF_ONE_MAX)
    id = _saying(world)
    actors = iter(["ann", "bob"])
    with served(world, access=lambda _request: Access(next(actors), "read")) as web:
        refused = web.head(f"/api/flows/{id}/said")
        assert refused.status_code == 429
        assert web.head(f"/api/flows/{id}/said").status_code == 200


def test_what_a_step_named_like_a_secret_returns_is_not_shown(world: World) -> None:
    id = _waiting(world)
    world.sql("UPDATE steps SET name = 'password', result = '\"hush\"' WHERE name = 'charge'")
    with served(world, access=lambda _request: Access("ann", "operate")) as web:
        shown = web.get(f"/api/flows/{id}").json()
    assert [step["result"] for step in shown["steps"] if step["name"] == "password"] == ["***"]
