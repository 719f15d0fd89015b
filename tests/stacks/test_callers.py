"""Whatever library holds the transaction: the row is in it, with the user's own rows, and with nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from stacks.held import EVERY, Held
from tenure.app.handler import Handler
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import IdempotencyConflict, NoConnection
from tenure.model.rows import NewRow
from tenure.postgres import run
from tenure.verbs import sending
from world import World

Receipt = Handler[..., ..., Any]
every_library = pytest.mark.parametrize("library", EVERY)
HARD = {
    "note": 'a "quoted" \\ text, {braces}, %s, $1, NULL, Ünïcode 🙂',
    "list": [1, None, {"a": 2.5}],
    "total": 10**15,
}


class StepFails(Exception):
    """What the user's own code raises."""


@pytest.fixture
def shop(world: World) -> World:
    """A world with a table of the user's own."""
    world.sql("CREATE TABLE orders (id int PRIMARY KEY)")
    return world


@pytest.fixture
def receipt(shop: World) -> Receipt:
    """A handler whose rows go to this world."""
    inbox = Inbox(schema=shop.schema)

    @inbox.handler("send_receipt", key="order:{order_id}")
    async def send_receipt(job: Job, order_id: int, more: Any = None) -> None: ...

    return send_receipt


async def answered(answer: Any) -> Any:
    """What a blocking connection answers at once, an async one after await."""
    return await answer if inspect.isawaitable(answer) else answer


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django refuses to block a loop; here nobody else is on it."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "yes")


def play(shop: World, library: str, scene: Callable[[Held], Awaitable[None]]) -> None:
    """Do this with a connection of the library, its transaction just begun."""

    async def whole() -> None:
        async with EVERY[library](shop.url) as held:
            await held.say(f'SET LOCAL search_path TO "{shop.schema}"')
            await scene(held)

    asyncio.run(whole())


def rows(shop: World) -> list[int]:
    return [shop.count("orders"), shop.count("live")]


@every_library
def test_what_is_committed_is_there_as_it_was_sent(shop: World, receipt: Receipt, library: str) -> None:
    async def scene(held: Held) -> None:
        await held.say("INSERT INTO orders VALUES (1)")
        await answered(receipt.using(priority=5, headers={"from": "shop"}).enqueue(held.conn, order_id=1, more=HARD))
        assert rows(shop) == [0, 0], "nobody sees it before the commit"
        await held.commit()

    play(shop, library, scene)
    assert rows(shop) == [1, 1]
    found = "SELECT payload, partition_key, priority, headers FROM live"
    assert shop.sql(found) == [({"order_id": 1, "more": HARD}, "order:1", 5, {"from": "shop"})]


def test_fields_may_be_given_in_order(shop: World, receipt: Receipt) -> None:
    receipt.enqueue(shop.conn, 1, more="thanks")
    assert shop.sql("SELECT payload FROM live") == [({"order_id": 1, "more": "thanks"},)]


@every_library
def test_what_is_rolled_back_was_never_there(shop: World, receipt: Receipt, library: str) -> None:
    async def scene(held: Held) -> None:
        await answered(receipt.enqueue(held.conn, order_id=1))
        await held.say("INSERT INTO orders VALUES (1)")
        await held.undo()

    play(shop, library, scene)
    assert rows(shop) == [0, 0]


@every_library
def test_a_savepoint_takes_back_its_own_rows_alone(shop: World, receipt: Receipt, library: str) -> None:
    async def scene(held: Held) -> None:
        await answered(receipt.enqueue(held.conn, order_id=1))
        with contextlib.suppress(StepFails):
            async with held.savepoint():
                await answered(receipt.enqueue(held.conn, order_id=2))
                raise StepFails
        await answered(receipt.enqueue(held.conn, order_id=3))
        await held.commit()

    play(shop, library, scene)
    assert shop.sql("SELECT partition_key FROM live ORDER BY 1") == [("order:1",), ("order:3",)]


@every_library
def test_an_idempotency_key_is_used_once(shop: World, receipt: Receipt, library: str) -> None:
    once = receipt.using(idempotency_key="receipt-1")

    async def scene(held: Held) -> None:
        first = await answered(once.enqueue(held.conn, order_id=1))
        again = await answered(once.enqueue(held.conn, order_id=1))
        assert (first.outcome, again.outcome, again.id) == ("enqueued", "duplicate", first.id)
        with pytest.raises(IdempotencyConflict, match="receipt-1"):
            await answered(once.enqueue(held.conn, order_id=2))
        await held.commit()

    play(shop, library, scene)
    assert shop.count("live") == 1


@every_library
def test_many_rows_go_in_with_one_statement(shop: World, receipt: Receipt, library: str) -> None:
    many = [
        NewRow("send_receipt", {"n": n, **HARD}, key=f"k{n}" if n % 2 else None, delay_seconds=n) for n in range(50)
    ]

    async def scene(held: Held) -> None:
        sent = await answered(run(held.conn, sending.enqueue_many(many), shop.schema))
        assert [each.outcome for each in sent] == ["enqueued"] * 50
        await held.commit()

    play(shop, library, scene)
    assert shop.sql("SELECT payload FROM live ORDER BY available_at") == [(row.payload,) for row in many]


@every_library
def test_an_error_of_the_users_own_takes_the_row_with_it(shop: World, receipt: Receipt, library: str) -> None:
    async def scene(held: Held) -> None:
        await answered(receipt.enqueue(held.conn, order_id=1))
        await held.say("INSERT INTO orders VALUES (1)")
        with pytest.raises(Exception, match="duplicate key"):
            await held.say("INSERT INTO orders VALUES (1)")
        with pytest.raises(Exception, match="abort"):
            await answered(receipt.enqueue(held.conn, order_id=2))
        await held.undo()

    play(shop, library, scene)
    assert rows(shop) == [0, 0]


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_a_row_sent_before_the_first_statement_of_the_session_does_not_escape(
    shop: World, receipt: Receipt, driver: str
) -> None:
    """SQLAlchemy begins the transaction of asyncpg with its first own statement: on the raw connection the row would be
    committed before it."""

    async def scene() -> None:
        engine = create_async_engine(shop.url.replace("postgresql://", f"postgresql+{driver}://", 1))
        with contextlib.suppress(StepFails):
            async with AsyncSession(engine) as session, session.begin():
                await receipt.enqueue(session, order_id=1)
                raise StepFails
        await engine.dispose()

    asyncio.run(scene())
    assert shop.count("live") == 0


def test_control_on_the_raw_connection_of_asyncpg_it_escapes(shop: World, receipt: Receipt) -> None:
    async def scene() -> None:
        engine = create_async_engine(shop.url.replace("postgresql://", "postgresql+asyncpg://", 1))
        with contextlib.suppress(StepFails):
            async with AsyncSession(engine) as session, session.begin():
                raw: Any = (await (await session.connection()).get_raw_connection()).driver_connection
                await receipt.enqueue(raw, order_id=1)
                raise StepFails
        await engine.dispose()

    asyncio.run(scene())
    assert shop.count("live") == 1


def test_a_pool_lends_a_connection_for_a_transaction_of_its_own(shop: World, receipt: Receipt) -> None:
    with psycopg_pool.ConnectionPool(shop.url, min_size=1) as pool:
        assert receipt.enqueue(pool, order_id=1).outcome == "enqueued"

    async def scene() -> None:
        async with psycopg_pool.AsyncConnectionPool(shop.url, min_size=1) as pool:
            assert (await receipt.enqueue(pool, order_id=2)).outcome == "enqueued"

    asyncio.run(scene())
    assert shop.count("live") == 2


def _wrong(url: str) -> Iterator[tuple[Any, str]]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    awaiting = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://", 1))
    lite = sqlalchemy.create_engine("sqlite://")
    yield None, "it is None"
    yield url, "a text is no connection"
    yield url.encode(), "builtins.bytes is no connection"
    yield 7, "builtins.int is no connection"
    yield {"host": "localhost"}, "builtins.dict is no connection"
    yield object(), "builtins.object is no connection"
    yield psycopg, "builtins.module is no connection"
    yield psycopg.Connection, "psycopg.Connection is no connection"
    yield engine, "an Engine has no transaction of yours"
    yield awaiting, "an AsyncEngine has no transaction of yours"
    yield sessionmaker(engine), "a sessionmaker makes sessions"
    yield async_sessionmaker(awaiting), "an async_sessionmaker makes sessions"
    yield lite.connect(), r"SQLAlchemy is connected by sqlite\+pysqlite"
    yield sqlalchemy.text("SELECT 1"), "TextClause is no connection"
    yield (lambda: None), "builtins.function is no connection"


def test_what_is_no_connection_is_refused_in_one_sentence(shop: World, receipt: Receipt) -> None:
    wrong = list(_wrong(shop.url))
    assert len(wrong) == 15
    for thing, sentence in wrong:
        with pytest.raises(NoConnection, match=sentence) as refused:
            receipt.enqueue(thing, order_id=1)
        assert "\n" not in str(refused.value)
        assert "postgresql://" not in str(refused.value), "an address may have a password"


def test_a_connection_that_was_not_awaited_is_refused(shop: World, receipt: Receipt) -> None:
    opening: Any = psycopg.AsyncConnection.connect(shop.url)
    with pytest.raises(NoConnection, match="await it first"):
        receipt.enqueue(opening, order_id=1)
    opening.close()
