"""A token for some queues learns nothing of the rows of others: not beside a row, not by a key."""

from __future__ import annotations

import pytest

from faces.test_http_tokens import NOBODY, made
from faces.web_tools import said, served
from tenure.web import Access
from world import World

pytestmark = pytest.mark.one_server


@pytest.mark.parametrize("queue", ["mail", "mail*"])
def test_the_rows_beside_a_row_are_those_of_its_queue(world: World, queue: str) -> None:
    mine, behind = (world.enqueue("bill", queue=queue, key="customer:7", ordered=True) for _ in range(2))
    theirs = world.enqueue("check", {"suspect": "ann"}, queue="mail-secret", key="customer:7", ordered=True)
    token = made(world, "mailer", "--queue", queue)
    with served(world, access=NOBODY) as client:
        assert client.get(f"/api/rows/{theirs}", headers=token).status_code == 404
        page = said(client.get(f"/api/rows/{mine}", headers=token))
    assert [(each["id"], each["queue"]) for each in page["key_neighbours"]] == [(str(behind), queue)]


def test_a_key_that_a_row_of_another_queue_has_is_known_and_its_row_is_not_told(world: World) -> None:
    for n, queue in enumerate(("secret", "mail")):
        world.enqueue("bill", {"a": 1}, queue=queue, idempotency_key=f"order-{n}")
    gone = world.enqueue("bill", queue="secret", idempotency_key="order-2")
    world.sql("DELETE FROM live WHERE id = %s", gone)
    (mine,) = world.sql("SELECT id::text FROM live WHERE queue = 'mail'")[0]
    token = made(world, "mailer", "--role", "operate", "--queue", "mail")
    asked = {"kind": "bill", "queue": "mail", "payload": {"a": 1}}
    with served(world, access=NOBODY) as client:
        answers = [
            said(client.post("/api/rows", json={**asked, "idempotency_key": f"order-{n}"}, headers=token))
            for n in range(3)
        ]
    assert answers == [{"id": id, "outcome": "known"} for id in (None, mine, None)]


def test_nor_does_whoever_sees_payloads_of_some_queues_learn_what_stands_in_others(world: World) -> None:
    world.enqueue("bill", {"a": 1}, queue="secret", idempotency_key="order-7")
    only = Access("ann", "operate", queues=frozenset({"mail"}))
    asked = {"kind": "bill", "queue": "mail", "idempotency_key": "order-7"}
    with served(world, access=lambda _: only) as client:
        for guess in ({"a": 1}, {"a": 2}):
            answer = client.post("/api/rows", json={**asked, "payload": guess})
            assert said(answer) == {"id": None, "outcome": "known"}, guess
