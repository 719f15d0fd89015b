"""Connections that a worker lends: the next borrower finds one as it was opened, whatever was set on it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg.types.string import TextBinaryLoader, TextLoader

from crew import working
from guarantees.facts import user_connection
from guarantees.flow_shop import Shop
from tenure import Inbox, Job, postgres, verbs
from tenure.events import JobCompleted
from tenure.model.rows import NewRow
from tenure.verbs import settle
from world import World

pytestmark = pytest.mark.one_server


@pytest.mark.parametrize("plain", [False, True])
def test_who_turns_autocommit_off_takes_no_write_from_the_next_borrower(world: World, plain: bool) -> None:
    inbox, saw = Inbox(schema=world.schema), list[Any]()
    world.sql("CREATE TABLE notes_of_ours (what text)")
    insert = f"INSERT INTO {world.schema}.notes_of_ours VALUES ('kept') RETURNING what".encode()

    if plain:

        @inbox.handler("careless")
        def careless(job: Job) -> None:
            with job.connection() as conn:
                conn.autocommit, conn.row_factory = False, dict_row

        @inbox.handler("next")
        def next_one(job: Job) -> None:
            with job.connection() as conn:
                saw.append(conn.execute(insert).fetchone())
    else:

        @inbox.handler("careless")
        async def careless(job: Job) -> None:
            async with job.connection() as conn:
                await conn.set_autocommit(False)
                conn.row_factory = dict_row

        @inbox.handler("next")
        async def next_one(job: Job) -> None:
            async with job.connection() as conn:
                saw.append(await (await conn.execute(insert)).fetchone())

    with working(world, inbox, slots=1) as hired:
        careless.enqueue(world.conn)
        hired.saw(JobCompleted)
        next_one.enqueue(world.conn)
        hired.saw(JobCompleted, 2)
    assert (saw, world.sql("SELECT what FROM notes_of_ours")) == ([("kept",)], [("kept",)])


class Strange(Dumper):
    """Sends something else, whatever it is given."""

    def dump(self, obj: Any) -> Buffer:  # noqa: ARG002
        return b"strange"


class StrangeLoader(Loader):
    """Reads something else, whatever the server has answered."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:  # noqa: ARG002
        return "strange"


def _spoil(adapters: Any) -> None:
    """Adapters of an application: every type of ours is sent and read in another way."""
    for kind in (str, int, float, bool, bytes, list, datetime, UUID, type(None)):
        adapters.register_dumper(kind, type("Strange", (Strange,), {"oid": 0}))
    for name in ("text", "int2", "int4", "int8", "float8", "bool", "uuid", "timestamptz", "jsonb", "text[]", "uuid[]"):
        kind = adapters.types[name.removesuffix("[]")]
        adapters.register_loader(kind.array_oid if name.endswith("[]") else kind.oid, StrangeLoader)


def test_adapters_that_a_handler_registers_are_not_those_of_its_workers_flows(world: World) -> None:
    shop = Shop(world)

    @shop.inbox.handler("careless")
    def careless(job: Job) -> None:
        with job.connection() as conn:
            conn.adapters.register_loader("uuid", TextLoader)
            conn.adapters.register_loader("uuid", TextBinaryLoader)
            _spoil(conn.adapters)

    @shop.flows.workflow("next")
    def next_one(flow: Any) -> list[str]:
        return [flow.step(each, shop.do, each, each) for each in ("one", "two")]

    with shop.work(slots=1) as hired:
        careless.enqueue(world.conn)
        hired.saw(JobCompleted)
        id = next_one.start(world.conn).id
        shop.ended(id)
    assert (shop.did, [each.token for each in hired.saw(JobCompleted, 2)]) == (["one", "two"], [1, 1])


def _live(world: World, conn: psycopg.Connection[Any]) -> None:
    """Live the whole life of a row on this connection."""
    at = datetime.now(UTC) + timedelta(days=1)
    row = NewRow("send_receipt", {"n": [1.5, None]}, key="order:1", idempotency_key="one", headers={"a": "b"})
    sent = world.run(verbs.enqueue(row), conn)
    assert (sent.outcome, world.run(verbs.enqueue(row), conn).outcome) == ("enqueued", "duplicate")
    later = world.run(verbs.enqueue(NewRow("later", at=at)), conn)
    (job,) = world.run(verbs.claim("A", 1), conn)
    assert (job.id, json.loads(job.payload), json.loads(job.headers or "")) == (sent.id, {"n": [1.5, None]}, {"a": "b"})
    assert world.run(verbs.renew([job.lease]), conn).lost == ()
    assert world.run(settle.complete([job.lease]), conn)[0].ok
    conn.commit()
    assert (world.status(sent.id), world.status(later.id)) == ("completed", "pending")
    assert world.sql("SELECT available_at FROM live") == [(at,)]


def test_a_row_lives_its_whole_life_on_a_connection_with_strange_adapters(world: World) -> None:
    conn = user_connection(world)
    _spoil(conn.adapters)
    _live(world, conn)
    assert conn.execute("SELECT 1::int8", binary=True).fetchone() == ("strange",)  # its own are as they were


FOR_ALL = """
import sys
import psycopg
from psycopg.types.string import TextBinaryLoader
from psycopg.types.json import set_json_loads

psycopg.adapters.register_loader("uuid", TextBinaryLoader)
set_json_loads(lambda _: "strange")

from tenure import postgres, verbs
from tenure.model.rows import NewRow

with postgres.connect(sys.argv[1], schema=sys.argv[2]) as conn:
    print(repr(postgres.run(conn, verbs.enqueue(NewRow("a")))))
"""


def test_an_application_may_set_adapters_for_every_connection_before_it_imports_tenure(world: World) -> None:
    said = subprocess.run(
        [sys.executable, "-c", FOR_ALL, world.url, world.schema], check=True, capture_output=True, text=True
    ).stdout
    ((id,),) = world.sql("SELECT id FROM live")
    assert repr(id) in said


def test_an_awaiting_connection_with_strange_adapters_enqueues_too(world: World) -> None:
    async def story() -> UUID:
        async with await psycopg.AsyncConnection.connect(world.url) as conn:
            _spoil(conn.adapters)
            return (await postgres.run(conn, verbs.enqueue(NewRow("a", {"n": 1})), world.schema)).id

    id = asyncio.run(story())
    assert world.sql("SELECT id, payload FROM live") == [(id, {"n": 1})]
