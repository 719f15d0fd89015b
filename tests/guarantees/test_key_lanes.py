"""Limits per key delay only the key that is full: whatever waits in front, however a slot or a row comes back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from guarantees.facts import Beside, user_connection, waits_for_a_lock
from tenure import verbs
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import operators, queues, settle
from world import World

MAIL = "mail"
HOUR = timedelta(hours=1)


def _send(world: World, n: int = 1, conn: Any = None, **options: Any) -> list[UUID]:
    rows = [NewRow("send_receipt", **{"queue": MAIL, **options}) for _ in range(n)]
    return [each.id for each in world.run(verbs.enqueue_many(rows), conn)]


def _claim(world: World, n: int = 100, conn: Any = None) -> list[Claimed]:
    return world.run(queues.claim_limited("A", n, MAIL), conn)


def _full_keys(world: World, keys: int, rows: int, priority: int = 0) -> None:
    """So many keys at their limit of one, each with so many older rows that wait."""
    world.run(queues.limit(MAIL, max_per_key=1))
    at = datetime.now(UTC) - HOUR
    for n in range(rows + 1):
        world.run(
            verbs.enqueue_many(
                [NewRow("k", queue=MAIL, key=f"full:{k}", priority=priority, at=at) for k in range(keys)]
            )
        )
        if n == 0:
            assert len(_claim(world, keys)) == keys


def _takes(world: World, id: UUID) -> None:
    assert [job.id for job in _claim(world)] == [id]
    assert _claim(world) == []


# -- D8: what stands in front


def test_a_free_key_starts_beside_a_full_one_of_its_bucket(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    ((bucket,),) = world.sql("SELECT bucket('hot')")
    ((key,),) = world.sql(
        "SELECT key FROM generate_series(1, 29999) AS s (n), concat('o', n) AS key WHERE bucket(key) = %s LIMIT 1",
        bucket,
    )
    _send(world, 306, key="hot")
    assert len(_claim(world)) == 1
    (id,) = _send(world, key=key)
    _takes(world, id)


def test_three_thousand_full_keys_do_not_hide_a_free_one(world: World) -> None:
    _full_keys(world, 3000, 10)
    (id,) = _send(world, key="free")
    _takes(world, id)


@pytest.mark.parametrize("key", ["free", None])
def test_full_keys_that_are_more_urgent_do_not_hide_a_row(world: World, key: str | None) -> None:
    _full_keys(world, 200, 3, priority=1)
    (id,) = _send(world, key=key)
    _takes(world, id)


@pytest.mark.parametrize("key", ["a", None])
def test_a_locked_row_does_not_hide_those_behind_it(world: World, key: str | None) -> None:
    world.run(queues.limit(MAIL, max_per_key=2))
    ids = _send(world, 20, key="locked") + _send(world, priority=-1, key="locked") + _send(world, key=key, priority=-1)
    other = user_connection(world)
    other.execute("SELECT FROM live WHERE partition_key = 'locked' AND priority = 0 FOR UPDATE")
    assert {job.id for job in _claim(world, 1) + _claim(world, 1)} == {ids[-1], ids[-2]}


def test_a_locked_row_without_a_key_does_not_hide_the_next(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    locked, free = _send(world, 2)
    other = user_connection(world)
    other.execute("SELECT 1 FROM live WHERE id = %s FOR UPDATE", [locked])
    world.sql("SET lock_timeout = '5s'")
    assert [job.id for job in _claim(world, 1)] == [free]


def test_full_keys_that_are_ordered_as_well_do_not_hide_a_free_one(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    world.run(verbs.enqueue_many([NewRow("k", queue=MAIL, key=f"full:{k}") for k in range(300)]))
    assert len(_claim(world, 300)) == 300
    world.run(verbs.enqueue_many([NewRow("k", queue=MAIL, key=f"full:{k}", ordered=True) for k in range(300)]))
    (id,) = _send(world, key="free", ordered=True)
    assert [job.id for job in _claim(world, 1)] == [id]


# -- how a key goes on


def _expire(world: World, job: Claimed) -> None:
    world.expire(job.lease)
    world.sweep()


ENDS: dict[str, Callable[[World, Claimed], Any]] = {
    "completed": lambda world, job: world.complete(job.lease),
    "retried": lambda world, job: world.retry(job.lease, delay=3600),
    "released": lambda world, job: (world.release(job.lease), world.run(verbs.cancel([job.id], reason="no more"))),
    "failed": lambda world, job: world.fail(job.lease),
    "dead letter": lambda world, job: world.dead_letter(job.lease),
    "expired": _expire,
    "its permit deleted": lambda world, _: world.sql("DELETE FROM permits"),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_next_row_of_a_full_key_starts_when_one_ends(world: World, end: str) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    first, second = _send(world, 2, key="a")
    (job,) = _claim(world)
    assert job.id == first
    assert _claim(world) == []
    ENDS[end](world, job)
    assert [job.id for job in _claim(world)] == [second]


def test_a_row_that_goes_back_is_found_again_at_its_time(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    (id,) = _send(world, key="a")
    (job,) = _claim(world)
    assert world.retry(job.lease, delay=3600).ok
    assert _claim(world) == []
    world.due()
    (job,) = _claim(world)
    assert job.id == id
    assert world.release(job.lease).ok
    assert [job.id for job in _claim(world)] == [id]


def test_a_row_sent_with_an_earlier_time_goes_before_one_that_waits(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    _send(world, key="a", delay_seconds=3600)
    assert _claim(world) == []
    (earlier,) = _send(world, key="a", at=datetime.now(UTC) - HOUR)
    _takes(world, earlier)


@pytest.mark.parametrize("key", ["a", None])
def test_a_row_of_another_priority_has_a_lane_of_its_own(world: World, key: str | None) -> None:
    world.run(queues.limit(MAIL, max_per_key=1, max_running=1))
    low, high = _send(world, key=key) + _send(world, key=key, priority=5)
    (job,) = _claim(world)
    assert job.id == high
    world.complete(job.lease)
    assert [job.id for job in _claim(world)] == [low]


@pytest.mark.parametrize("act", ["cancelled", "deleted"])
def test_a_lane_whose_first_row_is_gone_goes_on_with_the_next(world: World, act: str) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    first, second = _send(world, 2, key="a")
    world.sql("UPDATE live SET available_at = available_at - interval '1 minute' WHERE id = %s", first)
    assert world.sql("SELECT count(*) FROM key_lanes") == [(0,)]
    _send(world, key="later", delay_seconds=3600)
    world.run(queues.limit(MAIL, max_running=1))
    (job,) = _claim(world, 1)
    world.release(job.lease)
    if act == "cancelled":
        world.run(verbs.cancel([first], reason="no more"))
    else:
        world.sql("DELETE FROM live WHERE id = %s", first)
    assert [job.id for job in _claim(world)] == [second]


def test_a_row_moved_by_hand_is_found_where_it_is(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    _send(world, 2, key="a")
    assert len(_claim(world)) == 1
    for change in ("partition_key = 'b'", "priority = 7, partition_key = 'c'", "partition_key = NULL"):
        world.sql(f"UPDATE live SET {change} WHERE status = 'pending'")
        (job,) = _claim(world)
        world.retry(job.lease, delay=0)
    _send(world, queue="web", key="a")
    world.sql("UPDATE live SET queue = 'mail', partition_key = 'd' WHERE queue = 'web'")
    assert {job.partition_key for job in _claim(world)} >= {"d"}


def test_a_dead_letter_that_is_brought_back_is_found(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    (id,) = _send(world, key="a")
    (job,) = _claim(world)
    world.dead_letter(job.lease)
    world.run(operators.redrive([id]))
    _takes(world, id)


# -- what a lane says


def _lanes(world: World, queue: str = MAIL) -> dict[tuple[str, int], Any]:
    found = world.sql(
        "SELECT partition_key, priority, NULLIF(due_at, 'infinity') FROM key_lanes WHERE queue = %s", queue
    )
    return {(key, priority): due_at for key, priority, due_at in found}


def test_a_lane_says_when_its_first_row_can_start(world: World) -> None:
    """Beside each row that counts stand others that do not: of another queue, key, priority, in order, or held."""
    for queue in (MAIL, "web"):
        world.run(queues.limit(queue, max_per_key=2))
    now = datetime.now(UTC)

    def at(hours: float, key: str | None = None) -> datetime:
        return now + timedelta(hours=hours, minutes={"b": 1, "a": 2}.get(key or "", 3))

    for key in ("a", "b", None):
        _send(world, queue="web", key=key, at=at(1, key))
    assert world.run(queues.claim_limited("A", 9, "web")) == []
    of_web = {("a", 0): at(1, "a"), ("b", 0): at(1, "b"), ("", 0): at(1)}
    assert _lanes(world, "web") == of_web
    for key in ("a", "b", None):
        _send(world, 2, key=key, at=at(-1, key))  # will be held
        _send(world, key=key, at=at(4, key))
        _send(world, key=key, at=at(3, key), priority=7)
        if key:
            _send(world, key=key, at=at(2, key), ordered=True)
    _send(world, key="c", at=at(5))
    jobs = _claim(world, 6)
    assert len(jobs) == 6
    full = dict.fromkeys([("a", 0), ("a", 7), ("b", 0), ("b", 7)])
    assert _lanes(world) == {**full, ("", 0): at(4), ("", 7): at(3), ("c", 0): at(5)}
    world.complete(next(job.lease for job in jobs if job.partition_key == "a"))
    assert _claim(world) == []
    assert {lane: due for lane, due in _lanes(world).items() if lane[0] == "a"} == {
        ("a", 0): at(4, "a"),
        ("a", 7): at(3, "a"),
    }
    assert _lanes(world, "web") == of_web


@pytest.mark.parametrize("key", ["a", None])
def test_rows_of_one_moment_are_each_taken_once(world: World, key: str | None) -> None:
    world.run(queues.limit(MAIL, max_per_key=5))
    at = datetime.now(UTC) - HOUR
    ids = _send(world, 5, key=key, at=at)
    assert sorted(job.id for _ in range(5) for job in _claim(world, 1)) == sorted(ids)
    assert _claim(world) == []


def test_a_key_with_a_slot_left_gives_one_row(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=2))
    _send(world, 5, key="a")
    assert [len(_claim(world, n)) for n in (1, 9, 9)] == [1, 1, 0]


def test_a_lane_gives_neither_rows_in_order_nor_rows_that_are_not_due(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=9))
    _send(world, 3, key="a", ordered=True)
    for key in ("a", None):
        _send(world, key=key)
        _send(world, 2, key=key, delay_seconds=60)
    assert len(_claim(world)) == 3


def test_no_arrival_is_lost_whatever_their_number(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    world.run(verbs.enqueue_many([NewRow("k", queue=MAIL, key=f"k{n}") for n in range(2050)]))
    assert len(_claim(world, 3000)) == 2050


@pytest.mark.parametrize("limit", [{"max_running": 9}, {"max_per_key": 9}])
def test_a_claim_takes_rows_of_its_queue_alone(world: World, limit: dict[str, int]) -> None:
    for queue in (MAIL, "web"):
        world.run(queues.limit(queue, **limit))  # type: ignore[arg-type]
        _send(world, 2, queue=queue, key="a")
        _send(world, 2, queue=queue)
    assert {job.queue for job in _claim(world)} == {MAIL}
    assert len(world.run(queues.claim_limited("A", 9, "web"))) == 4


def test_a_row_is_due_from_the_moment_that_it_names(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    _send(world, key="a")
    _send(world)
    for name in ("a", ""):
        ((at,),) = world.sql("SELECT available_at FROM live WHERE COALESCE(partition_key, '') = %s", name)
        rows = "SELECT count(*) FROM lock_lane_rows('mail', ARRAY[%s], ARRAY[0]::smallint[], ARRAY[%s], 9, %s)"
        assert world.sql(rows, name, at, at) == [(1,)]
        world.sql("INSERT INTO key_lanes VALUES ('mail', %s, 0, %s, %s)", name, at, at)
        world.sql("INSERT INTO lane_priorities VALUES ('mail', 0) ON CONFLICT DO NOTHING")
        assert (name,) in world.sql("SELECT partition_key FROM due_lanes('mail', 9, %s)", at)
        due = "SELECT count(*) FROM lock_due_rows('mail', NULL, NULL, 9, %s)"
        assert world.sql(due, at) == [(1 if name == "a" else 2,)]


def test_two_thousand_locked_keys_do_not_hide_a_free_one(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    world.run(verbs.enqueue_many([NewRow("k", queue=MAIL, key=f"locked:{n}") for n in range(2100)]))
    other = user_connection(world)
    other.execute("SELECT FROM live FOR UPDATE")
    (id,) = _send(world, key="free")
    assert [job.id for job in _claim(world, 1)] == [id]


def test_rows_without_a_key_are_found_behind_thousands_that_have_one(world: World) -> None:
    """They stand among the others, and a look passes a thousand."""
    world.run(queues.limit(MAIL, max_per_key=1))
    at = datetime.now(UTC) - HOUR
    first = _send(world, at=at)
    world.run(verbs.enqueue_many([NewRow("k", queue=MAIL, key="full", at=at + timedelta(seconds=1))] * 2500))
    last = _send(world, at=at + timedelta(seconds=2))
    assert {job.id for job in _claim(world, 2)} >= set(first)
    found = [job.id for _ in range(4) for job in _claim(world, 2)]
    assert last[0] in found


# -- when the limit changes


def test_a_limit_finds_the_rows_that_were_there_before(world: World) -> None:
    world.run(queues.limit("web", max_per_key=1))
    assert world.run(queues.claim_limited("A", 1, "web")) == []  # that queue is read already
    ids = _send(world, 3, key="a") + _send(world) + _send(world, key="b", priority=3)
    world.run(queues.limit(MAIL, max_per_key=1))
    assert {job.id for job in _claim(world)} == {ids[0], ids[3], ids[4]}


def test_a_higher_limit_lets_the_next_rows_start_at_once(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    _send(world, 5, key="a")
    assert len(_claim(world)) == 1
    world.run(queues.limit(MAIL, max_per_key=3))
    assert len(_claim(world)) == 2
    world.sql("UPDATE queues SET max_per_key = 4")
    assert len(_claim(world)) == 1


def test_rows_that_came_while_there_was_no_limit_are_found_by_the_next_one(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    _send(world, key="a", delay_seconds=3600)
    assert _claim(world) == []
    world.run(queues.limit(MAIL, clear=True))
    (id,) = _send(world, key="a")
    world.run(queues.limit(MAIL, max_per_key=1))
    _takes(world, id)


def test_settings_that_are_made_anew_while_a_claim_waits_for_them_are_for_the_next(world: World) -> None:
    world.run(queues.limit(MAIL, max_running=1))
    _send(world, 3)
    operator, worker = user_connection(world), world.connect()
    operator.execute("DELETE FROM queues")
    world.run(queues.limit(MAIL, max_running=2), operator)
    claim = Beside(lambda: _claim(world, conn=worker))
    waits_for_a_lock(world, worker)
    operator.commit()
    assert claim.result() == []
    assert len(_claim(world)) == 2
    world.run(queues.limit("web", max_running=1))
    world.sql("DELETE FROM queues WHERE queue = %s", MAIL)
    assert len(_claim(world)) == 1, "settings of other queues are not for this one"


def test_a_queue_whose_settings_are_deleted_begins_anew(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    assert _claim(world) == []
    world.sql("DELETE FROM queues")
    (id,) = _send(world, key="a")
    world.run(queues.limit(MAIL, max_per_key=1))
    _takes(world, id)


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_rows_of_a_transaction_that_began_before_the_limit_are_found(world: World, isolation: str) -> None:
    early = user_connection(world)
    early.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
    early.execute("SELECT 1 FROM live")
    if isolation == "READ COMMITTED":
        _send(world, conn=early, key="a")
    world.run(queues.limit(MAIL, max_per_key=1))
    assert _claim(world) == []
    if isolation == "REPEATABLE READ":
        _send(world, conn=early, key="a")  # it does not see that there is a limit
    early.commit()
    assert _claim(world) == [], "the rows are not read at every claim"
    world.sql("UPDATE limits_begun SET again_at = clock_timestamp()")
    assert len(_claim(world)) == 1


def test_the_rows_are_read_again_only_while_such_a_transaction_is_open(world: World) -> None:
    world.run(queues.limit(MAIL, max_per_key=1))
    early = user_connection(world)
    early.execute("SELECT 1")
    assert _claim(world) == []
    for expected in (True, True, False, False):
        world.sql("UPDATE limits_begun SET again_at = clock_timestamp()")
        assert _claim(world) == []
        if not expected:
            break
        ((again, open),) = world.sql("SELECT again_at > clock_timestamp(), cardinality(open) FROM limits_begun")
        assert again
        assert open >= 1
    early.rollback()
    for _ in range(100):
        world.sql("UPDATE limits_begun SET again_at = clock_timestamp() WHERE open <> '{}'")
        assert _claim(world) == []
        if world.sql("SELECT open = '{}' FROM limits_begun") == [(True,)]:
            return
    pytest.fail("the rows are read again and again")


# -- while somebody holds a snapshot: permits in eras


@pytest.fixture
def still(world: World) -> World:
    """A world where eras begin when a test says so."""
    ((text,),) = world.sql("SELECT pg_get_functiondef('claim_limited'::regproc)")
    assert text.count("random() * 1000") == 1
    world.sql(text.replace("random() * 1000", "1000"))
    return world


def _new_era(world: World, conn: Any = None, queue: str = MAIL) -> None:
    conn = conn or world.conn
    conn.execute("SET lock_timeout = '5s'")  # it waits for nobody
    conn.execute("SELECT begin_era(%s)", [queue])
    conn.execute("SET lock_timeout = 0")


def test_permits_of_earlier_eras_count(still: World) -> None:
    still.run(queues.limit(MAIL, max_running=3, max_per_key=2))
    _send(still, 9, key="a")
    jobs = _claim(still)
    assert len(jobs) == 2
    for _ in range(3):
        _new_era(still)
        assert _claim(still) == []
    assert still.sql("SELECT DISTINCT era FROM permits") == [(3,)]
    assert still.sql("SELECT era, from_era FROM permit_eras") == [(3, 3)]
    _send(still, 9, key="b")
    assert len(_claim(still)) == 1
    still.complete(jobs[0].lease)
    assert len(_claim(still)) == 1
    assert still.sql("SELECT partition_key, count(*) FROM permits GROUP BY 1 ORDER BY 1") == [
        ("", 3),
        ("a", 1),
        ("b", 2),
    ], "keys take turns: the slot goes to the one that has waited for it"


def test_each_queue_has_eras_of_its_own(still: World) -> None:
    for queue in (MAIL, MAIL, "web"):
        _new_era(still, queue=queue)
    assert still.sql("SELECT queue, era, from_era FROM permit_eras ORDER BY 1") == [(MAIL, 2, 2), ("web", 1, 1)]
    still.run(queues.limit("web", max_running=1, max_per_key=1))
    _send(still, 3, queue="web", key="a")
    assert len(still.run(queues.claim_limited("A", 9, "web"))) == 1
    _new_era(still)
    _send(still, queue="web", key="b")
    assert still.run(queues.claim_limited("A", 9, "web")) == []


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_permit_that_is_being_given_back_is_not_waited_for_and_counts_until_then(still: World, end: str) -> None:
    still.run(queues.limit(MAIL, max_running=2))
    _send(still, 9)
    first, _ = _claim(still)
    settling = user_connection(still)
    assert still.run(settle.complete([first.lease]), settling)[0].ok
    _new_era(still)
    assert still.sql("SELECT era, from_era FROM permit_eras") == [(1, 0)]
    assert _claim(still) == []
    getattr(settling, end)()
    assert len(_claim(still)) == (1 if end == "commit" else 0)
    _new_era(still)
    assert still.sql("SELECT era, from_era FROM permit_eras") == [(2, 2)]
    assert still.count("permits") == 2


def test_a_row_that_ends_while_an_era_begins_gives_its_permit_back(still: World) -> None:
    still.run(queues.limit(MAIL, max_running=1))
    _send(still, 2)
    (job,) = _claim(still)
    claimer = user_connection(still)
    _new_era(still, claimer)
    ending = Beside(lambda: still.complete(job.lease))
    waits_for_a_lock(still, still.conn)
    claimer.commit()
    assert ending.result().ok
    assert still.count("permits") == 0


def test_claims_stay_quick_while_a_snapshot_is_held(still: World) -> None:
    """D12: what is counted begins anew before it is long."""
    still.run(queues.limit(MAIL, max_running=5))
    holder = user_connection(still)
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    holder.execute("SELECT count(*) FROM permits")
    _send(still, 2000)

    def passed() -> int:
        """How many index entries a count passes."""
        counted = "SELECT count(*) FROM permits WHERE queue = 'mail' AND partition_key = '' AND era >= %s"
        ((era,),) = still.sql("SELECT COALESCE(max(from_era), 0) FROM permit_eras")
        still.sql("SET enable_seqscan = off")
        ((plan,),) = still.sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {counted}", era)
        return int(plan[0]["Plan"]["Plans"][0].get("Heap Fetches", 0))

    def work() -> None:
        for _ in range(100):
            still.run(settle.complete([job.lease for job in _claim(still, 5)]))

    work()
    long = passed()
    _new_era(still)
    assert (long >= 500, passed()) == (True, 0)
    ((text,),) = still.sql("SELECT pg_get_functiondef('claim_limited'::regproc)")
    still.sql(text.replace("1000 < room - missing", "4 < room - missing"))
    work()
    assert passed() < 20
