"""Whatever takes a `url` and is given none finds the database in one way: variables, libpq's, the embedded Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

import tenure
from crew import eventually
from shapes.test_webhook_receive import Shop, standard
from tenure.app.inbox import Inbox
from tenure.contrib.beside import Beside
from tenure.contrib.celery import Celery
from tenure.embedded import default_database
from tenure.settings.known import LIBPQ, URLS
from world import World

pytestmark = pytest.mark.one_server
LIBPQ_NAMES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE", "password": "PGPASSWORD"}


@pytest.fixture(params=["TENURE_DATABASE_URL", "DATABASE_URL", "PG*", "embedded"])
def named(request: pytest.FixtureRequest, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The world's database, named in one of the ways there are."""
    for name in (*URLS, *LIBPQ, "TENURE_SCHEMA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TENURE_SCHEMA", world.schema)
    monkeypatch.setattr(default_database, "_attached", [])
    if request.param == "embedded":
        monkeypatch.setattr(default_database, "attach", lambda: SimpleNamespace(url=world.url))
    elif request.param == "PG*":
        for word, value in conninfo_to_dict(world.url).items():
            monkeypatch.setenv(LIBPQ_NAMES[word], str(value))
    else:
        monkeypatch.setenv(request.param, world.url)


def completed(world: World) -> Any:
    id = world.enqueue()
    world.complete(world.claim_one().lease)
    return id


def by_result(world: World) -> bool:
    inbox = Inbox(schema=world.schema)
    return asyncio.run(inbox.result(completed(world), timeout_seconds=20)).status == "completed"


def by_result_blocking(world: World) -> bool:
    inbox = Inbox(schema=world.schema)
    return inbox.result_blocking(completed(world), timeout_seconds=20).status == "completed"


def by_receive(world: World) -> bool:
    return Shop(world, url=None).post(standard()) == 202 and world.count("live") == 1


def by_delay(world: World) -> bool:
    app = Celery(Inbox(schema=world.schema))

    @app.task(name="add")
    def add(a: int) -> int:
        return a

    add.delay(1)
    return world.count("live") == 1


def by_a_worker_beside(world: World) -> bool:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("noop")
    def noop() -> None: ...

    with Beside(inbox):
        return bool(eventually(lambda: world.sql("SELECT 1 FROM workers")))


def by_connect(world: World) -> bool:
    with tenure.connect() as conn:
        return conn.info.dbname == world.conn.info.dbname


@pytest.mark.parametrize("found", [by_connect, by_result, by_result_blocking, by_receive, by_delay, by_a_worker_beside])
@pytest.mark.usefixtures("named")
def test_the_database_is_found(world: World, found: Callable[[World], bool]) -> None:
    assert found(world)
