"""Connections that a worker lends: the next borrower finds one as it was opened, whatever was set on it."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.rows import dict_row

from crew import working
from tenure import Inbox, Job
from tenure.events import JobCompleted
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
