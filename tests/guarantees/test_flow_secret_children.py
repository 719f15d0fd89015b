"""Children whose values are encrypted, and those that are unique: a flow is told what they returned, each of them."""

from __future__ import annotations

from typing import Any

import pytest

from crew import eventually, working
from guarantees.flow_shop import Shop
from tenure import Codec, Inbox
from tenure.shapes.flow import Flow, Flows
from world import World

pytestmark = pytest.mark.one_server


class Secrets(Shop):
    """A shop whose inbox encrypts."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.inbox = Inbox(schema=world.schema, codec=Codec({"k1": b"x" * 32}))
        self.flows = Flows(self.inbox)


@pytest.mark.parametrize("blocking", [False, True])
def test_a_flow_is_told_encrypted_values_in_clear_and_its_records_are_encrypted(world: World, blocking: bool) -> None:
    shop, told = Secrets(world), list[Any]()

    @shop.inbox.handler("enc", result=True)
    async def enc(secret: str) -> Any:
        return {"got": f"of {secret}"} if secret != "plain" else secret

    def told_as(one: Any, ends: list[Any]) -> None:
        told.append((one, [end.value for end in ends]))

    inputs = [{"secret": "agent"}, {"secret": "plain"}]
    if blocking:

        @shop.flows.workflow("caller", encrypt=False)
        def caller(flow: Flow) -> None:
            told_as(flow.call(enc, secret="agent"), flow.map(enc, inputs))
            flow.sleep(3600)

    else:

        @shop.flows.workflow("caller", encrypt=False)
        async def caller(flow: Flow) -> None:
            told_as(await flow.call(enc, secret="agent"), await flow.map(enc, inputs))
            await flow.sleep(3600)

    with shop.work():
        id = caller.start(world.conn).id
        eventually(lambda: shop.recorded("sleep", "waiting"))
        shop.asleep(id)
        world.sql("DELETE FROM results")  # what the flow has seen stays so
        shop.forward()
        shop.ended(id)
    assert len(told) > 1
    assert told == [({"got": "of agent"}, [{"got": "of agent"}, "plain"])] * len(told)
    recorded = world.sql("SELECT string_agg(result::text, ' ') FROM steps")[0][0]
    assert "$encrypted" in recorded
    assert "agent" not in recorded


def test_children_of_a_unique_handler_are_sent_each(world: World) -> None:
    shop, told = Shop(world), list[Any]()

    @shop.inbox.handler("one", unique="pending", result=True)
    async def one(a: int) -> int:
        return a

    @shop.flows.workflow("maps")
    async def maps(flow: Flow) -> None:
        told.append([end.value for end in await flow.map(one, [1, 1, 1])])
        told.append(await flow.call(one, a=2))

    with working(world, shop.inbox, poll_seconds=0.2):
        shop.ended(maps.start(world.conn).id)
    assert told[-2:] == [[1, 1, 1], 2]
