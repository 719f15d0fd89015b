"""What doctor says of batches that wait for rows deleted by SQL, and how such a batch ends all the same."""

from __future__ import annotations

from functools import partial

import pytest

from tenure import doctor, verbs
from tenure.doctor import examine
from tenure.doctor.finding import Finding
from tenure.model.rows import NewRow
from tenure.verbs import batches
from world import World

pytestmark = pytest.mark.one_server


def _batches(world: World) -> Finding:
    return next(each for each in examine(world.url, world.schema, {}) if each.check == "batches")


def test_a_batch_that_waits_for_rows_deleted_by_sql_is_a_fault_and_its_line_ends_it(world: World) -> None:
    then = world.enqueue("report", delay_seconds=batches.WAITING_SECONDS / 2)
    sent = world.run(batches.open_group([NewRow("k", n) for n in range(100)], then_row=then))
    assert _batches(world).level == "ok"
    world.sql("DELETE FROM live WHERE id = ANY (%s)", sent.ids[40:43])
    assert _batches(world).level == "fault"
    for each in world.claim(n=97):
        world.complete(each.lease)
    assert world.run(batches.group(sent.id)).open == 3  # type: ignore[union-attr]
    found = _batches(world)
    assert (found.level, found.value) == ("fault", {"batches": 1, "rows": 3})
    assert found.said == f"batch {sent.id} waits for rows that are gone: 3 were deleted by SQL, not by `tenure delete`"
    world.sql(found.next[found.next.index("SELECT") : found.next.index(";")])
    ended = world.run(batches.group(sent.id))
    assert ended is not None
    assert (ended.ended_at is not None, ended.cancelled) == (True, 3)
    assert world.claim_one().id == then
    assert _batches(world).level == "ok"


def test_rows_that_failed_or_were_redriven_are_not_missed(world: World) -> None:
    sent = world.run(batches.open_group([NewRow("k", n, max_attempts=1) for n in range(5)]))
    first, second = world.claim(n=2)
    world.fail(first.lease)
    world.complete(second.lease)
    assert _batches(world).level == "ok"
    world.run(verbs.redrive([first.id]))
    assert world.run(batches.group(sent.id)).open == 4  # type: ignore[union-attr]
    assert _batches(world).level == "ok"


@pytest.mark.parametrize(("batches_most", "rows_most"), [(2, 1000), (100, 5)])
def test_it_says_of_how_many_it_speaks_where_it_has_not_looked_at_all(
    world: World, monkeypatch: pytest.MonkeyPatch, batches_most: int, rows_most: int
) -> None:
    monkeypatch.setattr(doctor, "lost_members", partial(batches.lost_members, batches_most, rows_most))
    for n in range(2):
        world.run(batches.open_group([NewRow("k", each) for each in range(4)]))
        assert _batches(world).said == "no open batch waits for a row that is gone", n
    last = world.run(batches.open_group([NewRow("k", each) for each in range(4)]))
    assert _batches(world).said == "none of the oldest 2 open batches waits for a row that is gone; more are open"
    world.sql("DELETE FROM live WHERE id = %s", last.ids[0])
    assert _batches(world).level == "ok"  # it says so: this one is not of those
    assert world.run(batches.lost_members()).found[0].id == last.id
