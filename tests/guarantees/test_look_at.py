"""A head is what a look at its key makes of it: the rows of that key in that queue say how it stands, and no others."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

import pytest

from world import World

pytestmark = pytest.mark.one_server
HELD = (
    "UPDATE live SET status = 'processing', claimed_by = 'A', claimed_at = clock_timestamp(), lease_generation = 1,"
    " fence_token = 1, claim_id = 1,"
    " lease_expires_at = clock_timestamp() + interval '1 hour', attempts = 1 WHERE id = ANY (%s)"
)


class Head(NamedTuple):
    """As it stands in its table; due: None while it is taken."""

    from_seq: int
    begun_seq: int | None
    begun_to: int | None
    run_from: int | None
    run_to: int | None


def _seq(world: World, id: UUID) -> int:
    return int(world.sql("SELECT seq FROM live WHERE id = %s", id)[0][0])


def _of_the_same_bucket(world: World) -> str:
    query = "SELECT 'a' || n FROM generate_series(1, 99999) AS n WHERE bucket('a' || n) = bucket('k') LIMIT 1"
    return str(world.sql(query)[0][0])


def _three(world: World) -> list[UUID]:
    """Three ordered rows of the key k; before each, one of it that is not ordered, of another queue, of another key."""
    found, near = [], _of_the_same_bucket(world)
    for _ in range(3):
        world.enqueue(key="k")
        world.enqueue(key="k", ordered=True, queue="a")
        world.enqueue(key=near, ordered=True)
        found.append(world.enqueue(key="k", ordered=True))
    return found


def _others(world: World, ours: list[UUID]) -> list[UUID]:
    return [id for (id,) in world.sql("SELECT id FROM live WHERE id <> ALL (%s)", ours)]


def _look(world: World, from_seq: int, *, begun: Any = (None, None), run: Any = (None, None)) -> Head | None:
    world.sql(
        "SELECT look_at(ARRAY['default'], ARRAY['k'], ARRAY[bucket('k')], ARRAY[%s]::bigint[], ARRAY[%s]::bigint[],"
        " ARRAY[%s]::bigint[], ARRAY[%s]::bigint[], ARRAY[%s]::bigint[])",
        *(from_seq, *begun, *run),
    )
    found = world.sql(f"SELECT {', '.join(Head._fields)} FROM heads WHERE queue = 'default' AND partition_key = 'k'")
    return Head(*found[0]) if found else None


def _due(world: World) -> str:
    query = (
        "SELECT CASE WHEN due_at = 'infinity' THEN 'blocked' WHEN due_at = '-infinity' THEN 'never set'"
        " WHEN due_at > clock_timestamp() THEN 'later' ELSE 'now' END FROM heads"
        " WHERE queue = 'default' AND partition_key = 'k'"
    )
    return str(world.sql(query)[0][0])


def test_the_next_row_is_the_first_of_its_key_and_queue_from_a_number_on(world: World) -> None:
    first, second, _ = (_seq(world, id) for id in _three(world))
    assert _look(world, 1) == Head(first, None, None, None, None)
    assert _look(world, first) == Head(first, None, None, None, None)
    assert _look(world, second) == Head(second, None, None, None, None)
    assert _due(world) == "now"


def test_a_key_is_taken_while_a_row_of_its_run_is_held(world: World) -> None:
    ours = _three(world)
    first, second, third = (_seq(world, id) for id in ours)
    world.sql(HELD, [*_others(world, ours), ours[2]])
    assert _look(world, first, run=(first, second)) == Head(first, None, None, None, None)
    world.sql("UPDATE heads SET due_at = 'infinity'")
    world.sql(HELD, ours[1:2])
    assert _look(world, first, run=(first, second)) == Head(first, None, None, first, second)
    assert _look(world, first, begun=(first, first), run=(second, third)) == Head(first, first, first, second, third)
    assert _due(world) == "blocked", "while it is taken nobody needs to know"


def test_rows_that_have_begun_go_first(world: World) -> None:
    ours = _three(world)
    first, second, third = (_seq(world, id) for id in ours)
    world.sql("UPDATE live SET attempts = 1 WHERE id = ANY (%s)", [*_others(world, ours), ours[2]])
    assert _look(world, first, run=(first, second)) == Head(first, None, None, None, None)
    world.sql("UPDATE live SET attempts = 1 WHERE id = ANY (%s)", ours[1:2])
    assert _look(world, first, run=(first, second)) == Head(first, second, second, None, None)
    assert _look(world, first, begun=(second, third)) == Head(first, second, third, None, None)
    assert _look(world, first, begun=(second, third), run=(first, first)) == Head(first, second, third, None, None)


def test_a_key_waits_for_an_operator_whose_own_row_waits_for_one(world: World) -> None:
    held = (("a", "k", True), ("default", "a", True), ("default", "k", False))
    for queue, key, hold in held:
        world.enqueue(queue=queue, key=key, ordered=True, hold=hold)
    for job in (*world.claim_ordered(), *world.claim_ordered(queues=["a"])):
        world.fail(job.lease)
    assert world.sql("SELECT queue, partition_key, blocks FROM dead ORDER BY 1, 2") == sorted(held)
    world.enqueue(key="k", ordered=True)
    _look(world, 1)
    assert _due(world) == "now"
    world.sql("UPDATE dead SET blocks = true")
    _look(world, 1)
    assert _due(world) == "blocked"


def test_a_key_without_rows_loses_its_head_alone(world: World) -> None:
    for queue, key in (("a", "k"), ("default", "a"), ("default", "k")):
        world.sql("INSERT INTO heads (queue, partition_key, bucket, from_seq) VALUES (%s, %s, 1, 1)", queue, key)
    assert _look(world, 1) is None
    assert world.sql("SELECT queue, partition_key FROM heads ORDER BY 1") == [("a", "k"), ("default", "a")]


def test_a_key_that_goes_on_is_due_from_now_and_not_since_its_transaction_began(world: World) -> None:
    world.enqueue(key="k", ordered=True)
    with world.conn.transaction():
        ((began,),) = world.sql("SELECT clock_timestamp() FROM pg_sleep(0.02)")
        _look(world, 1)
        assert world.sql("SELECT due_at > %s FROM heads", began) == [(True,)]
