"""A fenced transaction on a connection of any library: its writes and the completion commit together, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import psycopg_pool
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from stacks.held import EVERY, Held, django_alias, sqlalchemy_session
from tenure import fenced
from tenure.errors import BadSettings, NoConnection, StaleLease
from tenure.model.rows import Claimed
from world import World

every_library = pytest.mark.parametrize("library", EVERY)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django refuses to block a loop; here nobody else is on it."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "yes")


@pytest.fixture
def shop(world: World) -> World:
    """A world with a table of the user's own, and one row to work on."""
    world.sql("CREATE TABLE orders (id int PRIMARY KEY)")
    world.enqueue()
    return world


Body = Callable[[Held], Awaitable[None]]


def play(shop: World, library: str, job: Claimed, body: Body) -> None:
    """Do this inside a fence on a connection of the library that is in no transaction."""

    async def whole() -> None:
        async with EVERY[library](shop.url) as held:
            await held.undo()
            block: Any = fenced(held.conn, job.lease, schema=shop.schema)
            try:
                given = await block.__aenter__()
            except TypeError:  # this one is not async
                with block as given:
                    assert given is held.conn
                    await body(held)
                return
            assert given is held.conn
            try:
                await body(held)
            except BaseException as error:
                if not await block.__aexit__(type(error), error, error.__traceback__):
                    raise
            else:
                await block.__aexit__(None, None, None)

    asyncio.run(whole())


def write(shop: World, n: int = 1) -> Body:
    async def body(held: Held) -> None:
        await held.say(f'INSERT INTO "{shop.schema}".orders VALUES ({n})')

    return body


@every_library
def test_writes_and_completion_commit_together(shop: World, library: str) -> None:
    job = shop.claim_one("A")
    play(shop, library, job, write(shop))
    assert (shop.count("orders"), shop.status(job.id)) == (1, "completed")


@every_library
def test_an_error_takes_both_back(shop: World, library: str) -> None:
    job = shop.claim_one("A")

    async def body(held: Held) -> None:
        await write(shop)(held)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(shop, library, job, body)
    assert (shop.count("orders"), shop.status(job.id)) == (0, "processing")


@every_library
def test_who_has_lost_the_lease_meanwhile_writes_nothing(shop: World, library: str) -> None:
    job = shop.claim_one("A")

    async def body(held: Held) -> None:
        await write(shop)(held)
        shop.expire(job.lease)
        shop.sweep()
        shop.due()
        assert shop.claim_one("B").id == job.id

    with pytest.raises(StaleLease):
        play(shop, library, job, body)
    assert (shop.count("orders"), shop.status(job.id)) == (0, "processing")


@every_library
def test_who_has_lost_it_before_does_not_begin(shop: World, library: str) -> None:
    job = shop.claim_one("A")
    shop.expire(job.lease)

    async def body(held: Held) -> None:
        raise AssertionError("the body runs")

    with pytest.raises(StaleLease):
        play(shop, library, job, body)


@every_library
def test_inside_another_transaction_it_is_refused(shop: World, library: str) -> None:
    job = shop.claim_one("A")

    async def whole() -> None:
        async with EVERY[library](shop.url) as held:
            await held.say("SELECT 1")
            block: Any = fenced(held.conn, job.lease, schema=shop.schema)
            try:
                await block.__aenter__()
            except TypeError:
                block.__enter__()

    with pytest.raises(BadSettings, match="not in a transaction"):
        asyncio.run(whole())


class Base(DeclarativeBase):
    """Tables of the user's."""


class Order(Base):
    """An order, as its author has declared it."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


def test_what_a_session_has_not_flushed_is_written_with_the_completion(shop: World) -> None:
    job = shop.claim_one("A")

    async def whole() -> None:
        async with sqlalchemy_session(shop.url) as held:
            session: Session = held.conn
            with fenced(session, job.lease, schema=shop.schema):
                session.execute(text(f'SET LOCAL search_path TO "{shop.schema}"'))
                session.add(Order(id=7))

    asyncio.run(whole())
    assert (shop.sql("SELECT id FROM orders"), shop.status(job.id)) == ([(7,)], "completed")


def test_a_body_that_commits_by_itself_completes_nothing(shop: World) -> None:
    job = shop.claim_one("A")

    async def whole() -> None:
        async with sqlalchemy_session(shop.url) as held:
            with fenced(held.conn, job.lease, schema=shop.schema):
                held.conn.commit()

    with pytest.raises(BadSettings, match="leave COMMIT and ROLLBACK to fenced"):
        asyncio.run(whole())
    assert shop.status(job.id) == "processing"


@every_library
@pytest.mark.parametrize("words", ["COMMIT AND CHAIN", "ROLLBACK AND CHAIN"])
def test_a_body_that_begins_another_transaction_completes_nothing(shop: World, library: str, words: str) -> None:
    """To every driver it looks like the one that was there."""
    job = shop.claim_one("A")

    async def body(held: Held) -> None:
        await held.say(words)
        await held.say(f"INSERT INTO {shop.schema}.orders VALUES (1)")

    with pytest.raises(BadSettings, match="leave COMMIT and ROLLBACK to fenced"):
        play(shop, library, job, body)
    assert (shop.status(job.id), shop.count("orders")) == ("processing", 0)


def test_a_block_that_django_has_marked_to_be_undone_completes_nothing(shop: World) -> None:
    job = shop.claim_one("A")
    conn = django_alias(shop.url)
    with pytest.raises(BadSettings, match="ended its transaction"), fenced(conn, job.lease, schema=shop.schema):
        conn.set_rollback(True)
    assert shop.status(job.id) == "processing"
    conn.close()


def test_a_pool_and_what_is_no_connection_are_refused(shop: World) -> None:
    job = shop.claim_one("A")
    with psycopg_pool.ConnectionPool(shop.url, min_size=1) as pool:
        for thing, sentence in ((pool, "a pool lends connections"), ("postgresql://", "a text")):
            block: Any = fenced(thing, job.lease, schema=shop.schema)  # type: ignore[arg-type]
            with pytest.raises(NoConnection, match=sentence), contextlib.ExitStack() as stack:
                stack.enter_context(block)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_in_autocommit_of_sqlalchemy_nothing_would_commit_together_so_it_is_refused(shop: World, driver: str) -> None:
    job = shop.claim_one("A")
    url = shop.url.replace("postgresql://", f"postgresql+{driver}://", 1)

    async def on_a_loop() -> None:
        engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
        async with AsyncSession(engine) as session, fenced(session, job.lease, schema=shop.schema):
            await session.execute(text(f'INSERT INTO "{shop.schema}".orders VALUES (1)'))

    with pytest.raises(BadSettings, match="AUTOCOMMIT"):
        asyncio.run(on_a_loop())
    assert (shop.count("orders"), shop.status(job.id)) == (0, "processing")


def test_a_blocking_session_in_autocommit_is_refused_and_may_say_otherwise(shop: World) -> None:
    job = shop.claim_one("A")
    engine = create_engine(shop.url.replace("postgresql://", "postgresql+psycopg://", 1), isolation_level="AUTOCOMMIT")
    refused = pytest.raises(BadSettings, match="AUTOCOMMIT")
    with Session(engine) as session, refused, fenced(session, job.lease, schema=shop.schema):
        session.execute(text(f'INSERT INTO "{shop.schema}".orders VALUES (1)'))
    assert (shop.count("orders"), shop.status(job.id)) == (0, "processing")
    usual = engine.execution_options(isolation_level="READ COMMITTED")
    with Session(usual) as session, fenced(session, job.lease, schema=shop.schema):
        session.execute(text(f'INSERT INTO "{shop.schema}".orders VALUES (1)'))
    assert (shop.count("orders"), shop.status(job.id)) == (1, "completed")


def test_a_closed_connection_is_called_closed(shop: World) -> None:
    job = shop.claim_one("A")
    conn = psycopg.connect(shop.url)
    conn.close()
    with pytest.raises(BadSettings, match="closed: open another"), fenced(conn, job.lease, schema=shop.schema):
        pytest.fail("the block has begun")
