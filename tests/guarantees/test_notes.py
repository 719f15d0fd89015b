"""A note says what kind of row came, in words that a worker of 0.1.0 reads too: nobody looks where nothing can be."""

from __future__ import annotations

import pytest

from tenure import verbs
from tenure.model.rows import Lane, NewRow, Offer
from tenure.verbs import batches, fleet, questions
from tenure.worker.claim_rule import ClaimRule, SentClaim
from tenure.worker.news import Note
from world import World

FLOW = {"tenure-flow": "checkout"}


class Listener:
    """Hears the notes of a world in which somebody sleeps."""

    def __init__(self, world: World) -> None:
        self.world, self.conn = world, world.connect()
        self.conn.execute(f'LISTEN "{world.run(questions.channel())}"'.encode())
        world.run(fleet.register("W"))
        world.run(fleet.set_waiting("W", waiting=True))

    def notes(self) -> list[str]:
        self.world.run(fleet.tell("the end"))
        heard: list[str] = []
        for note in self.conn.notifies(timeout=120):
            if note.payload == "the end":
                return heard
            heard.append(note.payload)
        raise AssertionError("the channel is deaf")


def read_by_0_1_0(note: str) -> tuple[int, str] | None:
    """Where a worker of 0.1.0 looks for this note: as its claimer reads it."""
    bucket, _, queue = note.partition(" ")
    return (int(bucket), queue) if bucket.isdigit() else None


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("idempotency_key", [None, "once"])
def test_a_note_says_what_kind_of_row_came_and_where(world: World, ordered: bool, idempotency_key: str | None) -> None:
    listener = Listener(world)
    world.enqueue("work", key="k", queue="mail and more", ordered=ordered, idempotency_key=idempotency_key)
    (note,) = listener.notes()
    assert Note(note).ordered is ordered
    assert read_by_0_1_0(note) == (world.run(questions.bucket("k")), "mail and more")


def test_a_row_in_a_bulk_of_one_is_told_like_any_other(world: World) -> None:
    listener = Listener(world)
    for ordered in (False, True):
        world.run(verbs.enqueue_many([a_row(ordered)]))
        assert [Note(note).ordered for note in listener.notes()] == [ordered]


def a_row(ordered: bool) -> NewRow:
    return NewRow("work", key="k", ordered=ordered)


@pytest.mark.parametrize("bucket", [0, 7, 1023])
def test_zeros_before_the_number_say_it_for_every_bucket(world: World, bucket: int) -> None:
    for ordered in (None, False, True):
        ((note,),) = world.sql("SELECT note('default', %s, %s)", bucket, ordered)
        assert Note(note).ordered is ordered
        assert read_by_0_1_0(note) == (bucket, "default")
    assert world.sql("SELECT note('default', NULL, true)") == [("* default",)]
    assert Note("* default").ordered is None
    assert Note("queues").ordered is None


def test_a_duplicate_wakes_nobody_and_silence_is_kept(world: World) -> None:
    world.enqueue("work", {"a": 1}, idempotency_key="once")
    listener = Listener(world)
    world.enqueue("work", {"a": 1}, idempotency_key="once")
    world.sql("SET tenure_inbox.notify = off")
    world.enqueue("work")
    world.enqueue("work", idempotency_key="twice")
    world.sql("SET tenure_inbox.notify = on")
    assert listener.notes() == []


def test_nobody_is_told_when_nobody_sleeps(world: World) -> None:
    listener = Listener(world)
    world.run(fleet.set_waiting("W", waiting=False))
    world.enqueue("work")
    world.enqueue("work", idempotency_key="once")
    world.run(verbs.enqueue_many([a_row(False), a_row(True)]))
    assert listener.notes() == []


# -- what the claimer makes of it


def rested() -> ClaimRule:
    """A rule that knows lanes of both kinds, and has found nothing in either."""
    rule = ClaimRule({"default": 1.0, "mail": 1.0}, 90.0)
    rule.learn([Offer("default", 0, False, False, 0.0), Offer("default", 0, True, False, 0.0)])
    claims_of(rule)
    return rule


def claims_of(rule: ClaimRule) -> list[str]:
    """The claims that follow, all of them empty, until every source is dry."""
    sent: list[str] = []
    while (claim := rule.next("A", 5, 1.0, everywhere=set())) is not None:
        sent.append(answered(rule, claim))
    return sent


def answered(rule: ClaimRule, claim: SentClaim) -> str:
    rule.answered(claim, [])
    return claim.statement.name


@pytest.mark.parametrize(
    ("ordered", "claims"),
    [(False, ["claim"]), (True, ["claim_ordered"]), (None, ["claim", "claim_ordered"])],
)
@pytest.mark.parametrize("queue", ["default", "mail"])
def test_a_note_rouses_the_claims_of_its_kind_and_unordered_rows_come_first(
    ordered: bool | None, claims: list[str], queue: str
) -> None:
    for turns in range(3):  # whoever was first before
        rule = rested()
        for _ in range(turns):
            rule.look_again("default", True)
            claims_of(rule)
        rule.look_again(queue, ordered)
        assert claims_of(rule) == claims


def test_an_ordered_row_is_looked_for_where_only_unordered_ones_were_known() -> None:
    rule = ClaimRule({"default": 1.0}, 90.0)
    rule.learn([Offer("default", 0, False, False, 0.0)])
    claims_of(rule)
    rule.look_again("default", True)
    assert claims_of(rule) == ["claim_ordered"]


def test_a_note_about_a_limited_queue_asks_that_queue_alone() -> None:
    rule = ClaimRule({"default": 1.0}, 90.0)
    rule.learn([Offer("default", 0, False, True, 0.0)])
    claims_of(rule)
    for ordered in (False, True, None):
        rule.look_again("default", ordered)
        assert claims_of(rule) == ["claim_limited"]


@pytest.mark.parametrize("how", ["asked", "child failed"])
def test_busy_workers_are_told_too_of_a_flow_that_comes_first_in_line(world: World, how: str) -> None:
    """They search from the last row that they have seen, and this one is put before it."""
    listener = Listener(world)
    flow = world.enqueue("checkout", queue="mail", headers=FLOW)
    world.enqueue("work", queue="mail")
    if how == "child failed":
        child = NewRow("child", queue="children", max_attempts=1)
        world.run(batches.open_group([child, child], then_row=flow, stop_on_failure=True))
    world.run(fleet.set_waiting("W", waiting=False))
    listener.notes()
    if how == "child failed":
        (job,) = world.claim("A", 1, lanes=[Lane("children")])
        world.dead_letter(job.lease)
    else:
        world.sql("SELECT stop_flow(%s, NULL, 'changed my mind')", flow)
    assert "* mail" in listener.notes()
    assert world.sql("SELECT id FROM live WHERE queue = 'mail' ORDER BY available_at")[0] == (flow,)
