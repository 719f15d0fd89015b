"""Guarantee 5: past max_attempts, by failures and by crashes alike, a row is a dead letter and its key goes on."""

from __future__ import annotations

import pytest

from guarantees.facts import together
from tenure import verbs
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import questions, settle
from world import World


def _crash(world: World, job: Claimed) -> None:
    world.expire(job.lease)
    assert len(world.sweep()) == 1


def _fail_softly(world: World, job: Claimed) -> None:
    assert world.retry(job.lease, f"boom {job.attempts}").ok


def _alternate(world: World, job: Claimed) -> None:
    (_crash if job.attempts % 2 else _fail_softly)(world, job)


WAYS = [_crash, _fail_softly, _alternate]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_the_last_attempt_that_does_not_complete_makes_a_dead_letter(world: World, way: object) -> None:
    assert callable(way)
    id = world.enqueue(max_attempts=3)
    for attempt in (1, 2, 3):
        assert world.status(id) == "pending"
        world.due()
        job = world.claim_one("A")
        assert (job.attempts, job.lease.generation) == (attempt, attempt)
        way(world, job)
    row = world.row(id)
    assert (row.status, row.attempts, row.lease_generation, row.finished_by) == ("dead_letter", 3, 3, "A")
    assert row.finished_at is not None
    assert row.completed_at is None
    world.due()
    assert world.claim("B", 10) == []
    assert world.run(verbs.sweep_pages()) == []
    assert len(world.run(questions.tape(id))) == 3


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_an_ordered_key_goes_on_after_a_dead_letter(world: World, way: object) -> None:
    assert callable(way)
    poison = world.enqueue(key="order:1", ordered=True, max_attempts=2)
    follower = world.enqueue(key="order:1", ordered=True)
    for _ in range(2):
        (job,) = world.claim_ordered("A")
        assert job.id == poison
        way(world, job)
        world.sql("UPDATE live SET available_at = clock_timestamp() WHERE status = 'pending'")
    assert world.status(poison) == "dead_letter"
    (job,) = world.claim_ordered("B")
    assert job.id == follower
    assert world.complete(job.lease).ok
    assert not world.keys_taken()


def test_a_retry_answers_what_became_of_the_row(world: World) -> None:
    world.enqueue(max_attempts=2)
    first = world.retry(world.claim_one().lease)
    assert first.status == "pending"
    assert first.next_at == world.row(first.lease.id).available_at
    world.due()
    assert world.retry(world.claim_one().lease).status == "dead_letter"


def test_a_permanent_failure_ends_the_row_at_once(world: World) -> None:
    id = world.enqueue(max_attempts=5)
    assert world.fail(world.claim_one("A").lease, "no such SKU").status == "failed"
    row = world.row(id)
    assert (row.status, row.attempts, row.last_error, row.finished_by) == ("failed", 1, "no such SKU", "A")
    assert [attempt.outcome for attempt in world.run(questions.tape(id))] == ["failed"]


def test_poison_ends_the_row_at_once(world: World) -> None:
    id = world.enqueue(max_attempts=5)
    assert world.dead_letter(world.claim_one("A").lease, "kills its worker").status == "dead_letter"
    assert world.row(id).attempts == 1
    assert [attempt.outcome for attempt in world.run(questions.tape(id))] == ["dead_lettered"]


def test_a_release_gives_the_attempt_back_and_the_row_is_available_at_once(world: World) -> None:
    id = world.enqueue(max_attempts=1)
    for generation in range(1, 6):
        job = world.claim_one("A")
        assert (job.attempts, job.lease.generation) == (1, generation)
        assert world.release(job.lease).status == "pending"
        assert world.row(id).attempts == 0
    assert world.complete(world.claim_one("B").lease).ok
    assert [attempt.outcome for attempt in world.run(questions.tape(id))] == ["released"] * 5 + ["completed"]


def test_a_release_may_wait(world: World) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    assert world.run(settle.release([lease], delays=[60.0]))[0].ok
    assert world.claim() == []
    (wait,) = world.sql("SELECT available_at - clock_timestamp() BETWEEN '55 s' AND '60 s' FROM live")
    assert wait == (True,)


def test_an_error_of_a_release_is_remembered(world: World) -> None:
    id = world.enqueue()
    world.run(settle.release([world.claim_one().lease], errors=["draining"]))
    assert world.row(id).last_error == "draining"


@pytest.mark.parametrize("delay", [0.0, 7.5])
def test_a_retry_waits_as_long_as_it_was_told(world: World, delay: float) -> None:
    world.enqueue()
    answer = world.retry(world.claim_one().lease, delay=delay)
    (ended,) = world.sql("SELECT ended_at FROM attempts")[0]
    assert answer.next_at is not None
    assert abs((answer.next_at - ended).total_seconds() - delay) < 0.5


@pytest.mark.parametrize("delay", [-1.0, float("nan"), float("inf")])
def test_a_delay_that_cannot_be_is_refused(world: World, delay: float) -> None:
    world.enqueue()
    lease = world.claim_one().lease
    with pytest.raises(ValueError, match="delay="):
        settle.retry([lease], ["boom"], delays=[delay])


@pytest.mark.parametrize(
    ("attempts", "least"),
    [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (11, 2048), (12, 3600), (31, 3600), (1024, 3600), (2**31 - 1, 3600)],
)
def test_the_backoff_doubles_up_to_an_hour_and_never_overflows(world: World, attempts: int, least: int) -> None:
    waits = [
        float(wait)
        for (wait,) in world.sql("SELECT extract(epoch FROM backoff(%s)) FROM generate_series(1, 50)", attempts)
    ]
    assert all(least <= wait <= least * 1.25 for wait in waits)
    assert max(waits) - min(waits) > least / 50  # spread, not in one instant


@pytest.mark.parametrize("attempts", [30, 31, 32, 62, 63, 9_998])
def test_a_row_of_many_attempts_does_not_stop_the_sweep(world: World, attempts: int) -> None:
    old, young = world.enqueue(max_attempts=10_000), world.enqueue()
    world.sql("UPDATE live SET attempts = %s WHERE id = %s", attempts, old)
    world.expire(*[job.lease for job in world.claim("A", 2)])
    assert {each.id: each.status for each in world.sweep()} == {old: "pending", young: "pending"}
    assert world.retry(_claim_again(world, old).lease).ok


def _claim_again(world: World, id: object) -> Claimed:
    world.due()
    return next(job for job in world.claim("B", 10) if job.id == id)


def test_failures_at_once_make_each_row_a_dead_letter_once(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("send_receipt", max_attempts=1) for _ in range(40)]))
    leases = [job.lease for job in world.claim("A", 40)]
    connections = [world.connect() for _ in range(4)]
    together(4, lambda n: world.run(settle.retry(leases[:: -1 if n % 2 else 1], ["boom"] * 40), connections[n]))
    assert (world.count("live"), world.count("dead"), world.count("attempts")) == (0, 40, 40)


def test_an_error_text_postgres_cannot_store_ends_the_attempt_all_the_same(world: World) -> None:
    id = world.enqueue()
    assert world.retry(world.claim_one().lease, "nul \0 surrogate \ud800 " + "ä" * 10_000).ok
    error = world.row(id).last_error
    assert error is not None
    assert error.startswith("nul \\0 surrogate \\ud800 ä")
    assert len(error.encode()) <= 8192
