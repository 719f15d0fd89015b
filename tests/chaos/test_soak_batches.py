"""Batches while workers are cut off and operators meddle: each is followed once. A slice of `make soak-batches`."""

from __future__ import annotations

import pytest

import servers
from chaos.soak_batches import Plan, soak
from world import World

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


def test_each_batch_is_followed_once_whoever_is_cut_off_cancelled_or_redriven(world: World) -> None:
    assert soak(world, Plan(batches=6, rows=100, workers=3, seed=5, seconds_max=400)) == []


def test_control_a_count_that_is_not_waited_for_leaves_batches_open(world: World) -> None:
    """Without the lock of the slot, two who end rows at once both take one off the same number."""
    world.sql("ALTER TABLE group_slots DROP CONSTRAINT group_slots_open_check")
    world.sql(
        "CREATE OR REPLACE FUNCTION count_ends(counted bigint[], states text[]) RETURNS bigint[] LANGUAGE plpgsql AS $$"
        " DECLARE mark bigint; seen int; BEGIN FOREACH mark IN ARRAY counted LOOP"
        f" SELECT open INTO seen FROM {world.schema}.group_slots WHERE group_id = mark >> 6 AND slot = mark & 63;"
        " PERFORM pg_sleep(0.001);"
        f" UPDATE {world.schema}.group_slots SET open = seen - 1 WHERE group_id = mark >> 6 AND slot = mark & 63;"
        " END LOOP; RETURN NULL; END $$"
    )
    wrong = soak(world, Plan(batches=2, rows=300, workers=4, seed=5, seconds_max=15))
    assert any("open" in line for line in wrong)
