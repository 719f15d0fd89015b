"""The example runs: a tenant in its own process verifies what a worker sends, before, during and after a rotation."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import httpx
import psycopg
import pytest

from crew import Process, eventually, processes
from patience import SECONDS_MAX
from world import World

FOLDER = Path(__file__).parents[2] / "examples/tenant_webhooks"
pytestmark = pytest.mark.one_server


@contextmanager
def tenant(secrets: Path) -> Iterator[Queue[dict[str, Any]]]:
    """What it prints, line by line; the first has its port."""
    command = [sys.executable, str(FOLDER / "receiver.py"), str(secrets), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said: Queue[dict[str, Any]] = Queue()
        assert process.stdout is not None
        stdout = process.stdout

        def read() -> None:
            for line in stdout:
                said.put(json.loads(line))

        Thread(target=read, daemon=True).start()
        try:
            yield said
        finally:
            process.kill()


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("tenant_webhooks_app", FOLDER / "app.py")
    assert spec is not None
    assert spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    return app


def test_a_tenant_verifies_before_during_and_after_a_rotation_and_takes_nothing_forged(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = tmp_path / "secrets.txt"
    secrets.touch()
    with tenant(secrets) as said:
        port = said.get(timeout=SECONDS_MAX)["port"]
        monkeypatch.setenv("SHOP_LOCAL_PORT", str(port))
        monkeypatch.setenv("TENURE_SCHEMA", world.schema)
        monkeypatch.syspath_prepend(FOLDER)
        app = loaded()
        url = f"http://127.0.0.1:{port}/shop"
        endpoint = app.sign_up(world.conn, "acme", url)
        secrets.write_text(endpoint.secret)
        world.sql("CREATE TABLE payments (order_id bigint PRIMARY KEY, amount int)")
        worker = Process(world, "app:inbox", tmp_path)
        with processes(worker):
            app.pay(world.conn, "acme", 1, 4200)
            with pytest.raises(psycopg.errors.UniqueViolation):
                app.pay(world.conn, "acme", 1, 9999)
            assert said.get(timeout=SECONDS_MAX)["data"] == {"order_id": 1, "amount": 4200}
            second = app.rotate(world.conn, endpoint.id)
            app.pay(world.conn, "acme", 2, 1)  # the tenant has the old secret alone
            assert said.get(timeout=SECONDS_MAX)["data"]["order_id"] == 2
            secrets.write_text(second)
            app.pay(world.conn, "acme", 3, 1)  # and now the new one alone
            assert said.get(timeout=SECONDS_MAX)["data"]["order_id"] == 3
            world.sql("UPDATE endpoints SET before_until = clock_timestamp()")
            app.pay(world.conn, "acme", 4, 1)
            assert said.get(timeout=SECONDS_MAX)["data"]["order_id"] == 4
            secrets.write_text(endpoint.secret)  # the control: the old secret verifies nothing any more
            app.pay(world.conn, "acme", 5, 1)
            answered = "SELECT status FROM deliveries ORDER BY at DESC LIMIT 1"
            eventually(lambda: world.sql(answered) == [(401,)])
            forged = {"webhook-id": "x", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
            assert httpx.post(url, content=b"{}", headers=forged, trust_env=False).status_code == 401
            assert worker.end() == 0
        assert said.empty()
