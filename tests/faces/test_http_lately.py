"""What happened lately over HTTP: the backlog, the queues and the kinds, for who may see every queue."""

from __future__ import annotations

import pytest

from faces.web_tools import served
from guarantees.test_history import slot
from tenure.verbs import history, lately
from tenure.web.access import Access
from world import World


def test_a_queue_tells_what_waits_and_what_failed_and_a_kind_what_ended_badly(world: World) -> None:
    world.enqueue("send_receipt", queue="mail")
    world.enqueue("charge_card")
    world.dead_letter(world.claim_one().lease, "ValueError: no")
    world.run(lately.note_backlog())
    world.run(history.tally([slot(completed=3, dead_lettered=1)], age_seconds=0))
    world.sql("UPDATE tally SET at = at - interval '1 min'")
    with served(world) as web:
        told = web.get("/api/lately").json()
        assert web.get("/api/lately?seconds=5").status_code == 400
    assert told["backlog"]["queues"] == [{"queue": "mail", "due": [1], "more": [False]}]
    mail, default = told["queues"]
    assert (mail["queue"], mail["due"], mail["failing"]) == ("mail", 1, None)
    assert mail["oldest_runnable_seconds"] >= 0
    assert (default["queue"], default["due"], default["failing"]) == ("default", 0, 0.25)
    (kind,) = told["kinds"]
    assert (kind["kind"], kind["ended"], kind["badly"]) == ("charge_card", 1, 1)
    assert told["kinds_since"] is None


def test_who_may_see_some_queues_is_not_told_of_the_others(world: World) -> None:
    some = Access("ann", "read", queues=frozenset({"mail"}))
    with served(world, access=lambda _: some) as web:
        assert web.get("/api/lately").status_code == 403
        assert "every queue" in web.get("/api/lately").json()["error"]


@pytest.mark.parametrize("seconds", [60, 3600, 7 * 86_400])
def test_an_empty_inbox_has_an_answer_for_every_period(world: World, seconds: int) -> None:
    with served(world) as web:
        told = web.get(f"/api/lately?seconds={seconds}").json()
    assert (told["queues"], told["kinds"], told["backlog"]["at"]) == ([], [], [])
