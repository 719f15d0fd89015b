"""Each queue keeps its ended rows for its own time: days are dropped when all may go, rows out of days that stay."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest

from tenure import Lane, verbs
from tenure.errors import BadSettings
from tenure.verbs import queues
from world import World

DAY = 86_400.0


def archived(world: World, queue: str, days_ago: int, n: int = 1) -> list[UUID]:
    """Rows of a queue that were completed so many days ago, in the partition of that day, with tape and effects."""
    day = today() - timedelta(days=days_ago)
    name = f"archive_{day:%Y%m%d}"
    if not world.sql(
        "SELECT 1 FROM pg_class WHERE relname = %s AND relnamespace = %s::regnamespace", name, world.schema
    ):
        bounds = f"FROM ('{day} 00:00:00+00') TO ('{day + timedelta(days=1)} 00:00:00+00')"
        world.sql(f"CREATE TABLE {name} PARTITION OF archive FOR VALUES {bounds}")
    ids = []
    for _ in range(n):
        id = world.enqueue("k", queue=queue)
        claimed = world.claim_one(lanes=[Lane(queue)])
        world.retry(claimed.lease, "boom", 0.0)
        world.due()
        claimed = world.claim_one(lanes=[Lane(queue)])
        assert world.run(verbs.once(claimed, "mail"))
        world.complete(claimed.lease)
        ids.append(id)
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    world.sql("UPDATE archive SET completed_at = %s WHERE id = ANY (%s)", noon, ids)
    world.sql("UPDATE attempts SET ended_at = %s WHERE row_id = ANY (%s)", noon, ids)
    world.sql("UPDATE effects SET done_at = %s WHERE row_id = ANY (%s)", noon, ids)
    return ids


def today() -> date:
    return datetime.now(UTC).date()


def kept(world: World) -> Counter[tuple[str, int]]:
    """The archived rows by queue and age in days."""
    rows = world.sql("SELECT queue, (completed_at AT TIME ZONE 'UTC')::date FROM archive")
    return Counter((queue, (today() - day).days) for queue, day in rows)


def keep(world: World, days: float = 14, n: int = 1000) -> dict[str, int]:
    return world.run(verbs.archive(retention_seconds=days * DAY, n=n))


def test_a_shorter_retention_takes_rows_out_of_days_that_stay(world: World) -> None:
    world.run(queues.retain("mail", 2 * DAY))
    for days_ago in (1, 5):
        archived(world, "mail", days_ago)
        archived(world, "bills", days_ago)
    done = keep(world)
    assert (done["rows_forgotten"], done["partitions_dropped"]) == (1, 0)
    assert kept(world) == {("mail", 1): 1, ("bills", 1): 1, ("bills", 5): 1}
    assert (world.count("attempts"), world.count("effects")) == (3, 3), "what belonged to the row goes with it"


def test_a_longer_retention_keeps_its_days_and_others_go_row_by_row(world: World) -> None:
    world.run(queues.retain("bills", 30 * DAY))
    for days_ago in (20, 40):
        archived(world, "mail", days_ago)
        archived(world, "bills", days_ago)
    world.run(queues.limit("mail", max_running=30))  # a setting, and no retention
    done = keep(world)
    assert (done["rows_forgotten"], done["partitions_dropped"]) == (1, 1)
    assert kept(world) == {("bills", 20): 1}
    assert (world.count("attempts"), world.count("effects")) == (1, 1), "the tape of a row that stays stays"


def test_without_a_setting_days_go_whole(world: World) -> None:
    archived(world, "mail", 20)
    archived(world, "mail", 13)
    done = keep(world)
    assert (done["rows_forgotten"], done["partitions_dropped"]) == (0, 1)
    assert kept(world) == {("mail", 13): 1}


def test_what_is_more_than_a_round_is_deleted_in_the_next(world: World) -> None:
    world.run(queues.retain("mail", DAY))
    archived(world, "mail", 5, n=3)
    archived(world, "mail", 6, n=2)
    assert [keep(world, n=2)["rows_forgotten"] for _ in range(4)] == [2, 2, 1, 0]
    assert kept(world) == {}


def test_a_day_is_read_through_once_for_each_setting(world: World) -> None:
    world.run(queues.retain("mail", DAY))
    archived(world, "bills", 5)
    keep(world)
    marked = world.sql("SELECT queue FROM thinned WHERE day = %s", today() - timedelta(days=5))
    assert marked == [("mail",)]
    late = archived(world, "mail", 5)  # by hand: nothing is added to a day that is over
    assert keep(world)["rows_forgotten"] == 0
    world.run(queues.retain("mail", 2 * DAY))
    assert keep(world)["rows_forgotten"] == 1, "a new setting looks again"
    assert late
    world.run(queues.retain("mail", None))
    world.sql("UPDATE archive SET completed_at = completed_at")
    assert keep(world, days=3)["partitions_dropped"] == 1
    assert world.sql("SELECT 1 FROM thinned WHERE day = %s", today() - timedelta(days=5)) == []


def test_a_setting_that_changes_while_days_are_looked_through_counts_for_them(world: World) -> None:
    archived(world, "letters", 17)
    world.run(queues.retain("letters", 365 * DAY))
    world.run(queues.retain("bills", 365 * DAY))
    other = world.connect()
    with other.transaction():
        world.run(verbs.archive(retention_seconds=14 * DAY), other)
        world.run(queues.retain("letters", None))
    keep(world)
    assert kept(world) == {}


def test_a_locked_row_keeps_its_day_for_the_next_round_and_nothing_else(world: World) -> None:
    world.run(queues.retain("mail", 2 * DAY))
    (locked, *_) = archived(world, "mail", 6, 3)
    archived(world, "mail", 5, 2)
    archived(world, "mail", 30)
    other = world.connect()
    with other.transaction():
        day = f"archive_{today() - timedelta(days=6):%Y%m%d}"
        other.execute(f"SELECT FROM {day} WHERE id = %s FOR UPDATE".encode(), [locked])
        told = keep(world)
        assert (told["rows_forgotten"], told["partitions_dropped"]) == (4, 1)
        assert kept(world) == {("mail", 6): 1}
        assert world.sql("SELECT day FROM thinned") == [(today() - timedelta(days=5),)]
    assert keep(world)["rows_forgotten"] == 1
    assert kept(world) == {}


def test_days_of_an_archive_that_is_not_ours_are_left_alone(world: World) -> None:
    world.sql("CREATE TABLE others (LIKE archive) PARTITION BY RANGE (completed_at)")
    world.sql("CREATE TABLE archive_20010101 PARTITION OF others DEFAULT")
    keep(world)
    assert world.sql("SELECT to_regclass('archive_20010101') IS NOT NULL") == [(True,)]


def test_a_stray_that_is_locked_is_left_for_the_next_round(world: World) -> None:
    ids = [world.enqueue("k") for _ in range(2)]
    for job in world.claim("A", 2):
        world.complete(job.lease)
    world.sql("UPDATE archive SET completed_at = clock_timestamp() - interval '30 days'")
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM archive WHERE id = %s FOR UPDATE", [ids[0]])
        assert keep(world)["stray_rows_forgotten"] == 1
    assert keep(world)["stray_rows_forgotten"] == 1


def test_a_cancelled_row_that_is_locked_is_left_for_the_next_round(world: World) -> None:
    ids = [world.enqueue("k") for _ in range(2)]
    world.run(verbs.cancel(ids))
    world.sql("UPDATE dead SET finished_at = clock_timestamp() - interval '30 days'")
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM dead WHERE id = %s FOR UPDATE", [ids[0]])
        assert keep(world)["cancelled_forgotten"] == 1
    assert keep(world)["cancelled_forgotten"] == 1


def test_cancelled_rows_go_by_their_queue(world: World) -> None:
    world.run(queues.retain("mail", 2 * DAY))
    world.run(queues.retain("bills", 30 * DAY))
    ids = [world.enqueue("k", queue=queue) for queue in ("mail", "bills", "other")]
    for queue in ("mail", "bills", "other"):
        claimed = world.claim_one(lanes=[Lane(queue)])
        assert world.run(verbs.once(claimed, "mail"))
        world.retry(claimed.lease)
    world.run(verbs.cancel(ids))
    world.sql("UPDATE dead SET finished_at = clock_timestamp() - interval '5 days'")
    assert keep(world)["cancelled_forgotten"] == 1
    assert {queue for (queue,) in world.sql("SELECT queue FROM dead")} == {"bills", "other"}
    assert (world.count("attempts"), world.count("effects")) == (2, 2), "what belonged to the row goes with it"
    world.sql("UPDATE dead SET finished_at = clock_timestamp() - interval '20 days'")
    assert keep(world)["cancelled_forgotten"] == 1
    assert world.sql("SELECT queue FROM dead") == [("bills",)]


def test_attempts_are_kept_as_long_as_the_longest_retention(world: World) -> None:
    world.run(queues.retain("bills", 30 * DAY))
    world.enqueue("k", queue="bills")
    world.retry(world.claim_one(lanes=[Lane("bills")]).lease, delay=0)
    world.complete(world.claim_one(lanes=[Lane("bills")]).lease)
    world.sql("UPDATE attempts SET ended_at = ended_at - interval '20 days'")
    assert keep(world)["attempts_forgotten"] == 0
    world.sql("UPDATE attempts SET ended_at = ended_at - interval '20 days'")
    assert keep(world)["attempts_forgotten"] == 1


def test_strays_go_by_their_queue(world: World) -> None:
    world.run(queues.retain("mail", 2 * DAY))
    for queue in ("mail", "bills"):
        world.enqueue("k", queue=queue)
        world.complete(world.claim_one(lanes=[Lane(queue)]).lease)
    world.sql("UPDATE archive SET completed_at = clock_timestamp() - interval '5 days'")
    assert keep(world)["stray_rows_forgotten"] == 1
    assert world.sql("SELECT queue FROM archive_rest") == [("bills",)]


def test_dead_letters_stay_whatever_their_queue_says(world: World) -> None:
    world.run(queues.retain("default", 3600.0))
    world.enqueue("k")
    world.dead_letter(world.claim_one().lease)
    world.sql("UPDATE dead SET finished_at = clock_timestamp() - interval '50 days'")
    keep(world)
    assert world.count("dead") == 1


def test_a_retention_is_no_limit(world: World) -> None:
    world.run(queues.retain("mail", DAY))
    (queue,) = world.run(queues.queues())
    assert (queue.retention_seconds, queue.limited) == (DAY, False)
    world.run(queues.limit("mail", max_running=3))
    (queue,) = world.run(queues.queues())
    assert (queue.retention_seconds, queue.max_running) == (DAY, 3)


@pytest.mark.parametrize("seconds", [0, 3599, 400_000_000, float("nan"), True, "7d"])
def test_a_span_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(BadSettings, match="must be between 3600"):
        queues.retain("mail", seconds)
