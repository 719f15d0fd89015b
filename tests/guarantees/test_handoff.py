"""Ordered keys whose range moves to another inbox: rows begin there when those before them have ended elsewhere."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import defaultdict
from collections.abc import Iterator

import psycopg
import pytest

from crew import Hired, eventually
from patience import SECONDS_MAX
from placements import RANGES, Placements, number, placed
from tenure import Inbox, postgres, verbs
from tenure.verbs import operators, settle
from tenure.verbs.why import why
from tenure.worker.config import Terms

pytestmark = pytest.mark.one_server
KEYS = [f"k:{n}" for n in range(6)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Placements]:
    """Two inboxes with a door of the tests' own."""
    with placed(tmp_path_factory.mktemp("placed")) as found:
        yield found


@pytest.fixture
def ranges(two: Placements) -> Iterator[Placements]:
    """All ranges at home in inbox 1."""
    yield two
    for inbox in two.urls:
        two.know(inbox)
    two.everything_at_home()


def numbers(done: list[tuple[str, int]]) -> list[int]:
    """What was done, in order."""
    return [n for _, n in done]


def test_rows_of_a_moved_range_begin_when_the_old_inbox_has_worked_off_its_own(ranges: Placements) -> None:
    for n in (0, 1, 2):
        ranges.send("k", n)
    ranges.move("k", to=2)
    for n in (3, 4):
        ranges.send("k", n)
    assert ranges.work(2) == [], "nobody has asked inbox 1"
    assert list(ranges.adopt(2).reasons.values()) == [
        "the range of its key has moved here, and inbox 1 has rows of it to work off, as of key k"
    ]
    assert ranges.work(2) == []
    assert numbers(ranges.work(1)) == [0, 1, 2]
    assert ranges.adopt(2).adopted == (1, 2)
    assert numbers(ranges.work(2)) == [3, 4]
    ranges.send("k", 5)
    assert numbers(ranges.work(2)) == [5], "the range is at home"


def test_without_the_barrier_the_order_is_inverted(ranges: Placements) -> None:
    with without_trigger(ranges, "live_order"):
        ranges.send("k", 0)
        ranges.move("k", to=2)
        ranges.send("k", 1)
        assert numbers(ranges.work(2)) == [1], "while 0 waits in inbox 1"


@contextlib.contextmanager
def without_trigger(ranges: Placements, name: str) -> Iterator[None]:
    """The inboxes with one guard less."""
    for conn in ranges.conns.values():
        conn.execute(f"ALTER TABLE tenure.live DISABLE TRIGGER {name}".encode())
    try:
        yield
    finally:
        for conn in ranges.conns.values():
            conn.execute(f"ALTER TABLE tenure.live ENABLE TRIGGER {name}".encode())


def test_a_row_in_flight_keeps_the_range_away(ranges: Placements) -> None:
    ranges.send("k", 0)
    (job,) = ranges.claim(1)
    ranges.move("k", to=2)
    ranges.send("k", 1)
    assert ranges.adopt(2).adopted == (0, 0)
    postgres.run(ranges.conns[1], settle.complete([job.lease]))
    assert ranges.adopt(2).adopted == (1, 1)


def test_an_answer_that_is_older_than_a_row_does_not_free_it(ranges: Placements) -> None:
    """Its transaction may have begun before the others were asked: what counts is when the row came."""
    ranges.send("k", 0)
    ranges.move("k", to=2)
    conn = ranges.conns[2]
    with conn.transaction():
        (asked,) = conn.execute("SELECT clock_timestamp()").fetchone() or (None,)
        ranges.send("k", 1)
    ours = "ARRAY[tenure_door.range_of('k')], '{0}', '{false}'"
    free = f"SELECT freed FROM tenure.adopt({ours}, ARRAY[%s::timestamptz], 0)"
    assert conn.execute(free.encode(), [asked]).fetchone() == (0,)
    assert conn.execute(free.encode(), ["infinity"]).fetchone() == (1,)


def test_nothing_else_is_due_because_a_range_is_at_home(ranges: Placements) -> None:
    ranges.let_a_row_wait("k")
    ranges.conns[2].execute("SELECT tenure.enqueue('count', '{}', delay_seconds => 3600)")
    ranges.work(1)
    assert ranges.adopt(2).adopted == (1, 1)
    due = "SELECT partition_key FROM tenure.live WHERE available_at <= clock_timestamp()"
    assert ranges.conns[2].execute(due).fetchall() == [("k",)]


def test_rows_without_order_never_wait(ranges: Placements) -> None:
    ranges.send("k", 0)
    ranges.move("k", to=2)
    ranges.send("k", 1, ordered=False)
    (job,) = postgres.run(ranges.conns[2], verbs.claim("A", 1))
    assert number(job) == 1


def test_nobody_waits_for_rows_without_order_elsewhere(ranges: Placements) -> None:
    ranges.send("k", 0, ordered=False)
    ranges.move("k", to=2)
    ranges.send("k", 1)
    assert ranges.adopt(2).adopted == (1, 1)


def test_a_range_that_comes_back_goes_on_in_the_order_of_its_stays(ranges: Placements) -> None:
    for n, home in enumerate((1, 2, 1, 2)):
        ranges.move("k", to=home)
        ranges.send("k", n)
    done = []
    for _ in range(4):
        for inbox in (2, 1):
            ranges.adopt(inbox)
            done += ranges.work(inbox)
    assert numbers(done) == [0, 1, 2, 3]


def test_a_range_that_comes_back_unadopted_waits_for_the_inbox_between(ranges: Placements) -> None:
    ranges.send("k", 0)
    ranges.move("k", to=2)
    ranges.send("k", 1)
    ranges.move("k", to=1)
    ranges.send("k", 2)
    assert numbers(ranges.work(1)) == [0], "what never left goes on, what came since waits"
    assert ranges.adopt(1).adopted == (0, 0)
    assert list(ranges.adopt(1).reasons.values()) == [
        "the range of its key has moved here, and rows of it wait in inbox 2, too"
    ]
    assert ranges.adopt(2).adopted == (0, 1), "its row is due, though the range has left again"
    assert numbers(ranges.work(2)) == [1]
    assert ranges.adopt(1).adopted == (1, 1)
    assert numbers(ranges.work(1)) == [2]


def test_of_two_ranges_that_move_together_each_is_at_home_by_itself(ranges: Placements) -> None:
    ranges.send("k", 0)
    ranges.move("k", *(f"other:{n}" for n in range(20)), to=2)
    assert ranges.adopt(2).adopted == (RANGES - 1, 0), "the others: nobody has rows of them"
    ranges.send("k", 1)
    assert ranges.work(2) == [], "while 0 waits in inbox 1"
    assert numbers(ranges.work(1)) == [0]
    assert ranges.adopt(2).adopted == (1, 1)
    assert numbers(ranges.work(2)) == [1]


def test_what_a_row_waits_for_is_written_down_at_that_row_alone(ranges: Placements) -> None:
    ranges.send("k", 0)
    ranges.move("k", to=2)
    waiting, free = ranges.send("k", 1), ranges.send("k", 2, ordered=False)
    (reason,) = ranges.adopt(2).reasons.values()
    asked = "SELECT id, last_error FROM tenure.live WHERE id = ANY(%s)"
    assert dict(ranges.conns[2].execute(asked, [[waiting, free]]).fetchall()) == {waiting: reason, free: None}


def test_an_inbox_that_does_not_answer_is_a_no_until_an_operator_says_otherwise(ranges: Placements) -> None:
    ranges.move("k", to=2)
    id = ranges.send("k", 0)
    ranges.know(2, away=1)
    assert ranges.adopt(2).adopted == (0, 0)
    assert "inbox 1 does not answer" in postgres.run(ranges.conns[2], why(id))
    assert ranges.work(2) == []
    assert ranges.adopt(2, without=("1",)).adopted == (1, 1)
    assert numbers(ranges.work(2)) == [0]


def test_fences_of_a_key_rise_with_its_home(ranges: Placements) -> None:
    seen = []
    for n, home in enumerate((1, 2, 1, 2, 1)):
        ranges.move("k", to=home)
        ranges.send("k", n)
        ranges.adopt(home)
        (job,) = ranges.claim(home)
        postgres.run(ranges.conns[home], settle.complete([job.lease]))
        seen.append(job.fence)
    assert seen == sorted(set(seen))


def test_the_fences_of_the_new_home_never_fall(ranges: Placements) -> None:
    """They may be above those of the inbox that the range comes from."""
    epoch = "SELECT epoch FROM tenure.incarnation"
    ranges.conns[2].execute("UPDATE tenure.incarnation SET epoch = epoch + 100")
    before = ranges.conns[2].execute(epoch).fetchall()
    ranges.move("k", to=2)
    ranges.adopt(2)
    assert ranges.conns[2].execute(epoch).fetchall() == before


def test_a_key_kept_for_an_operator_keeps_its_range(ranges: Placements) -> None:
    ranges.send("k", 0, hold=True)
    (job,) = ranges.claim(1)
    postgres.run(ranges.conns[1], settle.fail([job.lease], ["boom"]))
    ranges.move("k", to=2)
    ranges.send("k", 1)
    assert ranges.adopt(2).adopted == (0, 0)
    postgres.run(ranges.conns[1], operators.free_key("default", "k"))
    assert ranges.adopt(2).adopted == (1, 1)


def test_a_dead_row_whose_range_has_left_is_not_redriven(ranges: Placements) -> None:
    id = ranges.send("k", 0)
    (job,) = ranges.claim(1)
    postgres.run(ranges.conns[1], settle.fail([job.lease], ["boom"]))
    ranges.move("k", to=2)
    with pytest.raises(psycopg.Error, match="belongs to inbox 2 now") as refused:
        postgres.run(ranges.conns[1], verbs.redrive([id]))
    assert refused.value.sqlstate == "TN002"
    ranges.move("k", to=1)
    ranges.adopt(1)
    assert postgres.run(ranges.conns[1], verbs.redrive([id])) == [id]
    assert numbers(ranges.work(1)) == [0]


def test_nobody_makes_a_waiting_row_due_before_its_turn(ranges: Placements) -> None:
    ranges.send("k", 0)
    ranges.move("k", to=2)
    id = ranges.send("k", 1)
    postgres.run(ranges.conns[2], operators.retry_now([id]))
    assert ranges.work(2) == []
    with without_trigger(ranges, "live_waiting"):
        postgres.run(ranges.conns[2], operators.retry_now([id]))
        assert numbers(ranges.work(2)) == [1], "so it would be"


def test_a_move_waits_for_an_open_enqueue_and_the_rows_after_it_wait_too(ranges: Placements) -> None:
    with ranges.conns[1].transaction():
        ranges.send("k", 0)
        mover = threading.Thread(target=ranges.move, args=("k",), kwargs={"to": 2}, daemon=True)
        mover.start()
        mover.join(0.5)
        assert mover.is_alive(), "it waits"
    mover.join(SECONDS_MAX)
    ranges.send("k", 1)
    assert ranges.adopt(2).adopted == (0, 0)
    assert numbers(ranges.work(1)) == [0]


@pytest.mark.parametrize("seed", range(6))
def test_whatever_moves_when_every_key_keeps_its_order(ranges: Placements, seed: int) -> None:
    assert not inverted(ranges, seed)


def test_such_a_course_inverts_keys_without_the_barrier(ranges: Placements) -> None:
    with without_trigger(ranges, "live_order"):
        assert any(inverted(ranges, seed) for seed in range(6))


def inverted(ranges: Placements, seed: int) -> dict[str, list[int]]:
    """A random course of sends, moves, work and rounds of adoption; the keys that were not done in order."""
    chance, sent = random.Random(seed), 0
    done: list[tuple[str, int]] = []
    for _ in range(120):
        act, inbox = chance.random(), chance.choice((1, 2))
        if act < 0.5:
            ranges.send(chance.choice(KEYS), sent := sent + 1)
        elif act < 0.65:
            ranges.move(chance.choice(KEYS), to=inbox)
        elif act < 0.8:
            ranges.adopt(inbox)
        elif jobs := ranges.claim(inbox, 2):
            done += [(job.partition_key, number(job)) for job in jobs]
            postgres.run(ranges.conns[inbox], settle.complete([job.lease for job in jobs]))
    for inbox in (1, 2) * 20:
        ranges.adopt(inbox)
        done += ranges.work(inbox)
    assert len(done) == sent, "none is lost, none comes twice"
    by_key = defaultdict(list)
    for key, n in done:
        by_key[key].append(n)
    return {key: order for key, order in by_key.items() if order != sorted(order)}


def test_workers_of_the_cluster_adopt_ranges_as_a_chore(ranges: Placements) -> None:
    inbox, ran = Inbox(), []

    @inbox.handler("count", key="k", ordered=True)
    def count(n: int) -> None:
        ran.append(n)

    for n in (0, 1):
        ranges.send("k", n)
    ranges.move("k", to=2)
    for n in (2, 3):
        ranges.send("k", n)
    shards = {str(each): url for each, url in ranges.urls.items()}
    hired = Hired(inbox, Terms(shards=shards, citus=ranges.urls[1], poll_seconds=0.2, grace_seconds=SECONDS_MAX))
    try:
        eventually(lambda: len(ran) == 4)
    finally:
        hired.worker.stop()
        hired.gone()
    assert ran == [0, 1, 2, 3]
