"""A token for some queues learns nothing of the rows of others: not beside a row, not by a key."""

from __future__ import annotations

import pytest

from faces.test_http_tokens import NOBODY, made
from faces.web_tools import said, served
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
