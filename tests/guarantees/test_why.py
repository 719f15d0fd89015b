"""`why` names the true reason, one test for each: why a row waits, who holds it, how it ended, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from guarantees.facts import until, user_connection
from tenure import verbs
from tenure.model.ring import Ring
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import fleet, questions, queues, settle
from world import World

BUSY = {"queues": ["default"], "kinds": ["send_receipt"], "slots": 4, "slots_used": 4}
FREE = {**BUSY, "slots_used": 1}
START = "start one with `tenure worker`"


SECONDS = re.compile(r"\b(\d+) s\b")
SLACK = 20  # this machine may be slow


class Said(str):
    """What was said; it equals the same words with other seconds, if those differ by a few."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str) or SECONDS.sub("", self) != SECONDS.sub("", other):
            return False
        pairs = zip(SECONDS.findall(self), SECONDS.findall(other), strict=True)
        return all(abs(int(one) - int(another)) <= SLACK for one, another in pairs)

    __hash__ = None  # type: ignore[assignment]


def _why(world: World, id: UUID) -> Said:
    """What it says; a few seconds that have passed count as none."""
    return Said(re.sub(r"for 1?\d s", "for 0 s", world.run(questions.why(id))))


def test_seconds_may_differ_by_a_few_and_words_may_not() -> None:
    assert Said("due in 58 s, held for 1 s") == "due in 60 s, held for 0 s"
    assert Said("due in 10 s") != "due in 60 s"
    assert Said("due in 60 s") != "held in 60 s"


def _since(world: World, seconds: float, *ids: UUID) -> None:
    world.sql(
        "UPDATE live SET available_at = clock_timestamp() - %s * interval '1 second' WHERE id = ANY (%s)",
        seconds,
        list(ids),
    )


# -- how it ended


def test_rows_that_are_over(world: World) -> None:
    ids = [world.enqueue() for _ in range(4)]
    jobs = {job.id: job.lease for job in world.claim("A", 3)}
    done, failed, dead = (id for id in ids if id in jobs)
    (waiting,) = (id for id in ids if id not in jobs)
    world.complete(jobs[done])
    world.fail(jobs[failed], "no such SKU")
    world.dead_letter(jobs[dead], "poison")
    world.run(verbs.cancel([waiting], reason="asked by the customer"))
    assert _why(world, done) == "It was completed by A on attempt 1."
    assert _why(world, failed) == "It failed for good on attempt 1 (no such SKU); redrive brings it back."
    assert _why(world, dead) == "It is a dead letter after 1 of 10 attempts (poison); redrive brings it back."
    assert _why(world, waiting) == "It was cancelled (asked by the customer); it will not run."
    assert _why(world, UUID(int=1)) == f"There is no row {UUID(int=1)}: {questions.NO_ROW}."


def test_a_dead_letter_that_keeps_its_key_says_so(world: World) -> None:
    id = world.enqueue(key="k", ordered=True, hold=True)
    (job,) = world.claim_ordered()
    world.dead_letter(job.lease, "poison")
    assert _why(world, id) == (
        "It is a dead letter after 1 of 10 attempts (poison); redrive brings it back, and its ordered key waits until "
        "then, or for `tenure queues free default k`."
    )


@pytest.mark.parametrize("error", ["", " ", "\n", "\n\n \n"])
def test_an_error_without_words(world: World, error: str) -> None:
    id = world.enqueue()
    world.retry(world.claim_one().lease, error, delay=60)
    assert "no error recorded" in _why(world, id)
    world.due()
    world.fail(world.claim_one().lease, error)
    assert "no error recorded" in _why(world, id)


# -- its time


def test_a_row_that_is_not_due(world: World) -> None:
    id = world.enqueue(delay_seconds=600)
    assert _why(world, id) == f"It is due in 10 min, but no worker is alive: {START}."
    world.run(fleet.register("A"))
    assert _why(world, id) == "It is due in 10 min."


def test_a_row_that_waits_to_be_tried_again(world: World) -> None:
    id = world.enqueue()
    world.retry(world.claim_one().lease, 'Traceback\n  File "x.py"\nValueError: boom', delay=60)
    waits = "It is due in 60 s after 1 of 10 attempts (ValueError: boom)"
    world.run(fleet.register("A", {"queues": ["default"], "kinds": ["other"]}))
    nobody = "no worker of its queue has a handler of kind 'send_receipt' (1 alive): deploy one"
    assert _why(world, id) == f"{waits}, but {nobody}."
    world.run(fleet.register("B"))
    assert _why(world, id) == f"{waits}."


@pytest.mark.parametrize(
    ("time", "sentence"),
    [
        ("infinity", "It is never due: its time is infinity; `tenure retry` makes it due."),
        ("-infinity", "It has been due for 0 s and starts with the next claim: 4 of 4 slots are free."),
    ],
)
def test_a_time_without_end(world: World, time: str, sentence: str) -> None:
    world.run(fleet.register("A", FREE))
    id = world.enqueue()
    world.sql("UPDATE live SET available_at = %s", time)
    assert _why(world, id) == sentence


# -- nobody would take it


@pytest.mark.parametrize(
    ("says", "obstacle"),
    [
        ({"queues": ["mail"], "kinds": ["k"]}, " and waits for a free slot of 1 worker."),
        ({"queues": ["mail"]}, " and waits for a free slot of 1 worker."),
        (
            {"queues": ["default"], "kinds": ["k"]},
            ", but no worker serves the queue 'mail' (1 alive): start one with --queues.",
        ),
        (
            {"queues": ["mail"], "kinds": []},
            ", but no worker of its queue has a handler of kind 'k' (1 alive): deploy one.",
        ),
    ],
)
def test_no_worker_serves_its_queue_or_has_its_kind(world: World, says: dict[str, Any], obstacle: str) -> None:
    id = world.enqueue("k", queue="mail")
    world.run(fleet.register("A", says))
    assert _why(world, id) == f"It has been due for 0 s{obstacle}"


def test_no_worker_is_alive(world: World) -> None:
    id = world.enqueue()
    nobody = "It has been due for 0 s, but no worker is alive"
    assert _why(world, id) == f"{nobody}: {START}."
    world.run(fleet.register("A"))
    world.run(fleet.drain("A"))
    assert _why(world, id) == f"{nobody} (1 draining): {START}."
    world.sql("UPDATE workers SET status = 'dead'")
    assert _why(world, id) == f"{nobody}: {START}."


def test_the_last_worker_was_killed_and_nobody_is_left_to_notice(world: World) -> None:
    id = world.enqueue()
    world.run(fleet.register("A", FREE))
    session = world.connect()
    world.run(fleet.appear("A"), session)
    assert "next claim" in _why(world, id)
    session.close()
    until(lambda: world.run(questions.workers())[0].present is False, "its lock is gone")
    assert _why(world, id).endswith(f", but no worker is alive: {START}.")


def test_the_last_worker_behind_a_pooler_is_silent(world: World) -> None:
    id = world.enqueue()
    world.run(fleet.register("A", FREE))
    world.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '31 seconds'")
    assert _why(world, id).endswith(f", but no worker is alive: {START}.")


def test_its_queue_is_paused(world: World) -> None:
    now, later = world.enqueue(queue="mail"), world.enqueue(queue="mail", delay_seconds=60)
    world.run(fleet.register("A"))
    world.run(queues.pause("mail"))
    paused = "but the queue 'mail' is paused: `tenure queues resume mail`."
    assert _why(world, now) == f"It has been due for 0 s, {paused}"
    assert _why(world, later) == f"It is due in 60 s, {paused}"
    world.run(queues.resume("mail"))
    assert "paused" not in _why(world, now)


# -- a limit, or a lock


@pytest.mark.parametrize(
    ("limit", "obstacle"),
    [
        ({"max_running": 1}, "the queue 'default' is at its limit: 1 of 1 are processing."),
        ({"max_per_key": 1}, "the key 'k' is at its limit: 1 of 1 are processing."),
        (
            {"rate_per_second": 0.001, "burst": 1},
            "the queue 'default' starts no more than 0.001 rows a second: the next one in 17 min.",
        ),
    ],
)
def test_a_limit_is_reached(world: World, limit: dict[str, Any], obstacle: str) -> None:
    first, second = world.enqueue(key="k"), world.enqueue(key="k")
    world.run(fleet.register("A"))
    world.run(queues.limit("default", **limit))
    assert "free slot" in _why(world, first)
    assert len(world.run(queues.claim_limited("A", 1, "default"))) == 1
    waiting = next(id for id in (first, second) if world.status(id) == "pending")
    assert _why(world, waiting) == f"It has been due for 0 s, but {obstacle}"


def _pid(conn: psycopg.Connection[Any]) -> int:
    return conn.info.backend_pid


@pytest.mark.parametrize(
    "lock", ["SELECT FROM live WHERE id = %s FOR UPDATE", "UPDATE live SET last_error = '' WHERE id = %s"]
)
@pytest.mark.parametrize("within", ["transaction", "savepoint"])
def test_somebody_has_locked_it(world: World, lock: str, within: str) -> None:
    id = world.enqueue()
    world.run(fleet.register("A", FREE))
    other = user_connection(world)
    other.execute("SELECT 1")
    if within == "savepoint":
        other.execute("SAVEPOINT one")
    other.execute(lock, [id])
    assert world.claim("A") == []  # the fact that is to be named
    assert _why(world, id).endswith(
        f", but process {_pid(other)} of the server has locked it for 0 s: claims pass it by until that ends."
    )
    other.rollback()
    assert "locked" not in _why(world, id)


def test_whoever_has_locked_it_is_named_to_a_reader_without_rights(world: World) -> None:
    id = world.enqueue()
    world.run(fleet.register("A", FREE))
    other, reader = user_connection(world), user_connection(world)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [id])
    reader.execute("SET TRANSACTION READ ONLY")
    assert f"process {_pid(other)} of the server has locked it" in world.run(questions.why(id), reader)


def test_somebody_has_locked_what_is_set_for_its_queue(world: World) -> None:
    world.run(queues.limit("default", max_running=5))
    id = world.enqueue()
    world.run(fleet.register("A", FREE))
    other = user_connection(world)
    other.execute("UPDATE queues SET updated_at = clock_timestamp()")
    assert "locked" not in _why(world, id)  # for a moment every claim has it
    other.execute("SELECT pg_sleep(1.6)")
    who = f"process {_pid(other)} of the server has locked the settings of its queue for "
    assert _why(world, id).partition(", but ")[2].startswith(who)
    assert _why(world, id).endswith(" s: claims from it wait until that ends.")
    world.run(queues.limit("mail", max_running=5))  # what is not limited has no such settings
    assert "locked" not in _why(world, world.enqueue(queue="mail"))
    other.rollback()
    assert "locked" not in _why(world, id)


# -- slots


def _fill(world: World, *workers: str) -> None:
    """Each worker has four slots, and holds four rows of a queue of its own."""
    for worker in workers:
        world.run(fleet.register(worker, BUSY))
        for _ in range(4):
            world.enqueue(queue="full")
        assert len(world.claim(worker, 4, lanes=[Lane("full")])) == 4


def test_all_slots_are_taken(world: World) -> None:
    id = world.enqueue()
    _fill(world, "A")
    due = "It has been due for 0 s, but all"
    sooner = "more workers or slots start it sooner"
    assert _why(world, id) == f"{due} 4 slots of 1 worker are taken: {sooner}."
    _fill(world, "B")
    world.run(fleet.register("C", {**BUSY, "queues": ["mail"]}))
    assert _why(world, id) == f"{due} 8 slots of 2 workers are taken: {sooner}."


def test_rows_of_a_higher_priority_go_first_and_so_do_older_ones(world: World) -> None:
    _fill(world, "A")
    old, low, *urgent = world.enqueue(), world.enqueue(), *(world.enqueue(priority=5) for _ in range(3))
    _since(world, 60, old)
    behind = "behind 4 due rows of its queue, 3 of a higher priority"
    assert _why(world, low).endswith(f"are taken, {behind}: more workers or slots start it sooner.")
    world.sql("UPDATE workers SET metadata = metadata || '{\"slots\": 5}'")
    assert _why(world, low).endswith(f" and waits for one of 5 slots, {behind}.")
    assert "behind" not in _why(world, urgent[0])
    assert "behind 3 due rows of its queue, 3 of a higher priority" in _why(world, old)


def test_rows_before_it_are_counted_up_to_a_thousand(world: World) -> None:
    world.run(fleet.register("A", BUSY))
    world.sql("INSERT INTO live (kind, payload, priority) SELECT 'k', '{}', n % 2 FROM generate_series(1, 2400) AS n")
    id = world.enqueue()
    assert "behind 1000+ due rows of its queue, 1000 of a higher priority" in _why(world, id)


def test_a_free_slot_takes_it_with_the_next_claim(world: World) -> None:
    id = world.enqueue()
    world.run(fleet.register("A", FREE))
    assert _why(world, id) == "It has been due for 0 s and starts with the next claim: 4 of 4 slots are free."


def test_nothing_known_stands_in_its_way(world: World) -> None:
    id = world.enqueue(key="k")
    _since(world, 60, id)
    for worker in ("A", "B", "C"):
        world.run(fleet.register(worker, FREE))
    owner = Ring(["A", "B", "C"]).owner_of(world.row(id).partition_bucket)
    assert _why(world, id) == (
        "It has been due for 60 s, and nothing known stands in its way: if it was not committed a moment ago, "
        f"see `tenure doctor` and the log of worker {owner}."
    )


def test_its_bucket_is_with_a_worker_whose_session_is_gone(world: World) -> None:
    id = world.enqueue(key="k")
    bucket = world.row(id).partition_bucket
    for worker in ("A", "B"):
        world.run(fleet.register(worker, FREE))
    owner = Ring(["A", "B"]).owner_of(bucket)
    world.sql("UPDATE workers SET gone_at = clock_timestamp() WHERE id = %s", owner)
    assert _why(world, id) == (
        f"It has been due for 0 s, but its bucket {bucket} is with worker {owner}, whose session is gone: the "
        "others find it at their next poll."
    )
    # A worker of another set of queues has a ring of its own, and is there.
    world.run(fleet.register("C", {**FREE, "queues": ["default", "mail"]}))
    assert "next claim" in _why(world, id)


def test_its_key_has_changed_since_the_last_claim(world: World) -> None:
    world.run(fleet.register("A", FREE))
    id = world.enqueue(key="k", ordered=True)
    changed = "It has been due for 0 s, and its key has just changed: it starts with the next claim."
    assert _why(world, id) == changed
    (job,) = world.claim_ordered()
    world.release(job.lease)
    assert _why(world, id) == changed
    world.sql("SELECT refresh_heads(ARRAY['default'], 0)")
    assert world.count("arrivals") == 0
    assert "changed" not in _why(world, id)


# -- an ordered key


def _pair(world: World, **options: Any) -> tuple[UUID, UUID]:
    return world.enqueue(key="k", ordered=True, **options), world.enqueue(key="k", ordered=True)


def _behind(head: UUID, status: str) -> str:
    return f"It waits behind row {head} ({status}) of the ordered key 'k'"


def _more(head: UUID) -> str:
    return f"`tenure why {head}` says more."


def test_behind_an_earlier_row_that_is_due(world: World) -> None:
    head, behind = _pair(world)
    nobody = f", but no worker is alive: {START}"
    assert _why(world, behind) == f"{_behind(head, 'pending')}, which is due now{nobody}; {_more(head)}"
    world.run(fleet.register("A", FREE))
    assert _why(world, behind) == f"{_behind(head, 'pending')}, which is due now; {_more(head)}"
    world.run(queues.pause("default"))
    paused = ", but the queue 'default' is paused: `tenure queues resume default`"
    assert _why(world, behind) == f"{_behind(head, 'pending')}, which is due now{paused}; {_more(head)}"


def test_behind_an_earlier_row_that_is_not_due(world: World) -> None:
    head, behind = _pair(world, delay_seconds=600)
    assert _why(world, behind) == f"{_behind(head, 'pending')}, which is due in 10 min; {_more(head)}"
    world.sql("UPDATE live SET available_at = 'infinity' WHERE id = %s", head)
    assert _why(world, behind) == f"{_behind(head, 'pending')}, which is never due; {_more(head)}"


def test_behind_the_row_that_holds_its_key(world: World) -> None:
    head, behind = _pair(world)
    world.claim_ordered("A")
    assert _why(world, behind) == f"{_behind(head, 'processing')}, held by worker A; {_more(head)}"


@pytest.mark.parametrize("folded", [False, True])
def test_behind_a_row_that_is_to_be_tried_again(world: World, folded: bool) -> None:
    head, behind = _pair(world)
    (job,) = world.claim_ordered()
    world.retry(job.lease, delay=60)
    if folded:
        assert world.claim_ordered() == []
    assert _why(world, behind) == f"{_behind(head, 'pending')}, which is tried again in 60 s; {_more(head)}"
    world.due()
    world.run(fleet.register("A", FREE))
    assert _why(world, behind) == f"{_behind(head, 'pending')}, which is tried again now; {_more(head)}"


@pytest.mark.parametrize("then", ["held", "retried", "retried and looked at"])
def test_behind_a_row_with_a_higher_number_that_had_begun_before(world: World, then: str) -> None:
    slow = user_connection(world)
    late = world.run(verbs.enqueue(NewRow("send_receipt", {}, key="k", ordered=True)), slow).id
    second = world.enqueue(key="k", ordered=True)
    (job,) = world.claim_ordered()
    assert job.id == second
    if then != "held":
        world.retry(job.lease, delay=60)
    if then == "retried and looked at":
        assert world.claim_ordered() == []
    slow.commit()
    begun = ", which had begun before this one was committed"
    state = ("processing", ", held by worker A") if then == "held" else ("pending", ", which is tried again in 60 s")
    assert _why(world, late) == f"{_behind(second, state[0])}{begun}{state[1]}; {_more(second)}"


def test_behind_one_that_keeps_its_key_for_an_operator(world: World) -> None:
    head, behind = _pair(world, hold=True)
    (job,) = world.claim_ordered()
    world.fail(job.lease)
    assert _why(world, behind) == (
        f"{_behind(head, 'failed')}, which keeps its key; redrive or delete that one, "
        "or `tenure queues free default k`."
    )


def test_in_a_run_behind_the_row_at_work(world: World) -> None:
    first, second, third = (world.enqueue(key="k", ordered=True) for _ in range(3))
    jobs = world.claim_ordered("A", run_length=3)
    turn = (
        "It waits for its turn in a run of worker A, behind row {} of the ordered key 'k'; `tenure why {}` says more."
    )
    assert _why(world, first).startswith("It is held by worker A for another ")
    assert _why(world, second) == _why(world, third) == turn.format(first, first)
    world.complete(jobs[0].lease)
    assert _why(world, second).startswith("It is held by worker A for another ")
    assert _why(world, third) == turn.format(second, second)


def test_a_row_of_its_key_under_another_claim_is_no_run(world: World) -> None:
    """By hand: a key has one holder. The row is held, whatever else its key has."""
    world.enqueue(key="k", ordered=True, delay_seconds=600)
    id = world.enqueue(key="k", ordered=True)
    world.sql(
        "UPDATE live SET status = 'processing', claimed_by = 'A', claimed_at = clock_timestamp(), claim_id = 7,"
        " lease_expires_at = clock_timestamp() + interval '1 minute' WHERE id = %s",
        id,
    )
    assert _why(world, id).startswith("It is held by worker A")


# -- a processing row


def _kept(world: World, job: Claimed) -> None:
    world.run(fleet.register("A", FREE))


def _stopped(world: World, job: Claimed) -> None:
    """By SIGSTOP: its session is open, and it says nothing."""
    world.run(fleet.register("A", FREE))
    world.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '12 seconds'")


def _draining(world: World, job: Claimed) -> None:
    world.run(fleet.register("A", FREE))
    world.run(fleet.drain("A"))


def _asked(world: World, job: Claimed) -> None:
    world.run(verbs.cancel([job.id]))


def _expired(world: World, job: Claimed) -> None:
    world.run(fleet.register("B", FREE))
    world.expire(job.lease)


def _expired_and_asked(world: World, job: Claimed) -> None:
    _expired(world, job)
    _asked(world, job)


def _expired_and_nobody_left(world: World, job: Claimed) -> None:
    world.expire(job.lease)


def _expired_and_not_swept(world: World, job: Claimed) -> None:
    _expired(world, job)
    world.sql("UPDATE chores SET ran_at = clock_timestamp() - interval '5 minutes' WHERE name = 'leases'")


def _gone(world: World, job: Claimed) -> None:
    world.run(fleet.register("B", FREE))
    world.run(fleet.register("A"))
    session = world.connect()
    world.run(fleet.appear("A"), session)
    assert "a living worker renews that" in _why(world, job.id)
    session.close()
    until(lambda: world.run(questions.workers())[0].present is False, "its lock is gone")


def _gone_and_nobody_left(world: World, job: Claimed) -> None:
    _gone(world, job)
    world.run(fleet.leave("B"))


def _dead(world: World, job: Claimed) -> None:
    world.run(fleet.register("B", FREE))
    world.run(fleet.register("A"))
    world.sql("UPDATE workers SET status = 'dead' WHERE id = 'A'")


GRACE = "it comes back after the grace (6 s by default), or when its lease ends in 90 s."
HEARD, STOPPED = (f", and this one was last heard from {age} s ago" for age in (0, 12))
OVER = "Its lease under worker A ran out 60 s ago, attempt 1 of"


@pytest.mark.parametrize(
    ("happening", "max_attempts", "sentence"),
    [
        (_kept, 5, f"It is held by worker A for another 90 s, attempt 1 of 5; a living worker renews that{HEARD}."),
        (
            _stopped,
            5,
            f"It is held by worker A for another 90 s, attempt 1 of 5; a living worker renews that{STOPPED}.",
        ),
        (
            _draining,
            5,
            "It is held by worker A (draining) for another 90 s, attempt 1 of 5; "
            f"it ends the row or gives it back{HEARD}.",
        ),
        (
            _asked,
            5,
            "It is held by worker A, which was asked to cancel it for another 90 s, attempt 1 of 5; "
            "a living worker renews that.",
        ),
        (_gone, 5, f"It is held by worker A, whose session is gone, attempt 1 of 5; {GRACE}"),
        (_dead, 5, f"It is held by worker A (dead), whose session is gone, attempt 1 of 5; {GRACE}"),
        (
            _gone_and_nobody_left,
            5,
            "It is held by worker A, whose session is gone, attempt 1 of 5; "
            "no worker is alive to take it back: start one.",
        ),
        (_expired, 5, f"{OVER} 5; the next sweep, every 2 s, returns it to pending."),
        (_expired, 1, f"{OVER} 1; the next sweep, every 2 s, ends it as a dead letter."),
        (
            _expired_and_asked,
            5,
            "Its lease under worker A, which was asked to cancel it ran out 60 s ago, attempt 1 of 5; "
            "the next sweep, every 2 s, ends it as cancelled.",
        ),
        (
            _expired_and_nobody_left,
            5,
            f"{OVER} 5; no worker is alive to take it back: start one, and the sweep returns it to pending.",
        ),
        (
            _expired_and_not_swept,
            5,
            f"{OVER} 5; the last sweep was 5 min ago: see `tenure doctor`; the next one returns it to pending.",
        ),
    ],
)
def test_what_stands_between_a_held_row_and_its_end(
    world: World, happening: Callable[[World, Claimed], None], max_attempts: int, sentence: str
) -> None:
    id = world.enqueue(max_attempts=max_attempts)
    happening(world, world.claim_one("A"))
    assert re.fullmatch(_some_seconds_later(sentence), _why(world, id))


def _some_seconds_later(sentence: str) -> str:
    """The same on a slow machine, as a pattern: ages have grown and what is to come is nearer."""
    later = {"90": r"(90|8\d)", "60": r"6\d", "12": r"1[2-9]", "0": r"\d"}
    return re.sub(r"\b(90|60|12|0)(?=\\ s)", lambda found: later[found[0]], re.escape(sentence))


def test_the_sweep_passes_by_a_row_that_somebody_has_locked(world: World) -> None:
    id = world.enqueue()
    _expired(world, world.claim_one("A"))
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [id])
    assert world.sweep() == []
    assert _why(world, id) == (
        f"{OVER} 10; process {_pid(other)} of the server has locked it for 0 s: the next sweep after that returns it "
        "to pending."
    )


@pytest.mark.parametrize(
    ("says", "mend"),
    [
        (
            "a worker gave it back (encrypted with key 'k1', which this worker does not have)",
            "give its workers that key",
        ),
        ("a worker gave it back (no handler for kind 'send_receipt' in this worker)", "start a worker that has it"),
    ],
)
def test_a_row_that_a_worker_gave_back_says_what_was_missing(world: World, says: str, mend: str) -> None:
    world.run(fleet.register("A", FREE))
    id = world.enqueue()
    world.run(settle.release([world.claim_one("A").lease], errors=[says.split("(")[1].rstrip(")")], delays=[3600.0]))
    world.sql("UPDATE live SET available_at = clock_timestamp() + interval '59.5 minutes'")
    sentence = _why(world, id)
    assert says in sentence
    assert sentence.endswith(f": {mend}, then `tenure retry` makes it due.")


# -- the SQL behind it


def test_the_sql_of_why_runs_as_it_is_printed(world: World) -> None:
    id = world.enqueue()
    ((status, kind, *_),) = world.sql(questions.why_in_sql(id, world.schema).replace("%", "%%"))
    assert (status, kind) == ("pending", "send_receipt")
