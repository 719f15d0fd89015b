"""Which keys a claim of ordered rows finds: all that could go on, in all buckets or in some, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from guarantees.facts import Beside, user_connection
from tenure import verbs
from tenure.model.rows import Claimed
from world import World

HOUR = 3600.0
every_way = pytest.mark.parametrize("buckets", [None, verbs.ALL_BUCKETS], ids=["all", "by bucket"])
Buckets = Sequence[int] | None


def send(world: World, key: str, queue: str = "default", delay_seconds: float = 0.0) -> UUID:
    return world.enqueue(key=key, ordered=True, queue=queue, delay_seconds=delay_seconds)


def ids(jobs: list[Claimed]) -> set[UUID]:
    return {job.id for job in jobs}


def heads(world: World) -> list[tuple[object, ...]]:
    return world.sql("SELECT * FROM heads ORDER BY queue, partition_key")


@every_way
def test_only_keys_of_the_queues_asked_for(world: World, buckets: Buckets) -> None:
    mail, web = send(world, "k", "mail"), send(world, "k", "web")
    assert world.claim_ordered(queues=["mail", "web"], buckets=[]) == []  # both have heads now
    assert ids(world.claim_ordered(queues=["web"], buckets=buckets)) == {web}
    assert ids(world.claim_ordered(queues=["mail"], buckets=buckets)) == {mail}


def test_only_keys_of_the_buckets_asked_for(world: World) -> None:
    sent = {key: send(world, key) for key in ("a", "b", "c")}
    bucket = world.sql("SELECT bucket(%s)", "b")[0][0]
    assert ids(world.claim_ordered(buckets=[bucket])) == {sent["b"]}
    assert ids(world.claim_ordered(buckets=None)) == {sent["a"], sent["c"]}


@every_way
def test_only_keys_whose_next_row_is_due(world: World, buckets: Buckets) -> None:
    now, _ = send(world, "now"), send(world, "later", delay_seconds=HOUR)
    assert ids(world.claim_ordered(buckets=buckets)) == {now}


@every_way
def test_a_key_that_is_taken_is_not_looked_at(world: World, buckets: Buckets) -> None:
    send(world, "taken"), send(world, "taken")
    free = send(world, "free")
    first = world.claim_ordered("A", 1, run_length=1)
    assert ids(first) != {free}
    before = heads(world)
    assert ids(world.claim_ordered("B", 1, buckets=buckets)) == {free}
    changed = set(heads(world)) - set(before)
    assert [head[1] for head in changed] == ["free"]


@every_way
def test_a_key_that_another_claim_is_about_to_take_is_passed_by(world: World, buckets: Buckets) -> None:
    one, two = send(world, "one"), send(world, "two")
    assert world.claim_ordered(buckets=[]) == []  # both have heads now, and no arrival is left
    other = user_connection(world)
    taken = ids(world.run(verbs.claim_ordered("B", 1, buckets=buckets), other))
    assert len(taken) == 1
    rest = Beside(lambda: world.claim_ordered("C", 10, buckets=buckets)).result()
    assert ids(rest) == {one, two} - taken
    assert Beside(lambda: world.claim_ordered("D", 10, buckets=buckets)).result() == []
    other.rollback()
    assert ids(world.claim_ordered("E", 10, buckets=buckets)) == taken


def test_the_search_itself_finds_what_is_due_and_free_in_these_buckets(world: World) -> None:
    """What it finds beyond that a claim would look at in vain, and have less room for what it could take."""
    for key in ("a", "b", "taken"):
        send(world, key)
    send(world, "later", delay_seconds=HOUR)
    send(world, "a", "web")
    assert world.claim_ordered(queues=["default", "web"], buckets=[]) == []  # all have heads now
    world.sql("UPDATE heads SET run_from = from_seq, run_to = from_seq WHERE partition_key = 'taken'")
    (of_b,) = world.sql("SELECT bucket('b')")[0]

    def found(owned: Buckets, passed: str = "{}") -> list[str]:
        search = (
            "SELECT partition_key FROM due_heads('{default}', %s, 10, clock_timestamp(), '-infinity', %s) ORDER BY 1"
        )
        return [key for (key,) in world.sql(search, None if owned is None else list(owned), passed)]

    assert found(None) == found(verbs.ALL_BUCKETS) == ["a", "b"]
    assert found([of_b]) == ["b"]
    assert found(verbs.ALL_BUCKETS, '{"(default,a)"}') == ["b"]
