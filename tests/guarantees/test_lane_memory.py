"""What a claimer remembers of lanes never hides a row for longer than until the next poll."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tenure.model.rows import Claimed, Lane, Offer
from tenure.worker.claim_rule import UNORDERED, ClaimRule, SentClaim
from tenure.worker.lane_memory import COMMIT_SECONDS, FLOOR_SLACK_SECONDS, LANES_MAX, LATE_SECONDS, LaneMemory

NOON = 1_800_000_000.0  # the database's clock; ours is at zero
MAIL, WEB = Lane("mail", 0), Lane("web", 0)


def offer(lane: Lane, due_seconds: float | None, at: float = NOON) -> Offer:
    return Offer(lane.queue, lane.priority, False, False, due_seconds, at)


def row(queue: str, available_seconds: float) -> Claimed:
    return Claimed(UUID(int=1), "k", queue, "k", 0, "{}", 1, 5, available_seconds, 1, 1 << 40, NOON + 90, None, 1, "A")


def rule(*buckets: int) -> ClaimRule:
    return ClaimRule({"mail": 1.0, "web": 1.0}, 90.0, chance=lambda: 0.5, buckets=buckets or None)


def sent(rule: ClaimRule, n: int = 1, at: float = 0.0, *, everywhere: bool = False) -> SentClaim:
    claim = rule.next("A", n, at, everywhere={UNORDERED} if everywhere else set())
    assert claim is not None
    return claim


def floors(claim: SentClaim) -> dict[Lane, float]:
    numbers: Any = claim.statement.params["floors"]
    return dict(zip(claim.lanes, map(float, numbers.strip("{}").split(",")), strict=True))


def test_a_floor_is_the_time_of_the_first_row_that_waits_or_the_time_of_the_board() -> None:
    memory = LaneMemory()
    memory.board_was_read([offer(MAIL, -7.0), offer(WEB, 60.0), offer(Lane("empty"), None)])
    assert memory.floors([MAIL, WEB, Lane("empty"), Lane("new")]) == [
        NOON - 7 - FLOOR_SLACK_SECONDS, NOON - COMMIT_SECONDS, NOON - COMMIT_SECONDS, float("-inf"),
    ]  # fmt: skip


def test_the_board_of_a_poll_has_no_floor_and_its_claim_begins_where_that_board_saw_the_first_row() -> None:
    for claimer in (rule(), rule(1, 2, 3)):
        claimer.learn([offer(MAIL, -7.0)])
        assert claimer.lanes.known() == {MAIL: NOON - 7 - COMMIT_SECONDS}
        assert claimer.lanes.known(late=True, deep=True) == {MAIL: float("-inf")}
        claimer.learn([offer(MAIL, -300.0)])
        claim = sent(claimer, everywhere=True)
        assert claim.statement.name == "claim"
        assert floors(claim) == {MAIL: NOON - 300 - FLOOR_SLACK_SECONDS}


def test_after_a_note_the_claim_looks_further_back_and_the_board_at_everything() -> None:
    claimer = rule()
    claimer.learn([offer(MAIL, None)])
    claimer.look_again("mail")
    assert floors(sent(claimer)) == {MAIL: NOON - COMMIT_SECONDS - LATE_SECONDS}
    assert claimer.lanes.noted
    claimer.learn([offer(MAIL, None)])
    assert not claimer.lanes.noted
    assert floors(sent(claimer)) == {MAIL: NOON - COMMIT_SECONDS}
    assert claimer.lanes.known() == {MAIL: NOON - COMMIT_SECONDS}


def test_a_board_that_would_be_too_dear_without_floors_looks_as_far_back_as_a_claim_after_a_note() -> None:
    claimer = rule()
    claimer.learn([offer(MAIL, None)])
    assert claimer.lanes.known(late=True, deep=False) == {MAIL: NOON - COMMIT_SECONDS - LATE_SECONDS}


def test_the_floor_of_a_board_that_says_less_is_taken_back() -> None:
    claimer = rule()
    claimer.learn([offer(MAIL, -1.0)])
    claimer.learn([offer(MAIL, -1.0, NOON - 300)])
    assert floors(sent(claimer)) == {MAIL: NOON - 301 - FLOOR_SLACK_SECONDS}


def test_rows_in_order_of_time_move_the_floor_of_claims_and_not_that_of_the_board() -> None:
    claimer = rule()
    claimer.learn([offer(MAIL, -7.0), offer(WEB, -7.0), offer(Lane("web", 3), -7.0)])
    claim = sent(claimer, 3)
    claimer.answered(claim, [row("mail", NOON - 6), row("mail", NOON - 4), row("web", NOON - 2)])
    moved = floors(sent(claimer))
    assert moved[MAIL] == NOON - 4 - FLOOR_SLACK_SECONDS
    assert moved[WEB] == moved[Lane("web", 3)] == NOON - 7 - FLOOR_SLACK_SECONDS, "which of both is not known"
    assert claimer.lanes.known()[MAIL] == NOON - 7 - COMMIT_SECONDS


def test_a_floor_is_no_younger_than_a_second_before_it_was_seen() -> None:
    """Of two rows sent at nearly the same time, the later one may commit first."""
    claimer = rule()
    claimer.learn([offer(MAIL, -7.0)])
    claimer.answered(sent(claimer), [row("mail", NOON - 0.2)])
    assert floors(sent(claimer)) == {MAIL: NOON - COMMIT_SECONDS}
    slow = rule()
    slow.learn([offer(MAIL, -7.0)])
    slow.answered(sent(slow), [row("mail", NOON - 0.2)], 3.0)
    assert floors(sent(slow)) == {MAIL: NOON - 3 - COMMIT_SECONDS}, "what committed while it searched was not seen"


def test_a_worker_with_a_share_of_the_ring_claims_by_time_like_one_that_has_it_all() -> None:
    """Order needs an owner, unordered rows do not: what is due longest is claimed first, by whoever has a slot."""
    alone, shared = rule(), rule(1, 2)
    for claimer in (alone, shared):
        claimer.learn([offer(MAIL, -7.0), offer(WEB, 60.0)])
        claim = sent(claimer, 2)
        assert (claim.statement.name, set(claim.lanes)) == ("claim", {MAIL, WEB})
        claimer.answered(claim, [row("mail", NOON - 2)])
        assert claimer.dry_until() == float("inf")
        claimer.learn([offer(MAIL, -7.0), offer(WEB, 60.0)])
        assert floors(sent(claimer))[MAIL] == NOON - 7 - FLOOR_SLACK_SECONDS, "a row that came back is found again"


def test_a_ring_that_changed_leaves_the_floors_as_they_were() -> None:
    claimer = rule(1, 2)
    claimer.learn([offer(MAIL, -7.0)])
    claimer.own((3, 4))
    assert floors(sent(claimer)) == {MAIL: NOON - 7 - FLOOR_SLACK_SECONDS}


def test_a_lane_that_the_board_does_not_show_is_remembered_without_a_floor_while_there_are_few() -> None:
    memory = LaneMemory()
    memory.board_was_read([offer(MAIL, -7.0)])
    memory.board_was_read([offer(WEB, -7.0, NOON + 1)])  # the queue mail is paused, perhaps
    assert memory.known()[MAIL] == float("-inf")
    memory.board_was_read([offer(Lane("web", n), None) for n in range(LANES_MAX)])
    memory.board_was_read([offer(WEB, -7.0)])
    assert list(memory.known()) == [WEB]


def test_a_board_of_many_lanes_is_not_told_what_is_known() -> None:
    """To tell thousands takes longer than what their floors save."""
    memory = LaneMemory()
    memory.board_was_read([offer(Lane(f"q{n}"), -7.0) for n in range(LANES_MAX)])
    assert len(memory.known()) == LANES_MAX
    memory.board_was_read([offer(Lane(f"q{n}"), -7.0) for n in range(LANES_MAX + 1)])
    assert memory.known() == {}
    assert memory.floors([Lane("q3")]) == [NOON - 7 - FLOOR_SLACK_SECONDS], "claims keep theirs"
