"""A head may be behind the rows of its key: a claim takes what the rows allow, of that key and queue alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from guarantees.facts import user_connection
from guarantees.test_new_heads import key_beside, known
from tenure import verbs
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import operators, queues
from world import World

pytestmark = pytest.mark.one_server
both = pytest.mark.parametrize("limited", [False, True], ids=["free", "limited"])


def _send(world: World, key: str = "k", queue: str = "default", **how: Any) -> UUID:
    return world.enqueue(key=key, queue=queue, **{"ordered": True, **how})


def _claim(world: World, limited: bool, n: int = 9, run_length: int = 10) -> list[Claimed]:
    """Claim from the default queue, within a limit that none of these rows comes near, or in order alone."""
    if limited:
        world.run(queues.limit("default", max_running=99))
        return world.run(queues.claim_limited("A", n, "default"))
    return world.claim_ordered("A", n, run_length=run_length)


def _taken(world: World) -> list[tuple[str, str]]:
    return world.sql("SELECT queue, partition_key FROM heads WHERE run_to IS NOT NULL ORDER BY 1, 2")


@both
def test_from_an_old_number_on_the_next_row_is_one_of_its_own_key_and_queue(world: World, limited: bool) -> None:
    _send(world, queue="other")
    _send(world, key_beside(world, "k"))
    _send(world, ordered=False)
    own = _send(world, priority=9)
    known(world)
    world.sql("UPDATE heads SET from_seq = 1, due_at = '-infinity' WHERE partition_key = 'k'")
    claimed = _claim(world, limited, n=2, run_length=1)
    assert own in [job.id for job in claimed]
    assert {job.queue for job in claimed} == {"default"}


@both
@pytest.mark.parametrize("state", ["runs", "later"])
def test_a_head_that_is_wrong_gives_no_row_away_and_is_mended(world: World, limited: bool, state: str) -> None:
    id = _send(world, delay_seconds=3600 if state == "later" else 0)
    assert len(_claim(world, limited)) == (state == "runs")
    world.sql("UPDATE heads SET run_from = NULL, run_to = NULL, due_at = '-infinity'")
    assert _claim(world, limited) == []
    assert world.sql("SELECT attempts FROM live WHERE id = %s", id) == [(int(state == "runs"),)]
    if state == "runs":
        assert _taken(world) == [("default", "k")]
    else:
        assert world.sql("SELECT due_at > clock_timestamp() FROM heads") == [(True,)]


def test_a_claim_within_limits_takes_the_heads_of_its_rows_in_order_and_no_others(world: World) -> None:
    _send(world, queue="other")
    known(world, "other")
    _send(world, "not in order", delay_seconds=3600)
    ids = {_send(world), _send(world, "not in order", ordered=False)}
    assert {job.id for job in _claim(world, limited=True)} == ids
    assert _taken(world) == [("default", "k")]


def test_a_claim_that_takes_as_many_keys_as_it_may_takes_the_head_of_each(world: World) -> None:
    for key in "ab":
        _send(world, key)
    assert len(_claim(world, limited=False, n=2)) == 2
    assert _taken(world) == [("default", "a"), ("default", "b")]


@both
def test_a_row_that_was_tried_elsewhere_is_a_run_of_its_own_and_overtakes_none(world: World, limited: bool) -> None:
    """It was moved into the key by hand: its head does not say that it has begun."""
    producer = user_connection(world)
    first = world.run(verbs.enqueue(NewRow("work", key="k", ordered=True)), producer).id
    tried, _ = _send(world), _send(world)
    world.sql("UPDATE live SET attempts = 1 WHERE id = %s", tried)
    known(world)
    producer.commit()
    other = user_connection(world)
    other.execute("SELECT FROM arrivals FOR UPDATE")
    assert _claim(world, limited) == []
    other.rollback()
    world.run(operators.delete([first]))
    assert [job.id for job in _claim(world, limited)] == [tried]
