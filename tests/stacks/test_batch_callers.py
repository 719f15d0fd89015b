"""A batch on a connection of any library: its rows and its end are in the user's transaction, all or none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from stacks.held import EVERY, Held
from tenure.app.batch import Batch
from tenure.app.inbox import Inbox
from tenure.errors import BadSettings, InvalidPayload, NoConnection
from tenure.postgres.callers import awaits
from world import World

every_library = pytest.mark.parametrize("library", EVERY)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django refuses to block a loop; here nobody else is on it."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "yes")


@pytest.fixture
def inbox(world: World) -> Inbox:
    """An inbox of this world, with a handler for the rows and one for what follows."""
    inbox = Inbox(schema=world.schema)

    @inbox.handler("resize")
    def resize(n: int) -> None: ...

    @inbox.handler("report")
    def report() -> None: ...

    return inbox


def sent(inbox: Inbox, conn: Any, **options: Any) -> Batch:
    return inbox.batch(conn, then=inbox.handlers["report"], **options)


async def send(inbox: Inbox, conn: Any, fill: Callable[[Batch], None], **options: Any) -> None:
    """One batch, by `with` or `async with` as the connection wants."""
    if awaits(conn):
        async with sent(inbox, conn, **options) as batch:
            fill(batch)
    else:
        with sent(inbox, conn, **options) as batch:
            fill(batch)


def three(inbox: Inbox) -> Callable[[Batch], None]:
    def fill(batch: Batch) -> None:
        for n in range(3):
            batch.add(inbox.handlers["resize"], n=n)

    return fill


def play(world: World, library: str, scene: Callable[[Held], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with EVERY[library](world.url) as held:
            await scene(held)

    asyncio.run(whole())


@every_library
def test_a_committed_batch_is_there_with_what_follows(world: World, inbox: Inbox, library: str) -> None:
    async def scene(held: Held) -> None:
        await send(inbox, held.conn, three(inbox))
        assert world.count("live") == 0, "nobody sees it before the commit"
        await held.commit()

    play(world, library, scene)
    assert sorted(kind for (kind,) in world.sql("SELECT kind FROM live")) == ["report", "resize", "resize", "resize"]


@every_library
def test_a_batch_that_is_rolled_back_was_never_there(world: World, inbox: Inbox, library: str) -> None:
    async def scene(held: Held) -> None:
        await send(inbox, held.conn, three(inbox))
        await held.undo()

    play(world, library, scene)
    assert (world.count("live"), world.count("groups")) == (0, 0)


@every_library
def test_a_batch_whose_block_raises_sends_nothing_and_the_transaction_goes_on(
    world: World, inbox: Inbox, library: str
) -> None:
    def fails(batch: Batch) -> None:
        three(inbox)(batch)
        raise LookupError("no such picture")

    async def scene(held: Held) -> None:
        with pytest.raises(LookupError):
            await send(inbox, held.conn, fails)
        await send(inbox, held.conn, three(inbox))
        await held.commit()

    play(world, library, scene)
    assert (world.count("live"), world.count("groups")) == (4, 1)


@every_library
@pytest.mark.parametrize("by", ["us", "the database"])
@pytest.mark.parametrize("first", [True, False])
def test_of_a_refused_batch_nothing_is_left_and_the_transaction_goes_on(
    world: World, inbox: Inbox, library: str, by: str, first: bool
) -> None:
    """What follows is sent before the rows; it is taken back, also where the batch is first in the transaction."""

    def refused(batch: Batch) -> None:
        three(inbox)(batch)
        if by == "us":
            batch.add(inbox.handlers["resize"].using(idempotency_key="a"), n=4)

    world.sql("ALTER TABLE groups ADD CONSTRAINT never CHECK (name <> 'refused')")

    async def scene(held: Held) -> None:
        if not first:
            await held.say(f"CREATE TABLE {world.schema}.before ()")
        with pytest.raises(Exception, match=r"counts new rows|never"):
            await send(inbox, held.conn, refused, name="refused" if by == "the database" else None)
        await held.commit()

    play(world, library, scene)
    assert (world.count("live"), world.count("groups")) == (0, 0)
    assert world.sql("SELECT to_regclass('before') IS NULL") == [(first,)], "what was there before stays"


@every_library
def test_a_chain_that_was_refused_is_mended_and_sent_again(world: World, inbox: Inbox, library: str) -> None:
    async def scene(held: Held) -> None:
        last = sent(inbox, held.conn)
        last.add(inbox.handlers["resize"], n=1)
        first = inbox.batch(held.conn, then=last)
        first.add(inbox.handlers["resize"].using(idempotency_key="a"), n=2)
        with pytest.raises(InvalidPayload, match="counts new rows"):
            await close(first, held.conn)
        assert [(each.id, each.ids, each.then_id) for each in (first, last)] == [(None, [], None)] * 2
        first.rows.clear()
        first.add(inbox.handlers["resize"], n=2)
        await close(first, held.conn)
        with pytest.raises(InvalidPayload, match=f"batch {first.id} was sent already"):
            await close(first, held.conn)
        assert (len(first.ids), len(last.ids)) == (1, 1), "what was sent stays so"
        await held.commit()

    play(world, library, scene)
    assert (world.count("live"), world.count("groups")) == (3, 2)


async def close(batch: Batch, conn: Any) -> None:
    """Send it as it is."""
    if awaits(conn):
        async with batch:
            pass
    else:
        with batch:
            pass


@pytest.mark.parametrize("conn", [None, "postgresql://somewhere", object()])
def test_what_is_no_connection_is_refused_before_the_rows_are_made(inbox: Inbox, conn: Any) -> None:
    with pytest.raises(NoConnection, match=r"pass the one of your transaction"), sent(inbox, conn):
        pytest.fail("the block has begun")


def test_an_async_connection_wants_async_with_and_a_plain_one_with(world: World, inbox: Inbox) -> None:
    async def plain_on_a_loop() -> None:
        async with sent(inbox, world.conn):
            pytest.fail("the block has begun")

    async def awaiting_without_a_loop() -> None:
        async with await psycopg.AsyncConnection.connect(world.url) as conn:
            with sent(inbox, conn):
                pytest.fail("the block has begun")

    with pytest.raises(TypeError, match="not async: write `with`"):
        asyncio.run(plain_on_a_loop())
    with pytest.raises(TypeError, match="is async: write `async with`"):
        asyncio.run(awaiting_without_a_loop())


def test_a_batch_in_autocommit_is_refused(world: World, inbox: Inbox) -> None:
    url = world.url.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with Session(engine) as session, pytest.raises(BadSettings, match="AUTOCOMMIT"), sent(inbox, session) as batch:
        three(inbox)(batch)
    assert world.count("live") == 0
