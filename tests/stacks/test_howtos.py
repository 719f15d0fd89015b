"""The how-to pages do what they say: their modules are written out and imported, and their rows come to their ends."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

import tenure
from crew import eventually, working
from tenure.errors import IdempotencyConflict
from tenure.verbs import schedules
from tenure.verbs.queues import queues
from world import World

pytestmark = pytest.mark.one_server
GUIDES = Path(__file__).resolve().parents[2] / "docs/guides"


@pytest.fixture
def modules(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """The modules of a page on this world's schema, with the tables of its shop; `app` is imported."""
    monkeypatch.setenv("TENURE_DATABASE_URL", f"{world.url}&options=-c%20search_path%3D{world.schema}")
    monkeypatch.setenv("TENURE_SCHEMA", world.schema)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def imported(page: str) -> Any:
        text = (GUIDES / page).read_text()
        for name, body in re.findall(r"```python\n# (\S+?)\.py\n(.*?)```", text, re.DOTALL):
            tmp_path.joinpath(f"{name}.py").write_text(body)
            names.append(name)
        app = importlib.import_module("app")
        app.inbox.use_schema(world.schema)
        return app

    world.sql("CREATE TABLE orders (id int PRIMARY KEY)")
    world.sql("CREATE TABLE receipts (order_id int PRIMARY KEY, fence bigint)")
    yield imported
    world.sql("DROP TABLE orders, receipts")
    for name in names:
        sys.modules.pop(name, None)


def test_sqlalchemy(modules: Callable[[str], Any], world: World) -> None:
    app = modules("sqlalchemy.md")
    assert app.pay(1) == "enqueued"
    with pytest.raises(Exception, match="duplicate key"):
        app.pay(1)
    with working(world, app.inbox):
        eventually(lambda: world.count("receipts") == 1)
        eventually(lambda: world.sql("SELECT status FROM inbox") == [("completed",)])
    app.engine.dispose()


def test_sqlalchemy_on_a_loop(modules: Callable[[str], Any], world: World) -> None:
    modules("sqlalchemy.md")
    loop = importlib.import_module("on_a_loop")
    loop.inbox.use_schema(world.schema)

    async def paid() -> str:
        outcome = await loop.pay(2)
        await loop.engine.dispose()
        return str(outcome)

    assert asyncio.run(paid()) == "enqueued"
    with working(world, loop.inbox):
        eventually(lambda: world.count("receipts") == 1)


def test_asyncpg(modules: Callable[[str], Any], world: World) -> None:
    app = modules("asyncpg.md")

    async def paid() -> list[str]:
        conn = await asyncpg.connect(world.url, server_settings={"search_path": world.schema})
        try:
            told = [await app.pay(conn, 3)]
            with pytest.raises(asyncpg.UniqueViolationError):
                await app.pay(conn, 3)
            return told
        finally:
            await conn.close()

    assert asyncio.run(paid()) == ["enqueued"]
    with working(world, app.inbox):
        eventually(lambda: world.count("receipts") == 1)
    assert world.count("orders") == 1


def test_retries(modules: Callable[[str], Any], world: World) -> None:
    charge = modules("retries.md").charge_card
    ends = {
        "busy": ("pending", 1),
        "try later": ("pending", 1),
        "closed": ("pending", 0),
        "unknown card": ("failed", 1),
        "odd": ("dead_letter", 1),
        "fine": ("completed", 1),
    }
    sent = {said: charge.enqueue(world.conn, order_id=1, said=said).id for said in ends}
    with working(world, modules("retries.md").inbox):
        eventually(lambda: {said: _end(world, id) for said, id in sent.items()} == ends)


def _end(world: World, id: UUID) -> tuple[str, int]:
    row = world.row(id)
    return row.status, row.attempts


def test_limits(modules: Callable[[str], Any], world: World) -> None:
    app = modules("rates.md")
    assert list(app.inbox.queues) == ["call_llm"]
    with working(world, app.inbox):
        eventually(lambda: [each.max_running for each in world.run(queues()) if each.queue == "call_llm"] == [4])


def test_cron(modules: Callable[[str], Any], world: World) -> None:
    app = modules("cron.md")
    with working(world, app.inbox):
        planned = eventually(lambda: {each.name: each for each in world.run(schedules.schedules())})
    assert {name: each.zone for name, each in planned.items()} == {"nightly": "Europe/Berlin", "carts": "UTC"}


def test_the_same_key_with_other_content_is_refused(modules: Callable[[str], Any]) -> None:
    charge = modules("retries.md").charge_card.using(idempotency_key="one")
    with tenure.connect() as conn:
        charge.enqueue(conn, order_id=1, said="fine")
        with pytest.raises(IdempotencyConflict):
            charge.enqueue(conn, order_id=2, said="fine")
