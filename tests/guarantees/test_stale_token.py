"""Guarantee 4: a stale token changes nothing, whatever made it stale and whatever it is used for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from guarantees.facts import Beside, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.app import fence
from tenure.errors import StaleLease
from tenure.model.rows import Lease, Settled
from tenure.verbs import questions, settle
from world import World

# -- how a lease becomes stale; each gives the stale lease


def reclaimed_by_another(world: World) -> Lease:
    world.enqueue(max_attempts=1000)
    stale = world.claim_one("A").lease
    _lose(world, stale)
    world.claim_one("B")
    return stale


def reclaimed_by_itself(world: World) -> Lease:
    world.enqueue(max_attempts=1000)
    stale = world.claim_one("A").lease
    _lose(world, stale)
    world.claim_one("A")
    return stale


def same_generation_after_a_failover(world: World) -> Lease:
    """The new primary has lost the tail: it hands out the generation again, under a higher fence token."""
    world.enqueue(max_attempts=1000)
    stale = world.claim_one("A").lease
    world.sql(
        "UPDATE live SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,"
        " claim_id = NULL, fence_token = 0, attempts = 0, lease_generation = 0"
    )
    again = world.claim_one("A").lease
    assert again.generation == stale.generation
    assert again.fence > stale.fence
    return stale


def same_fence_but_another_generation(world: World) -> Lease:
    world.enqueue(max_attempts=1000)
    current = world.claim_one("A").lease
    return current._replace(generation=current.generation - 1)


def swept(world: World) -> Lease:
    world.enqueue(max_attempts=1000)
    stale = world.claim_one("A").lease
    world.expire(stale)
    world.sweep()
    return stale


def ended_by_a_retry(world: World) -> Lease:
    """The row is pending and still carries the token of its last holder."""
    world.enqueue(max_attempts=1000)
    stale = world.claim_one("A").lease
    assert world.retry(stale, delay=0).ok
    return stale


def ended_by_a_release(world: World) -> Lease:
    world.enqueue(max_attempts=1000)
    stale = world.claim_one("A").lease
    assert world.release(stale).ok
    return stale


def completed_by_another(world: World) -> Lease:
    stale = reclaimed_by_another(world)
    assert world.complete(_current(world)).ok
    return stale


def a_dead_letter(world: World) -> Lease:
    world.enqueue(max_attempts=1)
    stale = world.claim_one("A").lease
    world.expire(stale)
    world.sweep()
    assert world.status(stale.id) == "dead_letter"
    return stale


def redriven(world: World) -> Lease:
    stale = a_dead_letter(world)
    assert world.run(verbs.redrive([stale.id])) == [stale.id]
    return stale


def redriven_and_reclaimed(world: World) -> Lease:
    stale = redriven(world)
    world.claim_one("A")
    return stale


SCENES = [
    reclaimed_by_another,
    reclaimed_by_itself,
    same_generation_after_a_failover,
    same_fence_but_another_generation,
    swept,
    ended_by_a_retry,
    ended_by_a_release,
    completed_by_another,
    a_dead_letter,
    redriven,
    redriven_and_reclaimed,
]

# -- what a holder tries with it; each is refused


def _refused(answer: Settled) -> None:
    assert answer.standing == "stale"
    assert answer.reason
    with pytest.raises(StaleLease, match=answer.verb):
        answer.or_raise()


def complete(world: World, lease: Lease) -> None:
    _refused(world.complete(lease))


def complete_late(world: World, lease: Lease) -> None:
    _refused(world.complete(lease, accept_late=True))


def retry(world: World, lease: Lease) -> None:
    _refused(world.retry(lease))


def fail(world: World, lease: Lease) -> None:
    _refused(world.fail(lease))


def dead_letter(world: World, lease: Lease) -> None:
    _refused(world.dead_letter(lease))


def release(world: World, lease: Lease) -> None:
    _refused(world.release(lease))


def renew(world: World, lease: Lease) -> None:
    assert world.run(verbs.renew([lease])) == ((), (lease,), frozenset(), ())


def once(world: World, lease: Lease) -> None:
    with pytest.raises(StaleLease, match="once"):
        world.run(verbs.once(lease, "receipt"))


def holding(world: World, lease: Lease) -> None:
    with pytest.raises(StaleLease, match="holding"):
        world.run(verbs.holding(lease))


def fenced(world: World, lease: Lease) -> None:
    with pytest.raises(StaleLease), fence.fenced(world.conn, lease, schema=world.schema):
        raise AssertionError("the body ran")


def fenced_late(world: World, lease: Lease) -> None:
    with pytest.raises(StaleLease), fence.fenced(world.conn, lease, schema=world.schema, accept_late=True):
        raise AssertionError("the body ran")


VERBS = [complete, complete_late, retry, fail, dead_letter, release, renew, once, holding, fenced, fenced_late]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_stale_token_changes_nothing(world: World, scene: Callable[[World], Lease]) -> None:
    stale = scene(world)
    before = _everything(world)
    for verb in VERBS:
        if scene.__name__ == f"ended_by_a_{verb.__name__}":
            continue  # not stale but already done: see below
        verb(world, stale)
        assert _everything(world) == before, f"{verb.__name__} changed something"


def _current(world: World) -> Lease:
    """The lease of the one row that is held."""
    ((worker, claim_id),) = world.sql("SELECT claimed_by, claim_id FROM live WHERE status = 'processing'")
    (job,) = world.run(questions.claimed(worker, claim_id))
    return job.lease


def _everything(world: World) -> list[Any]:
    tables = ("inbox", "attempts", "effects", "fences", "heads", "arrivals", "idempotency")
    return [world.sql(f"SELECT to_jsonb(t) FROM {table} AS t ORDER BY 1") for table in tables]


def _lose(world: World, lease: Lease) -> None:
    world.expire(lease)
    assert [each.id for each in world.sweep()] == [lease.id]
    world.due()


# -- the answer names what stands in the way


def test_the_refusal_names_the_current_token(world: World) -> None:
    stale = reclaimed_by_another(world)
    refused = world.complete(stale)
    assert (refused.reason, refused.current, refused.status) == ("token_mismatch", 2, "processing")
    with pytest.raises(StaleLease, match=r"token 1 is stale \(token_mismatch, current token 2\)"):
        refused.or_raise()


def test_the_refusal_of_a_late_completion_says_that_the_lease_expired(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    world.expire(lease)
    assert (world.complete(lease).standing, world.complete(lease).reason) == ("stale", "lease_expired")
    world.sweep()
    assert world.complete(lease).reason == "lease_expired"


def test_a_late_completion_is_taken_if_the_policy_says_so_and_nobody_took_the_row(world: World) -> None:
    id = world.enqueue()
    lease = world.claim_one().lease
    world.expire(lease)
    assert world.complete(lease, accept_late=True).standing == "applied"
    assert world.status(id) == "completed"


def test_an_expired_lease_is_not_revived_and_not_held(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    world.expire(lease)
    renew(world, lease)
    holding(world, lease)
    fenced(world, lease)
    row = world.row(lease.id)
    assert row.lease_expires_at is not None
    assert world.sql("SELECT lease_expires_at < clock_timestamp() FROM live") == [(True,)]


@pytest.mark.parametrize("verb", [complete, renew, holding], ids=lambda verb: verb.__name__)
def test_in_a_long_transaction_too_a_lease_ends_when_it_ends(
    world: World, verb: Callable[[World, Lease], None]
) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    with world.conn.transaction():
        world.sql("SELECT now()")  # the transaction's clock stands still from here
        with world.connect().cursor() as elsewhere:
            elsewhere.execute("UPDATE live SET lease_expires_at = clock_timestamp()")
        verb(world, lease)


@pytest.mark.parametrize("verb", ["complete", "retry", "release", "fail", "dead_letter"])
def test_a_write_sent_twice_because_its_reply_was_lost_is_already_mine(world: World, verb: str) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    first, second = getattr(world, verb)(lease), getattr(world, verb)(lease)
    assert (first.standing, second.standing) == ("applied", "already_mine")
    assert second.ok
    assert second.or_raise() is second
    assert world.count("attempts") == (0 if verb == "complete" else 1)


def test_of_many_leases_each_is_answered_for_itself_and_in_order(world: World) -> None:
    for _ in range(4):
        world.enqueue()
    jobs = world.claim("A", 4)
    world.expire(jobs[1].lease)
    gone = jobs[2].lease._replace(id=jobs[2].id.__class__(int=1))
    answers = world.run(settle.complete([jobs[3].lease, jobs[1].lease, gone, jobs[0].lease]))
    assert [answer.standing for answer in answers] == ["applied", "stale", "unknown", "applied"]
    assert [answer.lease for answer in answers] == [jobs[3].lease, jobs[1].lease, gone, jobs[0].lease]
    assert world.status(jobs[1].id) == world.status(jobs[2].id) == "processing"
    answers = world.run(settle.retry([jobs[2].lease, gone, jobs[0].lease], ["two", "gone", "zero"]))
    assert [answer.standing for answer in answers] == ["applied", "unknown", "stale"]
    assert world.row(jobs[2].id).last_error == "two"


def test_of_many_leases_the_current_ones_are_renewed_and_the_others_lost(world: World) -> None:
    for _ in range(3):
        world.enqueue()
    jobs = world.claim("A", 3)
    world.expire(jobs[1].lease)
    renewed = world.run(verbs.renew([job.lease for job in jobs], lease_seconds=[100, 200, 300]))
    assert [lease.id for lease in renewed.kept] == [jobs[0].id, jobs[2].id]
    assert renewed.lost == (jobs[1].lease,)
    left = [world.run(verbs.holding(lease)) for lease in renewed.kept]
    assert 95 < left[0] <= 100
    assert 295 < left[1] <= 300


@pytest.mark.parametrize("verb", ["complete", "retry", "release", "fail", "dead_letter"])
def test_a_stale_lease_beside_the_current_one_of_its_row_is_told_apart(world: World, verb: str) -> None:
    stale = reclaimed_by_itself(world)
    current = _current(world)
    build: Any = getattr(settle, verb)
    extra = [["old", "new"]] if verb in ("retry", "fail", "dead_letter") else []
    old, new = world.run(build([stale, current], *extra))
    assert new.standing == "applied"
    assert old.standing == "stale", f"{verb} told generation {stale.generation} that its write was applied"


def test_a_stale_lease_beside_the_current_one_of_its_row_is_not_renewed(world: World) -> None:
    stale = reclaimed_by_itself(world)
    current = _current(world)
    renewed = world.run(verbs.renew([stale, current]))
    assert [lease.generation for lease in renewed.kept] == [2]
    assert renewed.lost == (stale,), "the handler of the older lease was told to go on"


@pytest.mark.parametrize("verb", ["complete", "retry", "release", "fail", "dead_letter"])
def test_a_lease_named_twice_in_one_call_ends_its_row_once(world: World, verb: str) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    build: Any = getattr(settle, verb)
    extra = [["boom", "boom"]] if verb in ("retry", "fail", "dead_letter") else []
    assert [answer.ok for answer in world.run(build([lease, lease], *extra))] == [True, True]
    assert world.status(lease.id) != "processing"


# -- a write that had to wait for another decides by what it finds afterwards


@pytest.mark.parametrize("verb", [complete_late, retry, fail, release, renew], ids=lambda verb: verb.__name__)
def test_a_write_that_waited_for_the_sweep_is_refused(world: World, verb: Callable[[World, Lease], None]) -> None:
    world.enqueue(max_attempts=1000)
    lease = world.claim_one().lease
    world.expire(lease)
    sweeper = user_connection(world)
    assert len(world.run(verbs.sweep(), sweeper)) == 1
    late = Beside(lambda: verb(world, lease))
    if verb is not renew:  # a lease that is over is refused without a look at the lock
        waits_for_a_lock(world, world.conn)
    sweeper.commit()
    late.result()
    assert world.status(lease.id) == "pending"
    assert [attempt.outcome for attempt in world.run(questions.tape(lease.id))] == ["expired"]


@pytest.mark.parametrize("number", ["lease_generation", "fence_token"])
def test_a_write_that_waited_is_refused_if_one_of_its_numbers_has_changed(world: World, number: str) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    other = user_connection(world)
    other.execute(f"UPDATE live SET {number} = {number} + 1".encode())
    late = Beside(lambda: world.retry(lease))
    waits_for_a_lock(world, world.conn)
    other.commit()
    assert not late.result().ok
    assert world.status(lease.id) == "processing"


@pytest.mark.parametrize("verb", ["complete", "retry", "fail", "release"])
def test_a_write_that_waited_for_a_sweep_that_was_rolled_back_is_taken(world: World, verb: str) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    sweeper = user_connection(world)
    sweeper.execute("UPDATE live SET lease_expires_at = clock_timestamp() - interval '1 minute'")
    assert len(world.run(verbs.sweep_pages(), sweeper)) == 1
    write: Callable[[Lease], Settled] = getattr(world, verb)
    waiting = Beside(lambda: write(lease))
    waits_for_a_lock(world, world.conn)
    sweeper.rollback()
    assert waiting.result().standing == "applied"
