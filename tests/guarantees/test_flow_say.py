"""What a flow says while a step runs: written under its lease, a few times a second, read by people as it comes."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from faces.web_tools import served
from guarantees.flow_shop import Shop
from tenure import verbs
from tenure.cli.flow import command
from tenure.errors import BadSettings
from tenure.model.rows import Claimed
from tenure.shapes.flow import Flow
from tenure.verbs import operators, steps
from tenure.verbs.flows import said
from tenure.verbs.steps import Saying
from tenure.web.access import Access
from world import World

pytestmark = pytest.mark.one_server


def _held(world: World) -> Claimed:
    world.enqueue("research", headers={"tenure-flow": "research"})
    return world.claim_one()


def _stale(world: World) -> Claimed:
    lease = _held(world)
    world.expire(lease.lease)
    world.sweep()
    world.due()
    world.claim_one("B")
    return lease


def _chunks(world: World, lease: Claimed, after: int = 0) -> list[str]:
    return [each.chunk for each in world.run(said(lease.id, after))]


def test_a_holder_says_something_and_a_stale_one_nothing(world: World) -> None:
    lease = _held(world)
    assert world.run(steps.say([Saying(lease, "one "), Saying(lease, "two")])) == [lease.id]
    assert _chunks(world, lease) == ["one ", "two"]
    first = world.run(said(lease.id))[0].n
    assert _chunks(world, lease, first) == ["two"]
    world.complete(lease.lease)
    assert world.run(steps.say([Saying(lease, "late")])) == []
    old, stale = _held(world), _stale(world)
    world.expire(old.lease)
    assert world.run(steps.say([Saying(stale, "stale"), Saying(old, "expired")])) == []
    assert world.count("said") == 2


def test_without_the_token_a_stale_holder_would_speak(world: World) -> None:
    """The control: the same, with the guard taken out of the statement."""
    stale = _stale(world)
    text = (files("tenure.sql") / "verbs/say.sql").read_text().replace("tenure.", f"{world.schema}.")
    guard = next(line for line in text.splitlines() if "IN (SELECT l.id, l.generation" in line)
    params = steps.say([Saying(stale, "stale")]).params
    unguarded = text.replace(guard, "")
    for name in sorted(params, key=len, reverse=True):
        unguarded = unguarded.replace(f":{name}::", f"%({name})s::")
    world.conn.execute(unguarded.encode(), params)
    assert _chunks(world, stale) == ["stale"]


def test_what_was_said_is_erased_with_its_flow(world: World) -> None:
    lease = _held(world)
    world.run(steps.say([Saying(lease, "secret")]))
    world.complete(lease.lease)
    world.run(operators.erase([lease.id]))
    assert world.count("said") == 0
    world.sql("INSERT INTO said (row_id, chunk) SELECT id_at(clock_timestamp() - interval '20 days'), 'old'")
    world.run(verbs.archive())
    assert world.count("said") == 0


def test_what_a_step_says_is_there_when_it_ends_and_is_listened_to(world: World, tmp_path: Path) -> None:
    del tmp_path
    shop = Shop(world)

    async def model(question: str, say: Any) -> str:
        for word in ("It ", "depends\0", ".\ud83d"):  # half an emoji, as a stream of a model may cut it
            say(word)
        return question

    @shop.flows.workflow("research", name="ask")
    async def research(flow: Flow) -> None:
        with pytest.raises(BadSettings, match="takes text"):
            flow.say(7)  # type: ignore[arg-type]
        await flow.step("model", model, "why?", say=flow.say)

    with shop.work():
        id = research.start(world.conn).id
        shop.ended(id)
    assert "".join(each.chunk for each in world.run(said(id))) == "It depends.?"
    heard = CliRunner().invoke(command, ["listen", str(id), "--database-url", world.url, "--schema", world.schema])
    assert (heard.exit_code, heard.output) == (0, "It depends.?\n")
    with served(world, access=lambda _request: Access("ann", "read")) as web:
        stream = web.get(f"/api/flows/{id}/said")
        assert stream.headers["content-type"].startswith("text/event-stream")
        data = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: ")]
        assert "".join(each.get("chunk", "") for each in data) == "It depends.?"
        assert data[-1] == {"status": "completed"}
        last = max(each.n for each in world.run(said(id)))
        again = web.get(f"/api/flows/{id}/said", headers={"last-event-id": str(last)})
        assert "chunk" not in again.text
        assert web.get(f"/api/flows/{str(id)[::-1]}/said").status_code in (404, 422, 400)
