"""A limit over several inboxes: dealt out as shares, dealt anew when there are others, never above what was said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from crew import Hired, eventually
from guarantees.facts import Beside, waits_for_a_lock
from pairs import Pair, both_ready, hired_at, login, serving
from patience import SECONDS_MAX
from tenure import postgres
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.model.shares import Deal
from tenure.postgres.connection import QueueConnection
from tenure.verbs import fleet, queues
from tenure.verbs.questions import why
from tenure.verbs.shares import Held, raise_share, shares, take_share
from tenure.worker import dealing
from tenure.worker.config import Terms
from tenure.worker.dealing import Dealer, may_raise
from tenure.worker.places import Places
from world import World

pytestmark = pytest.mark.one_server

N = 6
ALONE, BOTH = Deal(1, 0, ("a",), N), Deal(1, 1, ("a", "b"), N)


def held(world: World) -> Held | None:
    """The share that is in force here."""
    found = world.run(shares())
    return found[0] if found else None


def limits(world: World) -> tuple[int | None, float | None, int | None]:
    """What the queue may do here now."""
    ((running, rate, burst),) = world.sql("SELECT max_running, rate_per_second, burst FROM queues WHERE queue = 'mail'")
    return running, rate, burst


def dealt(pair: Pair, deal: Deal) -> None:
    """Every inbox of the deal has its share, and may use it."""
    for inbox in deal.inboxes:
        world: World = getattr(pair, inbox)
        assert world.run(take_share("mail", deal, inbox))
        assert world.run(raise_share("mail", deal))


def dealer(pair: Pair, inboxes: str = "ab", **urls: str) -> Dealer:
    """One who knows these inboxes."""
    every = {"a": pair.a.url, "b": pair.b.url, **urls}
    return Dealer(Places({inbox: every[inbox] for inbox in inboxes}, "tenure"))


def joins(dealer: Dealer, pair: Pair, here: str) -> None:
    """What a worker does before it serves this inbox."""
    with dealer._places.others(here) as others:
        dealer.join(getattr(pair, here).conn, here, others)


def claimed(world: World, n: int) -> int:
    """How many of n rows may start."""
    for _ in range(n):
        world.enqueue("k", {}, queue="mail")
    return len(world.run(queues.claim_limited("w-1", n, "mail")))


# -- shares


@given(
    some.integers(1, 50),
    some.integers(1, 10_000),
    some.floats(0.01, 1000),
    some.integers(1, 1000),
)
def test_shares_add_up_to_what_was_said(n: int, running: int, rate: float, burst: int) -> None:
    inboxes = tuple(f"i{each}" for each in range(n))
    every = [Deal(1, 0, inboxes, running, rate, burst).share_of(inbox) for inbox in inboxes]
    starting = [each for each in every if each.max_running]
    assert sum(each.max_running or 0 for each in every) <= running
    assert sum(each.rate_per_second or 0 for each in every) == pytest.approx(rate)
    assert sum(each.burst or 0 for each in starting) <= burst
    if burst >= n:
        assert sum(each.max_running or 0 for each in every) == running
        assert max(each.burst or 0 for each in every) - min(each.burst or 0 for each in every) <= 1


def test_an_inbox_goes_down_at_once_and_up_only_when_it_is_told(pair: Pair) -> None:
    dealt(pair, ALONE)
    assert limits(pair.a) == (N, None, None)
    assert pair.a.run(take_share("mail", BOTH, "a"))
    assert limits(pair.a) == (N // 2, None, None)
    assert pair.a.run(take_share("mail", Deal(1, 2, ("a",), N), "a"))
    assert limits(pair.a) == (N // 2, None, None), "its share is greater now"
    assert not pair.a.run(raise_share("mail", BOTH)), "that one is over"
    assert pair.a.run(raise_share("mail", Deal(1, 2, ("a",), N)))
    assert limits(pair.a) == (N, None, None)


def test_one_that_joins_may_start_nothing_until_it_is_raised(pair: Pair) -> None:
    whole = Deal(1, 1, ("a", "b"), None, 0.002, 10)
    assert pair.b.run(take_share("mail", whole, "b", joins=True))
    assert limits(pair.b)[0] == 0
    assert claimed(pair.b, 3) == 0
    ((id,), *_) = pair.b.sql("SELECT id FROM live")
    pair.b.run(fleet.register("A"))
    assert "has no share of its limit over all inboxes here: see `tenure queues`" in pair.b.run(why(id))
    assert pair.b.run(raise_share("mail", whole))
    assert limits(pair.b) == (None, 0.001, 5)
    assert claimed(pair.b, 3) == 0, "a new rate has earned nothing yet"
    pair.b.sql("UPDATE queues SET refilled_at = refilled_at - interval '1 day'")
    assert claimed(pair.b, 9) == 5


def test_a_deal_that_is_over_is_not_taken(pair: Pair) -> None:
    dealt(pair, BOTH)
    assert not pair.a.run(take_share("mail", ALONE, "a"))
    assert not pair.a.run(take_share("mail", BOTH, "a"))
    assert not pair.a.run(take_share("mail", Deal(1, 2, ("a",), 2 * N), "a")), "workers cannot say another limit"
    assert pair.a.run(take_share("mail", Deal(2, 0, ("a",), 4), "a"))


def test_another_limit_ends_it(pair: Pair) -> None:
    dealt(pair, BOTH)
    pair.a.run(queues.limit("mail", max_running=5))
    assert held(pair.a) is None
    assert not pair.a.run(take_share("mail", Deal(1, 2, ("a",), N), "a"))
    assert not pair.a.run(raise_share("mail", BOTH))
    assert limits(pair.a) == (5, None, None)


def test_workers_deal_anew_what_operators_have_said_and_cannot_change_it(pair: Pair) -> None:
    dealt(pair, ALONE)
    with worker_login(pair.a) as conn:
        assert not postgres.run(conn, take_share("mail", Deal(2, 0, ("a",), 100), "a"), "tenure")
        assert postgres.run(conn, take_share("mail", BOTH, "a"), "tenure")
        assert postgres.run(conn, raise_share("mail", BOTH), "tenure")


def test_workers_cannot_deal_a_limit_away_that_an_inbox_has_alone(pair: Pair) -> None:
    pair.a.run(queues.limit("mail", max_running=2))
    pair.a.run(queues.limit("slow", rate_per_second=1))
    with worker_login(pair.a) as conn:
        for queue in ("mail", "slow"):
            assert not postgres.run(conn, take_share(queue, Deal(1, 0, ("a",), 100), "a", joins=True), "tenure")
        assert postgres.run(conn, take_share("new", Deal(1, 0, ("a",), 100), "a", joins=True), "tenure")
    assert limits(pair.a) == (2, None, None)


@contextmanager
def worker_login(world: World) -> Iterator[QueueConnection]:
    """A connection with the rights of a worker."""
    with login(world, "worker") as url, postgres.connect(url) as conn:
        yield conn


# -- one queue among others, and moments


def raised_in(world: World, queue: str, deal: Deal) -> None:
    """This inbox has its share, and may use it."""
    assert world.run(take_share(queue, deal, "a"))
    assert world.run(raise_share(queue, deal))


def test_what_is_dealt_of_one_queue_leaves_the_others_as_they_were(world: World) -> None:
    raised_in(world, "news", Deal(9, 0, ("a",), 4))
    raised_in(world, "mail", ALONE)
    raised_in(world, "mail", BOTH)
    world.run(queues.pause("plain"))
    assert not world.run(raise_share("plain", BOTH)), "nothing was dealt there"
    assert world.sql("SELECT queue, max_running FROM queues ORDER BY 1") == [("mail", 3), ("news", 4), ("plain", None)]
    kept = world.sql("SELECT queue, said, dealt, max_running, was_running FROM shares ORDER BY 1")
    assert kept == [("mail", 1, 1, 3, 3), ("news", 9, 0, 4, 4)]


def test_a_rate_goes_down_at_once_and_up_only_when_it_is_told(world: World) -> None:
    whole = Deal(1, 0, ("a",), None, 10.0, 8)
    raised_in(world, "mail", whole)
    raised_in(world, "mail", whole.among("ab"))
    assert limits(world) == (None, 5.0, 4)
    alone = whole.among("ab").among("a")
    assert world.run(take_share("mail", alone, "a"))
    assert limits(world) == (None, 5.0, 4)
    assert world.run(raise_share("mail", alone))
    assert limits(world) == (None, 10.0, 8)


@pytest.mark.parametrize("verb", ["take", "raise"])
def test_what_a_rate_has_earned_counts_to_this_moment_and_is_kept(world: World, verb: str) -> None:
    whole = Deal(1, 0, ("a",), None, 100.0, 1000)
    raised_in(world, "mail", whole)
    anew = whole.among("ab")
    if verb == "raise":
        assert world.run(take_share("mail", anew, "a"))
    act = take_share("mail", anew, "a") if verb == "take" else raise_share("mail", anew)
    with world.conn.transaction():
        world.sql("UPDATE queues SET tokens = 1, refilled_at = now()")
        world.sql("SELECT pg_sleep(0.1)")
        assert world.run(act)
        ((tokens, *late),) = world.sql("SELECT tokens, refilled_at > now(), updated_at > now() FROM queues")
    assert tokens >= 1 + 4, "a tenth of a second at 50 or 100 a second"
    assert late == [True, True]


def test_of_two_deals_at_once_the_later_one_stays(world: World) -> None:
    raised_in(world, "mail", ALONE)
    other, later = world.connect(), BOTH.among("abc")
    with world.conn.transaction():
        assert world.run(take_share("mail", later, "a"))
        earlier = Beside(lambda: world.run(take_share("mail", BOTH, "a"), other))
        waits_for_a_lock(world, other)
    assert earlier.result() is False
    found = held(world)
    assert found is not None
    assert found.deal == later


def test_who_raises_while_it_is_dealt_anew_raises_nothing(world: World) -> None:
    assert world.run(take_share("mail", Deal(1, 0, ("a", "b"), 4), "a"))
    alone = Deal(1, 1, ("a",), 4)
    assert world.run(take_share("mail", alone, "a"))
    other = world.connect()
    with world.conn.transaction():
        assert world.run(take_share("mail", alone.among("ab"), "a"))
        late = Beside(lambda: world.run(raise_share("mail", alone), other))
        waits_for_a_lock(world, other)
    assert late.result() is False
    assert limits(world)[0] == 2


def test_another_queue_is_not_waited_for(world: World) -> None:
    raised_in(world, "news", ALONE)
    assert world.run(take_share("mail", ALONE, "a"))
    other = world.connect()
    with other.transaction():
        other.execute(b"SELECT FROM queues WHERE queue = 'news' FOR UPDATE")
        world.sql("SET lock_timeout = '20s'")
        assert world.run(raise_share("mail", ALONE))


# -- dealing


def test_nobody_is_raised_while_another_one_runs_more_than_its_share(pair: Pair) -> None:
    dealt(pair, ALONE)
    assert claimed(pair.a, N) == N
    both = dealer(pair)
    joins(both, pair, "b")
    assert limits(pair.b)[0] == 0
    assert both.tend(pair.a.conn, "a") == "mail: lowered in a"
    assert [limits(world)[0] for world in pair] == [N // 2, 0]
    assert both.tend(pair.b.conn, "b") == ""
    assert limits(pair.b)[0] == 0
    pair.a.sql("DELETE FROM permits WHERE slot > %s", N // 2)
    assert both.tend(pair.b.conn, "b") == "mail: raised in b"
    assert [limits(world)[0] for world in pair] == [N // 2, N // 2]
    assert both.tend(pair.b.conn, "b") == ""


def test_nobody_is_raised_while_another_one_does_not_answer(pair: Pair) -> None:
    dealt(pair, ALONE)
    away = dealer(pair, b="postgresql://tenure@127.0.0.1:1/tenure")
    for _ in range(2):
        away.tend(pair.a.conn, "a")
    assert limits(pair.a)[0] == N // 2, "it has gone down all the same"
    both = dealer(pair)
    joins(both, pair, "b")
    assert both.tend(pair.b.conn, "b") == "mail: raised in b"
    assert [limits(world)[0] for world in pair] == [N // 2, N // 2]


def test_a_share_is_dealt_to_the_others_only_when_no_worker_serves_that_inbox(pair: Pair) -> None:
    dealt(pair, BOTH)
    alone = dealer(pair, "a")
    pair.a.sql("""INSERT INTO workers (id, metadata) VALUES ('old', '{"inboxes": ["a", "b"]}')""")
    assert alone.tend(pair.a.conn, "a") == ""
    assert limits(pair.a)[0] == N // 2
    pair.a.sql("DELETE FROM workers")
    assert alone.tend(pair.a.conn, "a") == "mail: raised in a"
    assert limits(pair.a)[0] == N


def test_two_who_deal_at_once_among_different_inboxes_come_to_an_end(pair: Pair) -> None:
    assert pair.a.run(take_share("mail", Deal(1, 1, ("a",), N), "a"))
    assert pair.b.run(take_share("mail", BOTH, "b"))
    dealer(pair).tend(pair.a.conn, "a")
    assert [limits(world)[0] for world in pair] == [N // 2, N // 2]


def test_a_limit_that_did_not_come_to_all_is_not_dealt_among_others(trio: dict[str, World]) -> None:
    here, joining, named = (trio[inbox] for inbox in "abc")
    urls = {inbox: trio[inbox].url for inbox in "abc"}
    half = Deal(1, 0, ("a", "c"), N)
    assert here.run(take_share("mail", half, "a"))  # and the command failed in c
    others = Dealer(Places({inbox: urls[inbox] for inbox in "ab"}, "tenure"))
    with others._places.others("b") as seen:
        others.join(joining.conn, "b", seen)
    assert others.tend(here.conn, "a") == ""
    assert held(joining) is None
    assert held(here) == Held("mail", half, half.share_of("a"), True, 0)

    assert named.run(take_share("mail", half, "c")), "said again, or brought there by a worker that serves both"
    every = Dealer(Places(urls, "tenure"))
    every.tend(here.conn, "a")
    every.tend(here.conn, "a")
    assert [limits(world)[0] for world in (here, joining, named)] == [N // 3] * 3


def test_a_limit_that_did_not_come_to_all_stops_no_queue_where_a_named_inbox_is_not_served(
    trio: dict[str, World],
) -> None:
    taken, failed = trio["a"], trio["b"]
    failed.run(queues.limit("mail", max_running=4))
    assert taken.run(take_share("mail", Deal(1, 0, ("a", "b", "c"), N), "a"))  # failed in b, and not begun in c
    two = Dealer(Places({"a": taken.url, "b": failed.url}, "tenure"))
    assert two.tend(taken.conn, "a") == ""
    with two._places.others("b") as seen:
        two.join(failed.conn, "b", seen)
    assert (limits(failed)[0], held(failed)) == (4, None)


def test_a_limit_that_came_to_all_is_known_to_have_done_so(pair: Pair) -> None:
    said = Deal(1, 0, ("a", "b"), N)
    for inbox, world in zip("ab", pair, strict=True):
        assert world.run(take_share("mail", said, inbox))
    assert dealer(pair).tend(pair.a.conn, "a") == ""
    for world in pair:
        assert (found := held(world)) is not None
        assert found.deal == said.among("ab")


def test_workers_with_another_list_leave_a_limit_that_did_not_come_to_all(
    trio: dict[str, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, joining, tended, tend = trio["a"], trio["b"], list[str](), Dealer.tend

    def counted(self: Dealer, conn: QueueConnection, here: str) -> str:
        done = tend(self, conn, here)
        tended.append(here)
        return done

    monkeypatch.setattr(Dealer, "tend", counted)
    half = Deal(1, 0, ("a", "c"), N)
    assert here.run(take_share("mail", half, "a"))
    with hired_at(Inbox(), {"a": here.url, "b": joining.url}) as hired:
        both_ready(hired)
        eventually(lambda: tended.count("a") >= 2)
    assert held(joining) is None
    assert (found := held(here)) is not None
    assert found.deal == half


class Busy:
    """An inbox whose handlers count how many of them run at once, in all inboxes."""

    def __init__(self, seconds: float) -> None:
        self.inbox, self._lock = Inbox(), threading.Lock()
        self.now = self.most = 0

        @self.inbox.handler("busy", queue="mail")
        async def busy(job: Job) -> None:
            with self._lock:
                self.now += 1
                self.most = max(self.most, self.now)
            await asyncio.sleep(seconds)
            with self._lock:
                self.now -= 1


def most_at_once(pair: Pair, seconds: float) -> int:
    """An inbox joins while the other runs all that was said: how many run at once."""
    busy = Busy(seconds)
    dealt(pair, ALONE)
    for world, n in zip(pair, (40, 12), strict=True):
        world.sql("SELECT enqueue('busy', '{}', queue => 'mail') FROM generate_series(1, %s)", n)
    terms: dict[str, Any] = {"slots": 20, "poll_seconds": 0.2, "queues": {"mail": 1.0}, "grace_seconds": SECONDS_MAX}
    first = Hired(busy.inbox, Terms(shards={"a": pair.a.url}, **terms))
    try:
        eventually(lambda: busy.now == N)
        with serving(pair, busy.inbox, slots=20, poll_seconds=0.2, queues={"mail": 1.0}) as hired:
            both_ready(hired)
            eventually(lambda: pair.b.sql("SELECT 1 FROM archive"))
            eventually(lambda: sum(world.sql("SELECT count(*) FROM live")[0][0] for world in pair) == 0)
    finally:
        first.worker.stop()
        first.gone()
    return busy.most


def test_while_a_limit_is_dealt_anew_no_more_than_it_run_in_all(pair: Pair) -> None:
    assert most_at_once(pair, 0.3) == N
    assert [limits(world)[0] for world in pair] == [N // 2, N // 2]


def test_control_raised_before_the_others_are_down_more_run(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "may_raise", lambda *_: True)
    assert most_at_once(pair, 2.0) > N


def test_all_must_have_the_same_deal() -> None:
    each = Held("mail", BOTH, BOTH.share_of("a"), True, 0)
    other = each._replace(deal=BOTH.among("ab"))
    assert may_raise(BOTH, {"a": each, "b": each})
    assert not may_raise(BOTH, {"a": each, "b": other})
    assert not may_raise(BOTH, {"a": each, "b": None})
    assert not may_raise(BOTH, {"a": each, "b": each._replace(running=N)})
