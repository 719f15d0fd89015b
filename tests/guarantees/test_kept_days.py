"""Steps and results are kept by the day: days are made ahead, those past retention go, and nothing else does."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tenure.model.rows import NewRow
from tenure.verbs import batches, queues
from world import World

pytestmark = pytest.mark.one_server
MIDNIGHT = "date_trunc('day', clock_timestamp(), 'UTC')"
KEPT = ("steps", "results")
STEP = (
    "INSERT INTO steps (row_id, run, path, n, name, state, fence_token, recorded_at)"
    " VALUES (%s, 1, '', 0, 'x', 'done', 1, clock_timestamp())"
)
RESULT = "INSERT INTO results (row_id, queue, value) VALUES (%s, 'default', '1')"


def _id(world: World, days: float, of: str = MIDNIGHT) -> UUID:
    """The first id of a day, so many from today."""
    return UUID(str(world.sql(f"SELECT id_at({of} + %s * interval '1 day')", days)[0][0]))


def _name(world: World, table: str, day: int) -> str:
    return f"{table}_" + str(
        world.sql(f"SELECT to_char(({MIDNIGHT} AT TIME ZONE 'UTC')::date + %s, 'YYYYMMDD')", day)[0][0]
    )


def _make(world: World, table: str, day: int) -> str:
    name = _name(world, table, day)
    world.sql(
        f"CREATE TABLE {name} PARTITION OF {table} FOR VALUES FROM ('{_id(world, day)}') TO ('{_id(world, day + 1)}')"
    )
    return name


def _there(world: World, name: str) -> bool:
    return bool(world.sql("SELECT to_regclass(%s) IS NOT NULL", name)[0][0])


def _keep(world: World, table: str, retention: str = "14 days", batch: int = 1000) -> dict[str, int]:
    function = "keep_flows" if table == "steps" else "keep_results"
    return dict(world.sql(f"SELECT what, n FROM {function}(%s::interval, %s)", retention, batch))


def _alive(world: World, *ids: UUID) -> None:
    for id in ids:
        world.sql("INSERT INTO live (id, kind, payload) VALUES (%s, 'x', '{}')", id)


def _dead(world: World, *ids: UUID) -> None:
    """While nobody else is there."""
    _alive(world, *ids)
    for job in world.claim(n=9, buckets=None):
        world.fail(job.lease)


@pytest.mark.parametrize("table", KEPT)
def test_a_day_is_made_unless_somebody_has_written_of_it_before(world: World, table: str) -> None:
    for day in (1, 2):
        world.sql(f"DROP TABLE {_name(world, table, day)}")
    for day in (-5, 2):  # both go to the rest
        world.sql(STEP if table == "steps" else RESULT, _id(world, day))
    kept = _keep(world, table)
    assert kept["step_days_made" if table == "steps" else "result_days_made"] == 1
    assert [_there(world, _name(world, table, day)) for day in (0, 1, 2, 3)] == [True, True, False, True]


@pytest.mark.parametrize("table", KEPT)
def test_days_of_others_are_left_alone(world: World, table: str) -> None:
    world.sql(f"CREATE TABLE others (LIKE {table}) PARTITION BY RANGE (row_id)")
    world.sql(f"CREATE TABLE {table}_20010101 PARTITION OF others DEFAULT")
    _keep(world, table)
    assert _there(world, f"{table}_20010101")


def test_a_day_of_steps_goes_unless_one_of_its_instances_is_there(world: World) -> None:
    """Days -40 and -38 have a row in live, -30 and -28 among the dead, each at the very first of its ids."""
    names = {day: _make(world, "steps", day) for day in (-40, -39, -38, -30, -29, -28)}
    _dead(world, *(_id(world, day) for day in (-30, -28)))
    _alive(world, *(_id(world, day) for day in (-40, -38)))
    assert (world.count("live"), world.count("dead")) == (2, 2)
    assert _keep(world, "steps")["step_days_dropped"] == 2
    assert [day for day, name in names.items() if not _there(world, name)] == [-39, -29]


BELONGINGS = {
    "signals": "INSERT INTO signals VALUES (%s, DEFAULT, 'x', '1', clock_timestamp() - interval '20 days')",
    "signals_once": "INSERT INTO signals_once (row_id, once) VALUES (%s, 'x')",
    "shown": "INSERT INTO shown (row_id, key, value) VALUES (%s, 'x', '1')",
    "said": "INSERT INTO said (row_id, chunk) VALUES (%s, 'x')",
    "steps": STEP,
}


def test_what_belongs_to_an_instance_goes_when_it_is_gone_for_long(world: World) -> None:
    live, dead, gone, young = owners = [_id(world, day) for day in (-20, -21, -22, -1)]
    _dead(world, dead)
    _alive(world, live)
    for add in BELONGINGS.values():
        for owner in owners:
            world.sql(add, owner)
    world.sql("UPDATE signals SET sent_at = clock_timestamp() - interval '1 day' WHERE row_id = %s", young)
    kept = _keep(world, "steps")
    assert (kept["signals_forgotten"], kept["stray_steps_forgotten"]) == (1, 1)
    for table in BELONGINGS:
        assert {id for (id,) in world.sql(f"SELECT row_id FROM {table}")} == {live, dead, young}, table
    assert gone not in (live, dead, young)


def test_no_more_than_ten_thousand_go_at_once(world: World) -> None:
    world.sql("INSERT INTO shown SELECT %s, n::text, '1' FROM generate_series(1, 10001) AS n", _id(world, -20))
    world.sql(
        "INSERT INTO progress SELECT new_id(), clock_timestamp() - interval '1 day' FROM generate_series(1, 10001)"
    )
    _keep(world, "steps", batch=1_000_000)
    assert world.count("shown") == 1
    assert _keep(world, "results", batch=1_000_000)["progress_forgotten"] == 10_000


def test_what_is_over_within_a_transaction_goes(world: World) -> None:
    """By the clock, not by the time at which the transaction began."""
    with world.conn.transaction():
        world.sql("SELECT pg_sleep(0.1)")
        hour = "now() - interval '1 hour' + interval '50 milliseconds'"
        world.sql("INSERT INTO shown VALUES (%s, 'x', '1')", _id(world, 0, hour))
        world.sql(f"INSERT INTO results (row_id, ended_at, queue, value) SELECT new_id(), {hour}, 'default', '1'")
        world.sql(f"INSERT INTO progress SELECT new_id(), {hour}")
        world.sql("INSERT INTO watched SELECT new_id(), now() + interval '50 milliseconds'")
        for table in KEPT:
            _keep(world, table, "1 hour")
        assert [world.count(table) for table in ("shown", "results", "progress", "watched")] == [0, 0, 0, 0]


def test_batches_that_ended_long_ago_go_with_their_slots_and_no_others(world: World) -> None:
    old, young = (world.run(batches.open_group([NewRow("part")])).id for _ in range(2))
    for job in world.claim(n=2):
        world.complete(job.lease)
    still = world.run(batches.open_group([NewRow("part")])).id
    world.sql("UPDATE groups SET ended_at = clock_timestamp() - interval '20 days' WHERE id = %s", old)
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM groups WHERE id = %s FOR UPDATE", [old])
        assert _passes(world)["batches_forgotten"] == 0
    assert _keep(world, "results")["batches_forgotten"] == 1
    for column, table in (("id", "groups"), ("group_id", "group_slots")):
        assert {id for (id,) in world.sql(f"SELECT {column} FROM {table}")} == {young, still}


def _passes(world: World) -> dict[str, int]:
    """The same beside somebody who holds a lock: who waits for it is refused."""
    world.sql("SET lock_timeout = '4s'")
    kept = _keep(world, "results")
    world.sql("RESET lock_timeout")
    return kept


def test_progress_of_what_is_gone_stays_for_an_hour_and_who_waits_is_not_forgotten(world: World) -> None:
    young, old = (world.sql("SELECT new_id()")[0][0] for _ in range(2))
    world.sql(
        "INSERT INTO progress VALUES (%s, clock_timestamp()), (%s, clock_timestamp() - interval '2 hours')", young, old
    )
    world.sql(
        "INSERT INTO watched VALUES (%s, clock_timestamp() + interval '1 hour'), (%s, clock_timestamp())", young, old
    )
    live = world.enqueue("x")
    world.sql("INSERT INTO progress VALUES (%s, clock_timestamp() - interval '2 hours')", live)
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM progress WHERE row_id = %s FOR UPDATE", [old])
        assert _passes(world)["progress_forgotten"] == 0
    assert _keep(world, "results")["progress_forgotten"] == 1
    assert {id for (id,) in world.sql("SELECT row_id FROM progress")} == {young, live}
    assert world.sql("SELECT row_id FROM watched") == [(young,)]


def test_a_day_of_results_stays_while_a_queue_keeps_it_and_takes_its_old_ones_along(world: World) -> None:
    name, ids = _make(world, "results", -40), [_id(world, -40 + n / 100) for n in range(3)]
    for id in ids:
        world.sql("INSERT INTO results VALUES (%s, clock_timestamp() - interval '40 days', 'long', '1')", id)
    world.run(queues.retain("long", 86400.0 * 90))
    _keep(world, "results")
    assert (_there(world, name), world.count("results")) == (True, 3)
    world.sql("UPDATE results SET queue = 'default'")
    world.run(queues.retain("long", None))
    assert _keep(world, "results", batch=1)["results_forgotten"] == 1
    assert (_there(world, name), world.count("results")) == (False, 0)


def test_results_go_by_their_own_age(world: World) -> None:
    young: Any = world.sql("INSERT INTO results SELECT new_id(), clock_timestamp(), 'default', '1' RETURNING row_id")[
        0
    ][0]
    world.sql("INSERT INTO results SELECT new_id(), clock_timestamp() - interval '20 days', 'default', '1'")
    _keep(world, "results")
    assert world.sql("SELECT row_id FROM results") == [(young,)]
