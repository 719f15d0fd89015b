"""The example runs: a payment that commits is told to NATS by a real worker, one that rolls back is not."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import psycopg
import pytest

from brokers import nats_server
from crew import Process, eventually, processes
from shapes.relay_tools import in_stream, make_stream, now
from world import World

FOLDER = Path(__file__).parents[2] / "examples/shop_events"
pytestmark = pytest.mark.one_server


def test_a_payment_that_commits_is_told_and_one_that_does_not_is_not(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nats_server() as broker:
        now(make_stream(broker.url))
        monkeypatch.setenv("SHOP_NATS", broker.url)
        monkeypatch.setenv("TENURE_SCHEMA", world.schema)
        monkeypatch.syspath_prepend(FOLDER)
        spec = importlib.util.spec_from_file_location("shop_events_app", FOLDER / "app.py")
        assert spec is not None
        assert spec.loader is not None
        app = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(app)
        world.sql("CREATE TABLE payments (order_id bigint PRIMARY KEY, amount int)")
        app.pay(world.conn, 9182, 4200)
        with pytest.raises(psycopg.errors.UniqueViolation):
            app.pay(world.conn, 9182, 4200)
        worker = Process(world, "app:inbox", tmp_path)
        with processes(worker):
            eventually(lambda: world.count("live") == 0)
            assert worker.end() == 0
        (told,) = now(in_stream(broker.url))
        assert json.loads(told.body) == {"order_id": 9182, "amount": 4200}
        assert told.key == "order:9182"
