"""The examples do what they say."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crew import eventually, working
from tenure.events import JobReleased
from world import World

pytestmark = pytest.mark.one_server
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """An example by its folder, imported as its worker imports it."""

    def loaded(name: str) -> Any:
        monkeypatch.syspath_prepend(str(EXAMPLES / name))
        return importlib.import_module("app")

    sys.modules.pop("app", None)
    yield loaded
    sys.modules.pop("app", None)


def test_thumbnails_are_made_in_processes_and_the_report_comes_once(
    world: World, load: Callable[[str], Any], tmp_path: Path
) -> None:
    app = load("thumbnails")
    app.inbox.use_schema(world.schema)
    for n, name in enumerate(("a.ppm", "b.ppm")):
        (tmp_path / name).write_bytes(b"P6 32 16 255\n" + bytes([n * 50 + 50, 0, 200]) * (32 * 16))
    (tmp_path / "notes.txt").write_bytes(b"no picture at all .")
    batch = app.send(world.conn, [str(tmp_path / name) for name in ("a.ppm", "b.ppm", "notes.txt")])
    with working(world, app.inbox, slots=2):
        found = app.thumbnail.result_blocking(batch.ids[0], timeout_seconds=60, url=world.url)
        assert found.value == {"path": str(tmp_path / "a.ppm.small"), "width": 8, "height": 4}
        eventually(lambda: app.reports)
    assert app.reports == ["3 done, 1 of them failed"]
    assert app.read(tmp_path / "b.ppm.small") == (8, 4, bytes([100, 0, 200]) * 32)
    assert "notes.txt is not a picture" in (world.row(batch.ids[2]).last_error or "")


def _ordinary(world: World, tables: str) -> None:
    """The tables of an example, where its handlers find them."""
    world.conn.execute("SELECT set_config('search_path', 'public', false)")
    world.conn.execute(tables.encode())
    for table in ("customers", "loaded", "messages"):
        if f" {table} " in tables:
            world.conn.execute(f"TRUNCATE {table}".encode())


def test_the_etl_loads_each_customer_in_order(world: World, load: Callable[[str], Any]) -> None:
    app = load("etl")
    app.inbox.use_schema(world.schema)
    _ordinary(world, app.TABLES)
    assert [app.start(world.conn), app.start(world.conn)] == ["enqueued", "duplicate"]
    with working(world, app.inbox):
        eventually(lambda: world.sql("SELECT count(*) FROM loaded") == [(app.PAGES * 3,)])
    assert world.sql("SELECT id, version FROM customers ORDER BY 1") == [(n, app.PAGES) for n in (1, 2, 3)]
    for customer in (1, 2, 3):
        order = world.sql("SELECT version FROM loaded WHERE customer = %s ORDER BY ctid", customer)
        assert order == [(version,) for version in range(1, app.PAGES + 1)]
    limits = f"SELECT max_running, rate_per_second FROM {world.schema}.queues WHERE queue = 'extract'"
    assert world.sql(limits) == [(2, 50.0)]


def test_an_agent_takes_its_steps_and_waits_when_it_is_told_to(
    world: World, load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = load("agents")
    app.inbox.use_schema(world.schema)
    _ordinary(world, app.TABLES)
    calls: list[str] = []
    answer = app.Parrot.answer

    async def busy_at_first(self: Any, said: list[tuple[str, str]], idempotency_key: str) -> Any:
        calls.append(idempotency_key)
        if len(calls) == 1:
            raise app.Busy(0.1)
        return await answer(self, said, idempotency_key)

    monkeypatch.setattr(app.Parrot, "answer", busy_at_first)
    with working(world, app.inbox) as hired:
        app.ask(world.conn, 1, "How is the weather in Berlin")
        said = "SELECT who, said FROM messages ORDER BY id"
        eventually(lambda: len(world.sql(said)) == 4)
        eventually(lambda: world.sql(f"SELECT 1 FROM {world.schema}.live") == [])
        assert hired.of(JobReleased)[0].error == "busy for 0.1 s"
    assert world.sql(said) == [
        ("user", "How is the weather in Berlin"),
        ("agent", "tool: weather Berlin"),
        ("tool", "sunny in Berlin"),
        ("agent", "It says: sunny in Berlin"),
    ]
    assert calls[0] == calls[1], "the same call, under the same key"
    assert world.sql(f"SELECT max(attempts) FROM {world.schema}.inbox") == [(1,)], "to wait costs no attempt"
