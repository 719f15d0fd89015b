"""Completions of one inbox wait for more while others want slots too; nothing that somebody waits for does."""

from __future__ import annotations

from functools import partial

import pytest

from crew import eventually
from pairs import both_ready, new_pair, serving
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import Bus
from tenure.model.outcome import COMPLETED, Fail, Outcome
from tenure.model.rows import NewRow
from tenure.worker.attempt import Attempt, Common
from tenure.worker.claim_rule import ORDERED, UNORDERED
from tenure.worker.gathering import MANY, Gathering
from tenure.worker.held import HeldAttempts
from tenure.worker.settler import Settler
from tenure.worker.slots import Slots
from world import World

pytestmark = pytest.mark.one_server
SLOTS = 4


class Stage:
    """Two inboxes without workers share the slots; rows of one of them wait ahead."""

    def __init__(self, world: World, n: int = 8) -> None:
        slots = Slots(SLOTS)
        self.held, self.other = HeldAttempts(Bus(), slots), HeldAttempts(Bus(), slots)
        self.other.say_hungry(True)
        world.run(verbs.enqueue_many([NewRow("work") for _ in range(n)]))
        self.attempts = [Attempt(Job(row), common=Common(UNORDERED)) for row in world.claim("w", n)]
        self.held.take(self.attempts)
        self.held.queue(self.attempts)
        self.held.ahead.row_seconds, self.held.ahead._limit = 0.0, float(n)
        self.settler = Settler(None, self.held)  # type: ignore[arg-type]
        self.gathering = Gathering(self.held, self.settler)

    def ended(self, outcome: Outcome = COMPLETED, n: int = 1) -> bool:
        """The handlers of these have returned: may they wait?"""
        for attempt in self.attempts[:n]:
            attempt.handler_returns(outcome)
        self.settler.add(self.attempts[:n])
        return self.gathering.seconds() > 0


def test_a_few_completions_wait_while_rows_wait_ahead(world: World) -> None:
    assert Stage(world).ended()


def test_they_wait_for_a_moment_and_no_longer(world: World) -> None:
    stage = Stage(world)
    stage.ended()
    eventually(lambda: stage.gathering.seconds() == 0)


def test_when_rows_ahead_have_begun_what_waits_is_settled(world: World) -> None:
    stage = Stage(world)
    assert stage.ended()
    stage.held.give_up_ahead()
    assert stage.gathering.seconds() == 0


def test_nothing_has_ended_so_nothing_waits(world: World) -> None:
    assert Stage(world).gathering.seconds() == 0


def test_alone_no_completion_waits(world: World) -> None:
    stage = Stage(world)
    stage.other.say_hungry(False)
    assert not stage.ended()


def test_without_rows_ahead_no_completion_waits(world: World) -> None:
    stage = Stage(world)
    stage.held.give_up_ahead()
    assert not stage.ended()


def test_a_failure_waits_for_nothing(world: World) -> None:
    assert not Stage(world).ended(Fail("no"))


def test_the_next_row_of_a_key_waits_for_nothing(world: World) -> None:
    stage = Stage(world)
    stage.attempts[0].common = Common(ORDERED)
    assert not stage.ended()


def test_many_wait_for_no_more(world: World) -> None:
    assert not Stage(world, 2 * MANY).ended(n=MANY)


@pytest.mark.parametrize(("beside_others", "waiting"), [(False, 4), (True, 2)])
def test_beside_others_claims_wait_until_more_rows_have_begun(world: World, beside_others: bool, waiting: int) -> None:
    """Their rows take the slots meanwhile, so that claims are as large as of one inbox alone."""
    stage = Stage(world, 8 + SLOTS // 2)
    stage.other.say_hungry(beside_others)
    ahead = stage.held.ahead
    ahead._limit = 8.0
    while len(ahead) > waiting:
        assert stage.held.room_ahead == 0
        ahead.next(1)
    assert stage.held.room_ahead == 8 - waiting


def test_all_of_two_inboxes_is_settled_while_both_are_busy(pair_urls: tuple[str, str]) -> None:
    inbox, seen = Inbox(), list[str]()

    @inbox.handler("work")
    async def work(job: Job) -> None:
        seen.append(str(job.id))

    with new_pair(*pair_urls) as pair, serving(pair, inbox, slots=SLOTS) as hired:
        both_ready(hired)
        for world in (pair.a, pair.b):
            world.run(verbs.enqueue_many([NewRow("work") for _ in range(500)]))
        for world in (pair.a, pair.b):
            eventually(partial(_empty, world))
    assert (len(seen), len(set(seen))) == (1000, 1000)


def _empty(world: World) -> bool:
    return not world.sql("SELECT 1 FROM live LIMIT 1")
