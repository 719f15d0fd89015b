"""The claim that is made before a rest: it is sent for the note that it was made for, and no row is lost by it."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from crew import Hired, eventually, working
from tenure import postgres
from tenure.app.inbox import Inbox
from tenure.model.rows import Lane, Offer
from tenure.worker import claimer
from tenure.worker.claim_rule import UNORDERED, SentClaim
from tenure.worker.config import Terms
from tenure.worker.lane_memory import LATE_SECONDS
from tenure.worker.news import Buckets, Note, Other
from tenure.worker.worker import Worker
from world import World

NOTE = Note("0517 default")  # of an unordered row
NOON = 1_800_000_000.0


@pytest.fixture
def rested(world: World) -> Worker:
    """It was not started, has read a board with one lane, and would rest now."""
    inbox = Inbox()
    inbox.handler("work")(_nothing)
    worker = Worker(inbox, Terms(world.url, schema=world.schema, slots=5))
    rule = worker.claimer.claims.rule
    rule.queues = {"default": 1.0}
    rule.learn([Offer("default", 0, False, False, None, NOON)])
    worker.claimer.ready.make()
    return worker


async def _nothing() -> None:
    """Done."""


def taken(worker: Worker, *news: Other) -> SentClaim | None:
    """What is sent at once when it hears these."""
    return worker.claimer.ready.take(news)


def test_a_note_is_answered_with_the_claim_that_a_round_would_send(world: World, rested: Worker) -> None:
    sent = world.enqueue("work")
    claim, claims = taken(rested, NOTE), rested.claimer.claims
    claims.rule.look_again("default", ordered=False)
    by_round = claims.next(0, 0.0)
    assert claim is not None
    assert by_round is not None
    assert (claim.source, claim.n, claim.lanes) == (UNORDERED, by_round.n, (Lane(),))
    known = {**by_round.statement.params, "claim_id": claim.claim_id}
    assert (claim.statement.name, dict(claim.statement.params)) == ("claim", known), "also how far back it looks"
    assert float(known["floors"].strip("{}")) < NOON - LATE_SECONDS
    world.run(claim.statement)
    assert world.row(sent).status == "processing"


@pytest.mark.parametrize(
    "news",
    [
        [],
        [Note("")],
        [Note("queues")],
        [Note("00517 default")],  # an ordered row
        [Note("517 default")],  # of an older package: it may be ordered
        [Note("* default")],  # many rows, of any kind
        [Note("0517 other")],
        [NOTE, NOTE],
        [NOTE, Buckets(None)],
        [Buckets((517,))],
    ],
)
def test_whatever_else_comes_is_for_a_round_to_decide(rested: Worker, news: list[Other]) -> None:
    assert taken(rested, *news) is None


@pytest.mark.parametrize(
    ("offers", "queues", "lanes"),
    [
        ([], ["default"], (Lane("default"),)),
        ([Offer("default", 0, True, False, None, NOON)], ["default"], (Lane("default"),)),  # it has ordered keys
        ([Offer("default", 0, False, True, None, NOON)], ["default"], None),  # it has limits
        ([], ["default", "other"], None),
        ([Offer("default", 3, False, False, None, NOON)], ["default", "other"], (Lane("default", 3),)),
    ],
)
def test_it_asks_the_lanes_that_a_round_would_ask_after_the_note(
    rested: Worker, offers: list[Offer], queues: list[str], lanes: tuple[Lane, ...] | None
) -> None:
    claims = rested.claimer.claims
    claims.rule.queues = dict.fromkeys(queues, 1.0)
    claims.rule.learn(offers)
    rested.claimer.ready.make()
    claim = taken(rested, NOTE)
    assert (claim and claim.lanes) == lanes
    claims.rule._dry = dict.fromkeys(claims.rule._sources, float("inf"))  # as in every rest
    claims.rule.look_again("default", ordered=False)
    by_round = claims.next(0, 0.0)
    assert claim is None or (by_round and by_round.lanes) == lanes


def test_a_claim_is_made_for_one_rest(rested: Worker) -> None:
    assert taken(rested) is None
    assert taken(rested, NOTE) is None
    rested.claimer.ready.make()
    assert taken(rested, NOTE) is not None
    assert taken(rested, NOTE) is None


def test_a_note_about_a_bucket_of_another_worker_is_not_answered(rested: Worker) -> None:
    rested.claimer.claims.rule.own((516, 518))
    rested.claimer.ready.make()
    assert taken(rested, NOTE) is None


def test_no_more_is_claimed_than_there_are_slots_by_then(rested: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another inbox of this worker may take slots while this one rests."""
    held = rested.claimer._held
    monkeypatch.setattr(type(held), "slots_offered", property(lambda _: 4))
    assert taken(rested, NOTE) is None


def test_a_lost_claim_is_looked_for_first(rested: Worker) -> None:
    claim = taken(rested, NOTE)
    assert claim is not None
    rested.claimer.claims.send(claim)
    rested.claimer.ready.make()
    assert taken(rested, NOTE) is None


def test_many_lanes_take_turns_in_a_round(rested: Worker) -> None:
    rule = rested.claimer.claims.rule
    rule.queues = {f"q{k}": 1.0 for k in range(100)}
    rule.learn([Offer(queue, 0, False, False, None, NOON) for queue in rule.queues])
    rested.claimer.ready.make()
    assert taken(rested, Note("0517 q1")) is None


# -- real workers, whose next poll is minutes away


@pytest.mark.parametrize("watched", [True, False])
def test_a_claim_that_is_refused_at_once_is_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    inbox, done, refused = Inbox(), threading.Event(), threading.Event()

    @inbox.handler("work")
    async def work() -> None:
        done.set()

    def run(conn: Any, statement: Any) -> Any:
        if statement.name == "claim" and armed.is_set() and not refused.is_set():
            refused.set()
            raise psycopg.errors.LockNotAvailable
        return postgres.run(conn, statement)

    armed = threading.Event()
    monkeypatch.setattr(claimer, "run", run)
    with working(world, inbox, poll_seconds=300.0) as hired:
        if not watched:
            hired.worker.bus.unsubscribe(hired.events.append)
        asleep(hired)
        armed.set()
        world.enqueue("work")
        eventually(done.is_set)
        assert refused.is_set()


def test_a_note_that_comes_while_rows_begin_is_heard_after_the_answer(world: World) -> None:
    """The answer says that no more was there: it must not outweigh a later note."""
    inbox = Inbox()
    begun: list[str] = []

    @inbox.handler("work")
    async def work() -> None:
        begun.append("work")
        if len(begun) == 1:
            world.enqueue("work")  # its note is there before the answer was learned

    with working(world, inbox, poll_seconds=300.0) as hired:
        hired.worker.bus.unsubscribe(hired.events.append)
        asleep(hired)
        world.enqueue("work")
        eventually(lambda: len(begun) == 2)


def asleep(hired: Hired) -> None:
    """Until it rests, with a claim at hand."""
    eventually(lambda: hired.worker.claimer.sleep.told and hired.worker.claimer.ready._claim)
