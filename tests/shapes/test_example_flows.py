"""The examples of workflows do what they say: a checkout that leaves nothing half done, an agent that asks first."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg.conninfo import make_conninfo

from crew import eventually, working
from world import World

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.one_server


def _loaded(name: str, world: World) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / name / "app.py")
    assert spec is not None
    assert spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    app.inbox.use_schema(world.schema)
    return app


def _url(world: World) -> str:
    """The tables of the example stand in the world's schema."""
    return make_conninfo(world.url, options=f"-csearch_path={world.schema}")


@pytest.fixture
def shop(world: World) -> Iterator[Any]:
    """The checkout, with three lamps, while a worker runs."""
    app = _loaded("checkout", world)
    for table in app.TABLES:
        world.sql(table)
    world.sql("INSERT INTO stock VALUES ('lamp', 3)")
    with working(world, app.inbox, url=_url(world)):
        yield app


def _ended(world: World, id: UUID, status: str) -> None:
    eventually(lambda: world.row(id).status in ("completed", "failed", "cancelled", "dead_letter"))
    assert world.status(id) == status, world.row(id)


def _free(world: World) -> int:
    return int(world.sql("SELECT free FROM stock")[0][0])


def _waits(world: World, id: UUID, name: str) -> bool:
    return bool(world.sql("SELECT 1 FROM steps WHERE row_id = %s AND name = %s AND state = 'waiting'", id, name))


def test_a_checkout_charges_once_and_ends_with_a_receipt(world: World, shop: Any) -> None:
    id = shop.order(world.conn, 9182, "lamp", "visa", 4200)
    assert shop.order(world.conn, 9182, "lamp", "visa", 4200) == id
    assert shop.scan(world.conn, 9182, "XYZ") in ("queued", "delivered")
    _ended(world, id, "completed")
    assert world.sql("SELECT order_id, tracking FROM receipts") == [(9182, "XYZ")]
    assert (_free(world), list(shop.bank.charges.values())) == (2, [4200])


def test_a_declined_card_gives_the_lamp_back(world: World, shop: Any) -> None:
    id = shop.order(world.conn, 1, "lamp", "declined", 4200)
    eventually(lambda: world.sql("SELECT 1 FROM steps WHERE name = 'charge' AND state IN ('retrying', 'failed')"))
    world.due()
    _ended(world, id, "failed")
    assert (_free(world), shop.bank.charges) == (3, {})
    undos = world.sql("SELECT name FROM steps WHERE path = 'undo' ORDER BY recorded_at")
    assert undos == [("undo:charge",), ("undo:reserve",)]


def test_a_lamp_that_was_never_there_is_not_given_back(world: World, shop: Any) -> None:
    world.sql("UPDATE stock SET free = 0")
    id = shop.order(world.conn, 1, "lamp", "visa", 4200)
    _ended(world, id, "failed")
    assert (_free(world), shop.bank.charges) == (0, {})


def test_an_order_that_is_cancelled_is_refunded_and_its_lamp_is_free_again(world: World, shop: Any) -> None:
    id = shop.order(world.conn, 2, "lamp", "visa", 99)
    eventually(lambda: _waits(world, id, "wait:shipped"))
    assert (_free(world), list(shop.bank.charges.values())) == (2, [99])
    assert shop.checkout.of("order:2").cancel(world.conn, "changed my mind")[1] == "asked"
    _ended(world, id, "cancelled")
    assert (_free(world), shop.bank.charges, world.count("receipts")) == (3, {}, 0)


@pytest.mark.parametrize("ok", [True, False])
def test_an_agent_waits_for_a_person_and_goes_on_in_another_worker(
    world: World, ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _loaded("agent", world)
    asked: list[int] = []
    model = app.ask_model

    async def counted(messages: Any, say: Any) -> Any:
        asked.append(len(messages))
        return await model(messages, say)

    monkeypatch.setattr(app, "ask_model", counted)
    with working(world, app.inbox, url=_url(world)):
        id = app.ask(world.conn, "7", "Who wants a lamp?")
        eventually(lambda: _waits(world, id, "wait:approval"))
    assert world.sql("SELECT key, value FROM shown ORDER BY key")[0] == ("asks", "may it mail to all customers?")
    assert app.approve(world.conn, "7", ok) == "delivered"
    assert app.approve(world.conn, "7", not ok) == "duplicate"
    with working(world, app.inbox, url=_url(world)):
        _ended(world, id, "completed" if ok else "failed")
    assert world.sql("SELECT chunk FROM said ORDER BY n")[0] == ("thinking about 1 messages\n",)
    assert asked == ([1, 4, 6] if ok else [1, 4])  # no answer of the model was asked for twice
    if ok:
        said = "Done: search lamp, search desk, mail to all customers."
        assert world.sql("SELECT value FROM results WHERE row_id = %s", id) == [(said,)]
