"""The apps of the guides for Litestar and Flask, as they stand there: a transaction, a worker, a mounted dashboard."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from crew import eventually
from tenure.app.inbox import Inbox
from tenure.contrib.beside import Beside
from tenure.errors import SchemaMismatch
from world import World

pytestmark = pytest.mark.one_server
GUIDES = Path(__file__).parents[2] / "docs/guides"


def blocks(guide: str) -> list[str]:
    """The Python of a guide."""
    return re.findall(r"```python\n(.*?)```", (GUIDES / guide).read_text(), re.DOTALL)


@pytest.fixture
def app_of(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The app of a guide on this world's schema, with the tables of its shop."""
    url = f"{world.url}&options=-c%20search_path%3D{world.schema}"
    monkeypatch.setenv("TENURE_DATABASE_URL", url)
    monkeypatch.setenv("TENURE_SCHEMA", world.schema)
    world.sql("CREATE TABLE orders (id int PRIMARY KEY)")
    world.sql("CREATE TABLE receipts (order_id int PRIMARY KEY)")

    def made(guide: str) -> ModuleType:
        module = ModuleType("app_of_a_guide")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        text = blocks(guide)[0].replace('"postgresql+asyncpg://", 1)', '"postgresql+psycopg://", 1)')
        exec(compile(text, str(GUIDES / guide), "exec"), vars(module))  # noqa: S102
        return module

    yield made
    world.sql("DROP TABLE orders, receipts")


def test_litestar(app_of: Any, world: World) -> None:
    from litestar.testing import TestClient

    app = app_of("litestar.md").app
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        assert client.post("/orders/1/pay").status_code == 201
        assert client.post("/orders/1/pay").status_code == 500, "it is there already"
        eventually(lambda: world.count("receipts") == 1)
        assert "Tenure" in client.get("/tenure/").text
    assert world.sql("SELECT count(*) FROM inbox") == [(1,)], "what was rolled back is not there"


def test_flask(app_of: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    module = app_of("flask.md")
    client = module.app.test_client()
    assert client.post("/orders/1/pay").status_code == 200
    assert client.post("/orders/1/pay").status_code == 500, "it is there already"
    stops: list[Any] = []
    monkeypatch.setattr("atexit.register", stops.append)
    exec(blocks("flask.md")[1], vars(module))  # noqa: S102
    try:
        eventually(lambda: world.count("receipts") == 1)
    finally:
        assert [stop() for stop in stops] == [0]
    assert world.sql("SELECT count(*) FROM inbox") == [(1,)], "what was rolled back is not there"


def test_what_keeps_a_worker_from_starting_ends_the_start(world: World) -> None:
    inbox = Inbox(schema="nothing_here")
    inbox.handler("noop")(lambda: None)
    with pytest.raises(SchemaMismatch, match="missing"), Beside(inbox, world.url):
        raise AssertionError("it has started")


def test_it_gives_back_what_does_not_end_in_time(world: World) -> None:
    inbox = Inbox(schema=world.schema)
    began: list[int] = []

    @inbox.handler("stay")
    async def stay() -> None:
        import asyncio

        began.append(1)
        await asyncio.sleep(3600)

    with Beside(inbox, world.url, drain_seconds=0.1):
        stay.enqueue(world.conn)
        eventually(lambda: began)
    assert world.sql("SELECT status, attempts FROM inbox") == [("pending", 0)]


@pytest.mark.parametrize("seconds", [0, 0.05, 0.2])
def test_one_that_is_stopped_as_soon_as_it_has_started_leaves_the_registry_too(world: World, seconds: float) -> None:
    inbox = Inbox(schema=world.schema)
    inbox.handler("noop")(lambda: None)
    with Beside(inbox, world.url):
        time.sleep(seconds)  # its thread for leases is still about to enter
    assert world.sql("SELECT id FROM workers") == []
