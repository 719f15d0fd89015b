"""Of many lanes a claim asks some that are not known to be empty; of few it asks all. None is forgotten."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import pytest

from tenure.model.rows import Claimed, Lane, Offer
from tenure.worker.claim_rule import UNORDERED, ClaimRule, SentClaim
from tenure.worker.lane_turns import FEW

MANY = 1_000


def names(count: int) -> list[str]:
    return [f"q{n}" for n in range(count)]


def board(queues: Sequence[str], due_seconds: float | None = -1.0) -> list[Offer]:
    return [Offer(queue, 0, False, False, due_seconds, 0.0) for queue in queues]


def row(queue: str) -> Claimed:
    return Claimed(UUID(int=1), "k", queue, "k", 0, "{}", 1, 5, 0.0, 1, 1 << 40, 90.0, None, 1, "A")


class Tables:
    """Rows by queue, claimed as the statement does: lane after lane, until there are enough."""

    def __init__(self, queues: Sequence[str], rows: int = 1, seed: int = 7) -> None:
        self.rows = Counter(dict.fromkeys(queues, rows))
        self.rule = ClaimRule(dict.fromkeys(queues, 1.0), 90.0, chance=random.Random(seed).random)
        self.asked: Counter[str] = Counter()

    def claim(self, n: int) -> SentClaim | None:
        """One claim, answered; None if the rule thinks that there is nothing."""
        claim = self.rule.next("A", n, 0.0, everywhere=set())
        if claim is None:
            return None
        found: list[Claimed] = []
        for lane in claim.lanes:
            self.asked[lane.queue] += 1
            taken = min(n - len(found), self.rows[lane.queue])
            self.rows[lane.queue] -= taken
            found += [row(lane.queue)] * taken
            if len(found) == n:
                break
        self.rule.answered(claim, found)
        return claim

    def drain(self, n: int) -> int:
        """Claims until the rule knows of no more."""
        claims = 0
        while self.claim(n) is not None:
            claims += 1
            assert claims < 10 * MANY
        return claims


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_many_queues_are_drained_and_each_is_asked_about_as_often_as_it_gives(rows: int) -> None:
    tables = Tables(names(MANY), rows)
    tables.rule.learn(board(names(MANY)))
    claims = tables.drain(100)
    assert not +tables.rows
    assert claims <= MANY * rows / 100 + MANY / FEW + 2
    assert tables.asked.total() <= 2 * MANY + claims  # with what was emptied before, 30 times as often


def test_an_empty_lane_of_many_is_asked_again_after_a_note_and_after_a_board_that_sees_a_row() -> None:
    tables = Tables(names(MANY), 1)
    tables.rule.learn(board(names(MANY)))
    tables.drain(100)
    tables.rows["q17"] += 1
    assert tables.claim(100) is None
    tables.rule.look_again("q17", ordered=False)
    claim = tables.claim(100)
    assert claim is not None
    assert claim.lanes == (Lane("q17"),)
    assert tables.rows["q17"] == 0
    tables.rows["q18"] += 1
    tables.rule.learn([*board(["q18"]), *board(names(17)), *board(names(MANY)[100:], 3600.0)])
    tables.drain(100)
    assert tables.rows["q18"] == 0
    assert tables.rule.dry_until() == float("inf")


def test_a_poll_asks_them_all() -> None:
    tables = Tables(names(MANY), 1)
    tables.rule.learn(board(names(MANY)))
    tables.drain(100)
    tables.rows.update(names(MANY))
    tables.rule.look_again()
    tables.drain(100)
    assert not +tables.rows


def test_lanes_with_nothing_due_are_not_asked_until_something_is() -> None:
    tables = Tables(names(MANY), 1)
    tables.rule.learn([*board(["q5"]), *board([queue for queue in names(MANY) if queue != "q5"], 3600.0)])
    claim = tables.claim(100)
    assert claim is not None
    assert claim.lanes == (Lane("q5"),)


def test_few_lanes_are_asked_each_time() -> None:
    """A row that comes to one of them is found by the next claim, without a note."""
    tables = Tables(names(FEW), 5)
    tables.rule.learn(board(names(FEW)))
    for _ in range(3):
        claim = tables.claim(4)
        assert claim is not None
        assert len(claim.lanes) == FEW


def test_of_many_queues_one_of_ten_times_the_weight_is_asked_first_as_often() -> None:
    weights = {queue: 10.0 if n < 100 else 1.0 for n, queue in enumerate(names(MANY))}
    rule = ClaimRule(weights, 90.0, chance=random.Random(3).random)
    rule.learn(board(names(MANY)))
    firsts = Counter[bool]()
    for _ in range(2_000):
        claim = rule.next("A", 1, 0.0, everywhere={UNORDERED})
        assert claim is not None
        firsts[int(claim.lanes[0].queue[1:]) < 100] += 1
    assert 0.48 < firsts[True] / 2_000 < 0.58  # 1,000 of 1,900


def test_the_urgent_lane_of_a_queue_is_asked_before_its_others() -> None:
    rule = ClaimRule(dict.fromkeys(names(MANY), 1.0), 90.0)
    lanes = [Offer(queue, priority, False, False, -1.0, 0.0) for queue in names(MANY) for priority in (5, 0, -5)]
    rule.learn(random.Random(1).sample(lanes, len(lanes)))
    claim = rule.next("A", 10, 0.0, everywhere=set())
    assert claim is not None
    of_queue: dict[str, list[int]] = {}
    for lane in claim.lanes:
        of_queue.setdefault(lane.queue, []).append(lane.priority)
    assert all(found == [5, 0, -5] for found in of_queue.values())
    # Rows do not say their lane: those of a queue that gave the last row are all asked again.
    rule.answered(claim, [row(claim.lanes[0].queue)] * 10)
    again = {lane for _ in range(200) for lane in (rule.next("A", 10, 0.0, everywhere=set()) or claim).lanes}
    assert set(claim.lanes[:3]) <= again


@pytest.mark.parametrize(("heavy", "weight"), [(100, 100.0), (10, 1e6), (1, 1e5)])
def test_heavy_queues_that_are_empty_keep_nobody_from_the_others(heavy: int, weight: float) -> None:
    tables = Tables(names(MANY), 1)
    tables.rule = ClaimRule(
        {queue: weight if n < heavy else 1.0 for n, queue in enumerate(names(MANY))},
        90.0,
        chance=random.Random(5).random,
    )
    tables.rule.learn(board(names(MANY)))
    assert tables.drain(100) <= MANY / 100 + MANY / FEW + 8
    assert not +tables.rows
