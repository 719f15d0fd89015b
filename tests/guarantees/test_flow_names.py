"""What a step cannot be named, what a workflow cannot be, and which version's options an instance begins with."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure import Inbox
from tenure.errors import BadSettings, IdempotencyConflict, InvalidPayload
from tenure.shapes.flow import Flow, Flows, Tries
from tenure.shapes.flow.core import Core
from tenure.shapes.flow.effects import Instance
from tenure.shapes.flow.lines import Branch
from tenure.shapes.flow.losers import unseen
from tenure.verbs.steps import Step
from world import World

pytestmark = pytest.mark.one_server
VERSIONS: dict[int, dict[str, Any]] = {
    1: {"priority": 3, "name": "old:{x}"},
    2: {"queue": "newq", "priority": 7, "deadline_seconds": 60},
}


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


@pytest.mark.parametrize("name", ["wait:approval", "group:users", "patch:a", "undo:a"])
@pytest.mark.parametrize("how", ["step", "fenced"])
def test_a_step_is_not_named_like_what_a_flow_records_by_itself(shop: Shop, name: str, how: str) -> None:
    @shop.flows.workflow("named")
    async def named(flow: Flow) -> None:
        await getattr(flow, how)(name, shop.ado, 1, retry=Tries(3))

    with shop.work():
        id = named.start(shop.world.conn).id
        eventually(lambda: shop.world.row(id).last_error)
    assert f"step '{name}' begins like what a flow records by itself" in (shop.world.row(id).last_error or "")
    assert shop.did == []


@pytest.mark.parametrize("name", ["sleep", "first", "parallel"])
def test_a_step_of_a_loser_is_not_taken_for_a_mark_of_ours_by_its_name(name: str) -> None:
    core, loser = Core(Instance(UUID(int=1), "w", 1), 0.0, ""), Branch("0.1", None)
    core.records["0.1", 0] = Step("0.1", 0, name, "done", args_hash=2 if name != "sleep" else 0)
    assert not unseen(core, [loser])
    core.records["0.1", 0] = Step("0.1", 0, name, "done", args_hash=-5_012_345_678_901_234_567)
    assert unseen(core, [loser])


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_an_instance_begins_with_the_options_of_the_newest_version(shop: Shop, order: tuple[int, int]) -> None:
    async def plain(flow: Flow, x: int) -> None: ...

    async def valued(flow: Flow, x: int) -> str:
        return f"value of {flow.version}"

    for version in order:
        made = shop.flows.workflow("v", version=version, **VERSIONS[version])(plain if version == 1 else valued)
    id = made.start(shop.world.conn, x=1).id
    row = shop.world.row(id)
    assert (row.queue, row.priority, msgspec.json.decode(row.headers or "{}").get("tenure-deadline")) == (
        "newq",
        7,
        "+60.000",
    )
    assert made.start(shop.world.conn, x=1).id == id  # of the name that an older version gave
    assert shop.inbox.queues == {"default": 1.0, "newq": 1.0}  # what began with version 1 is in the other one
    with shop.work():
        shop.ended(id)
    assert shop.world.sql("SELECT value FROM results")[0][0] == "value of 2"


def test_an_instance_of_an_older_version_goes_on_in_its_own_queue(shop: Shop) -> None:
    async def waits(flow: Flow) -> str:
        await flow.wait_for("go")
        return "value"

    async def none(flow: Flow) -> None: ...

    one = shop.flows.workflow("v", version=1, queue="oldq")(waits)
    id = one.start(shop.world.conn).id
    shop.flows.workflow("v", version=2, queue="newq")(none)
    one.of(id).signal(shop.world.conn, "go")
    with shop.work():
        shop.ended(id)
    assert shop.world.sql("SELECT value FROM results")[0][0] == "value"


def test_a_version_with_options_that_cannot_be_changes_nothing() -> None:
    inbox = Inbox()
    flows = Flows(inbox)

    async def body(flow: Flow) -> None: ...

    made = flows.workflow("v", version=1)(body)
    before = inbox.handlers["v"]
    every: tuple[dict[str, Any], ...] = ({"lease_seconds": 0}, {"max_attempts": 3}, {"nonsense": 1})
    for wrong in every:
        with pytest.raises(BadSettings):
            flows.workflow("v", version=2, **wrong)(body)
    assert sorted(made.versions) == [1]
    assert inbox.handlers["v"] is before is made.handler


def test_a_workflow_cannot_be_unique() -> None:
    async def body(flow: Flow) -> None: ...

    with pytest.raises(BadSettings, match="workflow 'v' cannot be unique"):
        Flows(Inbox()).workflow("v", unique="pending")(body)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "{"}, "has name='{', which cannot be read"),
        ({"name": "{x!z}"}, "which cannot be read .there is no conversion '!z'"),
        ({"name": "o:{y}"}, "has name='o:{y}', but it does not take 'y': it takes x"),
        ({"name": 5}, "has name=5: it must be text"),
        ({"cleanup_seconds": "x"}, "has cleanup_seconds='x': it must be a number"),
        ({"cleanup_seconds": -1}, "has cleanup_seconds=-1: it must be a number"),
        ({"cleanup_seconds": float("nan")}, "has cleanup_seconds=nan: it must be a number"),
    ],
)
def test_a_name_or_a_time_that_cannot_be_is_refused_where_it_is_written(wrong: dict[str, Any], why: str) -> None:
    async def body(flow: Flow, x: int) -> None: ...

    with pytest.raises(BadSettings, match=why):
        Flows(Inbox()).workflow("v", **wrong)(body)


def test_a_signal_that_can_be_sent_can_be_waited_for(shop: Shop) -> None:
    longest = "é" * 61 + "s"

    @shop.flows.workflow("waits")
    async def waits(flow: Flow, name: str) -> None:
        shop.do(await flow.wait_for(name))

    waits_for, refused = waits.start(shop.world.conn, name=longest), waits.start(shop.world.conn, name="")
    with shop.work():
        waits.of(waits_for.id).signal(shop.world.conn, longest, 1)
        shop.ended(waits_for.id)
        eventually(lambda: shop.world.row(refused.id).last_error)
    assert shop.did == [1]
    assert "signal='' has 0 bytes" in (shop.world.row(refused.id).last_error or "")
    with pytest.raises(BadSettings, match="is longer than 123 bytes"):
        waits.of(refused.id).signal(shop.world.conn, "s" * 124)
    with pytest.raises(InvalidPayload, match="NUL character"):
        waits.of(refused.id).signal(shop.world.conn, "s", once="a\0")


def test_a_second_start_of_a_name_with_another_input_is_refused(shop: Shop) -> None:
    @shop.flows.workflow("named", name="one")
    async def named(flow: Flow, x: int) -> None: ...

    id = named.start(shop.world.conn, x=1).id
    assert named.start(shop.world.conn, x=1).id == id
    with pytest.raises(IdempotencyConflict):
        named.start(shop.world.conn, x=2)
