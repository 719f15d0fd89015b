"""A key that no claim has heard of, and whose rows fill more than one page of arrivals, is one key on all of them."""

from __future__ import annotations

import pytest

from crew import eventually, working
from guarantees.facts import user_connection
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from world import World

PAGE = 500
ROW_BY_ROW = """
DO $$ BEGIN FOR n IN 1 .. {n} LOOP
  INSERT INTO live (kind, payload, partition_key, ordered) VALUES ('work', '{{}}', '{key}', true);
END LOOP; END $$
"""


def send(world: World, n: int, key: str = "new") -> None:
    """Each row by a statement of its own, with an arrival of its own."""
    world.sql(ROW_BY_ROW.format(n=n, key=key))


def send_known(world: World) -> None:
    """Ten keys that have a head."""
    for n in range(10):
        send(world, 1, f"known {n}")
    assert world.claim_ordered(buckets=[]) == []


@pytest.mark.parametrize("run_length", [1, 50])
def test_its_first_rows_alone_are_claimed(world: World, run_length: int) -> None:
    send(world, 2 * PAGE + 200)
    in_order = [seq for (seq,) in world.sql("SELECT seq FROM live ORDER BY seq")]
    assert [row.seq for row in world.claim_ordered(n=10, run_length=run_length)] == in_order[:run_length]


def test_of_many_keys_with_few_rows_each_one_is_claimed(world: World) -> None:
    for _ in range(PAGE // 60 + 2):
        for n in range(60):
            send(world, 1, f"k{n}")
    rows = world.claim_ordered(n=100)
    assert len(rows) == len({row.partition_key for row in rows}) == 60


def test_a_claim_that_known_keys_fill_leaves_it_for_later(world: World) -> None:
    send_known(world)
    send(world, PAGE + 100)
    assert len(world.claim_ordered(n=10)) == 10


def test_it_is_passed_by_while_somebody_holds_its_rows(world: World) -> None:
    send(world, PAGE + 100)
    other = user_connection(world)
    other.execute("SELECT FROM live FOR UPDATE")
    assert world.claim_ordered(n=10) == []
    other.rollback()
    assert len(world.claim_ordered(n=10)) == 1


def test_it_has_one_holder_while_somebody_holds_a_later_row(world: World) -> None:
    send(world, PAGE + 100)
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE id = (SELECT id FROM live ORDER BY seq OFFSET %s LIMIT 1) FOR UPDATE", [PAGE])
    assert len(world.claim_ordered(n=10)) == 1
    other.rollback()
    assert world.claim_ordered("B", n=10) == []


def test_a_row_before_them_that_arrives_on_a_later_page_goes_first(world: World) -> None:
    """Its number is the first, its arrival the last: so it is if its transaction takes long between the two."""
    send(world, 1)
    ((first,),) = world.sql("SELECT seq FROM arrivals")
    send(world, PAGE)
    world.sql("DELETE FROM arrivals WHERE seq = %s", first)
    world.sql("INSERT INTO arrivals (queue, partition_key, seq) VALUES ('default', 'new', %s)", first)
    assert world.claim_ordered(n=10) == []
    assert [row.seq for row in world.claim_ordered(n=10)] == [first]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside known keys"])
def test_a_worker_runs_its_rows_in_order(world: World, beside: bool) -> None:
    inbox, seen = Inbox(), list[tuple[str, int]]()

    @inbox.handler("work")
    async def work(job: Job) -> None:
        seen.append((job.claimed.partition_key, job.claimed.seq))

    if beside:
        send_known(world)
    send(world, 2 * PAGE + 200)
    with working(world, inbox, slots=10):
        eventually(lambda: world.count("live") == 0)
    assert [seq for key, seq in seen if key == "new"] == sorted(seq for key, seq in seen if key == "new")
