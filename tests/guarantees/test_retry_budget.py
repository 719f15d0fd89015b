"""The default budget of attempts: a row outlives an outage of ten minutes, and quick failures are retried quickly."""

from __future__ import annotations

import inspect
from datetime import timedelta

from tenure import Inbox, verbs
from tenure.app.handler import Options
from tenure.model.backoff import Exponential, budget_seconds
from tenure.model.rows import MAX_ATTEMPTS, NewRow
from tenure.verbs.schedules import Schedule
from world import World

OUTAGE_SECONDS = 600.0


def _outlived(world: World, used: int = 0) -> tuple[str, list[float]]:
    """The status after an outage of ten minutes that begins when so many attempts are used; and every wait in it."""
    row = world.enqueue()
    world.sql("UPDATE live SET attempts = %s", used)
    waits: list[float] = []
    while sum(waits) < OUTAGE_SECONDS:
        settled = world.retry(world.claim_one("A").lease, "503 Service Unavailable")
        if settled.status != "pending":
            break
        ((wait,),) = world.sql("SELECT available_at - clock_timestamp() FROM live WHERE id = %s", row)
        waits.append(wait / timedelta(seconds=1))
        world.due()
    return world.status(row), waits


def test_an_outage_of_ten_minutes_makes_no_dead_letter(world: World) -> None:
    status, waits = _outlived(world)
    assert status == "pending", f"a dead letter after {sum(waits):.0f} s: {[round(wait) for wait in waits]}"
    assert waits[0] < 3, "a failure that is over at once is tried again at once"
    assert sum(waits[:4]) < 40


def test_nor_does_it_for_a_row_that_has_failed_before(world: World) -> None:
    status, waits = _outlived(world, used=7)
    assert status == "pending", f"a dead letter after {sum(waits):.0f} s"


def test_every_door_gives_the_same_number_of_attempts(world: World) -> None:
    world.sql("SELECT enqueue('k', '{}')")
    world.sql("INSERT INTO live (kind, payload) VALUES ('k', '{}')")
    world.run(verbs.enqueue(NewRow("k")))
    assert world.sql("SELECT DISTINCT max_attempts FROM live") == [(MAX_ATTEMPTS,)]
    assert Options().max_attempts == Schedule("s", "* * * * *", "k", {}).max_attempts == MAX_ATTEMPTS
    assert inspect.signature(Inbox.handler).parameters["max_attempts"].default == MAX_ATTEMPTS


def test_the_budget_that_the_docs_tell_is_the_databases(world: World) -> None:
    calm = Exponential(jitter=0)
    assert budget_seconds(calm, MAX_ATTEMPTS) == 1022
    assert budget_seconds(Exponential(), MAX_ATTEMPTS) == 1277.5
    ((least, most),) = world.sql(
        "SELECT min(s), max(s) FROM (SELECT extract(epoch FROM sum(backoff(n))) AS s"
        " FROM generate_series(1, %s) AS n, generate_series(1, 50) AS again GROUP BY again) AS sums",
        MAX_ATTEMPTS - 1,
    )
    assert 1022 <= least <= most <= 1277.5
