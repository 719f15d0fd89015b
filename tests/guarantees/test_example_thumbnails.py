"""The example of batches does what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from crew import eventually, working
from world import World

pytestmark = pytest.mark.one_server
APP = Path(__file__).parents[2] / "examples" / "thumbnails" / "app.py"


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("thumbnails", APP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_report_comes_once_after_the_last_thumbnail(world: World) -> None:
    app = _loaded()
    app.inbox.use_schema(world.schema)
    batch = app.send(world.conn, ["a.png", "b.png", "notes.txt"])
    with working(world, app.inbox):
        found = app.inbox.result_blocking(batch.ids[0], timeout_seconds=60, url=world.url)
        assert found.value == {"path": "a.png.small", "width": 64}
        eventually(lambda: app.reports)
    assert app.reports == ["3 done, 1 of them failed"]
