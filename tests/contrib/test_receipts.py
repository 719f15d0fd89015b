"""The example with FastAPI and SQLAlchemy does what its guide says: one transaction, a worker beside it, a drain."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg.conninfo import conninfo_to_dict

from crew import eventually
from servers import available
from tenure.postgres import migrate

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples/receipts/app.py"


@pytest.fixture
def database(started: Callable[[str], str]) -> Iterator[str]:
    """A database of its own, as the example wants it, with Tenure's tables."""
    server, name = started(available()[0]), f"receipts{os.getpid()}"
    url = server.replace(f"/{conninfo_to_dict(server)['dbname']}?", f"/{name}?")
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            with psycopg.connect(url, autocommit=True) as theirs:
                migrate.apply(theirs)
            yield url
        finally:
            conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def example(database: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example, loaded anew."""
    monkeypatch.setenv("TENURE_DATABASE_URL", database)
    spec = importlib.util.spec_from_file_location("receipts_example", APP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "receipts_example", module)
    spec.loader.exec_module(module)
    return module


def test_a_paid_order_gets_its_receipt_from_the_worker_beside_the_app(example: ModuleType, database: str) -> None:
    with TestClient(example.app, client=("127.0.0.1", 1), base_url="http://127.0.0.1") as client:
        assert client.post("/orders/7/pay").status_code == 200
        assert client.post("/orders/7/pay").status_code == 409
        eventually(lambda: client.get("/orders/7").json() == {"paid": True, "receipt": True})
        assert "Tenure" in client.get("/tenure/").text
    with psycopg.connect(database, autocommit=True) as conn:
        assert conn.execute("SELECT id FROM tenure.workers").fetchall() == []


def test_a_commit_that_fails_is_told_and_leaves_no_row(example: ModuleType, database: str) -> None:
    """With another scope the answer would be sent before the commit: 200 for an order that is not paid."""
    trigger = (
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE check_violation USING MESSAGE = 'never 13'; END $$; "
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW WHEN (NEW.id = 13) EXECUTE FUNCTION refuse()"
    )
    with TestClient(example.app, raise_server_exceptions=False) as client:
        with psycopg.connect(database, autocommit=True) as conn:
            conn.execute(trigger.encode())

        def answer() -> int:
            return int(client.post("/orders/13/pay").status_code)

        assert answer() == 500
        assert client.get("/orders/13").json() == {"paid": False, "receipt": False}
        _respond_first(example)
        assert answer() == 200, "the control: told before it is committed"
    with psycopg.connect(database) as conn:
        assert conn.execute("SELECT count(*) FROM tenure.inbox").fetchall() == [(0,)]


def _respond_first(example: ModuleType) -> None:
    """Let the route have the transaction with the usual scope."""
    router: Any = example.app.router
    (route,) = [each for each in router.routes if getattr(each, "path", "") == "/orders/{order_id}/pay"]
    for each in route.dependant.dependencies:
        each.scope = "request"


def test_the_guide_shows_the_example_itself() -> None:
    guide = (ROOT / "docs/guides/fastapi.md").read_text()
    source = APP.read_text()
    shown = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    pieces = [piece for block in shown for piece in block.split("\n\n\n")]
    assert len(pieces) > 4
    assert not [piece for piece in pieces if "# not in the example" not in piece and piece.strip() not in source]
