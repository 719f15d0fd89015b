"""How keys in order come to be known: a claim reads their arrivals and makes their heads, beside other claims."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from guarantees.facts import Beside, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.model.rows import NewRow
from tenure.verbs import operators, queues
from world import World


def send(world: World, key: str, queue: str = "default", **how: Any) -> UUID:
    return world.enqueue(key=key, queue=queue, **{"ordered": True, **how})


def known(world: World, queue: str = "default") -> list[str]:
    """The keys that have a head; a claim of no bucket at all makes it and takes nothing."""
    assert world.claim_ordered(queues=[queue], buckets=[]) == []
    return [key for (key,) in world.sql("SELECT partition_key FROM heads WHERE queue = %s ORDER BY 1", queue)]


def key_beside(world: World, key: str) -> str:
    """Another key of the same bucket."""
    found = "SELECT 'k' || n FROM generate_series(1, 100000) AS n WHERE bucket('k' || n) = bucket(%s) LIMIT 1"
    return str(world.sql(found, key)[0][0])


def test_a_claim_leaves_the_arrivals_of_other_queues_to_others(world: World) -> None:
    send(world, "a", "mail")
    web = send(world, "a", "web")
    other = user_connection(world)
    assert len(world.run(verbs.claim_ordered("B", 10, queues=["mail"]), other)) == 1
    found = Beside(lambda: world.claim_ordered(queues=["web"])).result()
    assert [row.id for row in found] == [web]
    other.rollback()


def test_keys_that_cannot_be_looked_at_in_any_number_keep_no_other_waiting(world: World) -> None:
    for queue in ("other", "default"):
        send(world, "held", queue)
        assert known(world, queue) == ["held"]
    arrivals = "INSERT INTO arrivals (queue, partition_key, seq) SELECT 'default', %s, 1 FROM generate_series(1, 500)"
    for key in ("held", "new"):  # of a head that is locked, and of one that another claim makes
        world.sql(arrivals, key)
    send(world, "free", "other")
    free = send(world, "free")
    other = user_connection(world)
    other.execute("SELECT FROM heads WHERE queue = 'default' AND partition_key = 'held' FOR UPDATE")
    taken = "SELECT pg_advisory_xact_lock('heads'::regclass::oid::int, hashtext('default') # hashtext('new') & 255)"
    other.execute(taken)
    found = Beside(lambda: world.claim_ordered()).result()
    assert [row.id for row in found] == [free]
    left = world.sql("SELECT partition_key, count(*) FROM arrivals WHERE queue = 'default' GROUP BY 1 ORDER BY 1")
    assert left == [("held", 500), ("new", 500)]
    other.rollback()
    known(world)
    assert world.sql("SELECT queue FROM arrivals") == [("other",)], "those of a key without rows are gone as well"


def test_a_key_that_is_being_erased_is_not_remembered_anew(world: World) -> None:
    gone = send(world, "ann")
    other = user_connection(world)
    assert world.run(operators.erase([gone]), other) == [gone]
    assert Beside(lambda: world.claim_ordered()).result() == []
    other.commit()
    assert known(world) == []


def test_while_a_key_is_erased_others_go_on_and_do_not_keep_it_known(world: World) -> None:
    gone, kept = send(world, "a"), {send(world, "b"), send(world, key_beside(world, "a"))}
    known(world)
    kept.add(send(world, "a", "other"))
    other = user_connection(world)
    assert world.run(operators.erase([gone]), other) == [gone]
    found = Beside(lambda: world.claim_ordered(queues=["default", "other"])).result()
    assert {row.id for row in found} == kept
    other.commit()
    assert world.sql("SELECT queue FROM heads WHERE partition_key = 'a'") == [("other",)]


def test_a_head_that_another_session_makes_at_this_moment_is_no_error_and_keeps_its_arrival(world: World) -> None:
    first = send(world, "a")
    other, waiting = user_connection(world), world.connect()
    made = "INSERT INTO heads (queue, partition_key, bucket, from_seq) VALUES ('default', 'a', bucket('a'), 1)"
    other.execute(made)
    claim = Beside(lambda: world.run(verbs.claim_ordered("B", 10, buckets=[]), waiting))
    waits_for_a_lock(world, waiting)
    other.commit()
    assert claim.result() == []
    assert world.count("arrivals") == 1
    assert [row.id for row in world.claim_ordered()] == [first]


@pytest.mark.parametrize("beside", ["not in order", "other queue", "other key"])
def test_what_runs_beside_a_key_does_not_pass_for_its_first_row(world: World, beside: str) -> None:
    key = key_beside(world, "a") if beside == "other key" else "a"
    queue = "other" if beside == "other queue" else "default"
    with world.connect() as producer, producer.transaction():
        gone = world.run(verbs.enqueue(NewRow("x", {}, key="a", ordered=True)), producer).id
        send(world, key, queue, ordered=beside != "not in order")
        assert len(world.claim() if beside == "not in order" else world.claim_ordered(queues=[queue])) == 1
    kept = send(world, "a")
    world.sql("DELETE FROM live WHERE id = %s", gone)
    assert [row.id for row in world.claim_ordered()] == [kept]


@pytest.mark.parametrize("dead", [("a", "other", True), ("b", "default", True), ("a", "default", False)])
def test_only_a_dead_row_that_holds_this_key_keeps_a_new_head_back(world: World, dead: tuple[str, str, bool]) -> None:
    key, queue, hold = dead
    send(world, key, queue, hold=hold)
    (claimed,) = world.claim_ordered(queues=[queue])
    world.dead_letter(claimed.lease)
    known(world, queue)
    world.sql("DELETE FROM heads")
    free = send(world, "a")
    assert [row.id for row in world.claim_ordered()] == [free]


def test_a_head_made_in_a_long_transaction_is_due_from_the_moment_it_is_made(world: World) -> None:
    """Claims elsewhere know of floors: below them nothing becomes due any more."""
    other = user_connection(world)
    other.execute("SELECT now()")
    send(world, "a")
    (moment,) = world.sql("SELECT clock_timestamp() + interval '1 millisecond', pg_sleep(0.01)")[0][:1]
    assert world.run(verbs.claim_ordered("B", 1, buckets=[]), other) == []
    other.commit()
    assert world.sql("SELECT due_at > %s FROM heads", moment) == [(True,)]


@pytest.mark.parametrize("limited", [False, True])
def test_a_later_row_that_somebody_looks_at_keeps_no_earlier_one_waiting(world: World, limited: bool) -> None:
    earlier = send(world, "a")
    known(world)
    if limited:
        world.run(queues.limit("default", max_running=9))
    send(world, "a")
    other = user_connection(world)
    other.execute("SELECT FROM arrivals FOR UPDATE")
    claimed = world.run(queues.claim_limited("A", 9, "default")) if limited else world.claim_ordered()
    assert [row.id for row in claimed] == [earlier]


def test_a_claim_that_passes_keys_by_takes_no_more_than_it_was_asked_for(world: World) -> None:
    sent = [send(world, key) for key in "abcdef"]
    known(world)
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE partition_key IN ('a', 'b') FOR UPDATE")
    taken = [Beside(lambda: world.claim_ordered(n=2)).result(), Beside(lambda: world.claim_ordered(n=3)).result()]
    assert [len(rows) for rows in taken] == [2, 2]
    assert {row.id for rows in taken for row in rows} == set(sent[2:])


def test_a_claim_in_order_leaves_queues_with_limits_to_others_and_only_those(world: World) -> None:
    world.run(queues.limit("limited", max_running=1))
    world.run(queues.limit("free", max_running=1))
    world.run(queues.limit("free", clear=True))
    send(world, "a", "limited")
    sent = {send(world, "a", "free"), send(world, "a")}
    found = world.claim_ordered(queues=["limited", "free", "default"])
    assert {row.id for row in found} == sent


# -- keys that are new are taken at once


def send_keys(world: World, n: int, name: str = "new", *, at: str = "clock_timestamp()") -> None:
    """A row for each of so many keys, in one statement."""
    world.sql(
        "INSERT INTO live (kind, payload, queue, partition_key, ordered, available_at)"
        f" SELECT 'work', '{{}}', 'default', %s || n, true, {at} FROM generate_series(1, %s) AS n",
        name,
        n,
    )


def test_a_claim_hears_of_no_more_new_keys_than_it_takes_by_the_page(world: World) -> None:
    """It made the heads of ten thousand keys, however few it took."""
    send_keys(world, 3000)
    assert len(world.claim_ordered(n=10)) == 10
    assert world.count("arrivals") == 2500
    assert world.count("heads") == 500
    assert len(world.claim_ordered(n=900)) == 900
    assert world.count("arrivals") > 0
    assert len(world.claim_ordered(n=2000)) == 2000, "the rest is found as soon as it is needed"


@pytest.mark.parametrize("what", ["later", "blocked"])
def test_new_keys_that_cannot_go_on_keep_back_none_that_can(world: World, what: str) -> None:
    if what == "blocked":
        send_keys(world, 600, "held")
        world.sql("UPDATE live SET hold = true")
        for job in world.claim_ordered(n=600):
            world.dead_letter(job.lease)
    send_keys(
        world, 600, "held", at="clock_timestamp() + interval '1 hour'" if what == "later" else "clock_timestamp()"
    )
    world.sql("DELETE FROM heads")
    free = send(world, "free")
    assert [row.id for row in world.claim_ordered(n=1)] == [free]


def test_a_new_key_goes_before_later_ones_and_behind_those_that_are_known(world: World) -> None:
    one, other = send(world, "known 1"), send(world, "known 2")
    known(world)
    first = send(world, "b")
    second, last = send(world, "a"), send(world, "c")
    assert {row.id for row in world.claim_ordered(n=3)} == {one, other, first}
    assert [row.id for row in world.claim_ordered(n=1)] == [second]
    assert [row.id for row in world.claim_ordered(n=1)] == [last]


def test_a_new_key_whose_row_somebody_looks_at_is_known_and_taken_later(world: World) -> None:
    id = send(world, "a")
    other = user_connection(world)
    other.execute("SELECT FROM live FOR UPDATE")
    assert Beside(lambda: world.claim_ordered()).result() == []
    assert world.sql("SELECT partition_key, run_to FROM heads") == [("a", None)]
    other.rollback()
    assert [row.id for row in world.claim_ordered()] == [id]


def test_a_new_key_of_a_bucket_that_was_not_asked_for_is_left_to_others(world: World) -> None:
    a, b = send(world, "a"), send(world, "b")
    (bucket,) = world.sql("SELECT bucket('b')")[0]
    assert [row.id for row in world.claim_ordered(buckets=[bucket])] == [b]
    assert [row.id for row in world.claim_ordered()] == [a]


def test_a_new_key_that_was_taken_is_no_other_claims(world: World) -> None:
    """A row that was committed late, with an earlier number, does not run beside the one that has begun."""
    late = user_connection(world)
    early = world.run(verbs.enqueue(NewRow("work", key="a", ordered=True)), late).id
    begun = send(world, "a")
    assert [row.id for row in world.claim_ordered()] == [begun]
    late.commit()
    assert world.claim_ordered() == []
    assert world.sql("SELECT run_to IS NULL FROM heads") == [(False,)]
    assert world.status(early) == "pending"
