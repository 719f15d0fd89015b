"""Batches while workers are cut off and operators meddle: each is followed once. A slice of `make soak-batches`."""

from __future__ import annotations

import pytest

import servers
from chaos.soak_batches import Plan, soak
from world import World

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


def test_each_batch_is_followed_once_whoever_is_cut_off_cancelled_or_redriven(world: World) -> None:
    assert soak(world, Plan(batches=6, rows=100, workers=3, seed=5, seconds_max=400)) == []


LOWER = "SET open = s.open - ended.n,"
LOWER_WHAT_WAS_SEEN = "SET open = slots_left - ended.n,"
LOOP = "LOOP\n    UPDATE"
LOOK = """LOOP
    SELECT s.open INTO slots_left FROM "{schema}".group_slots AS s
    WHERE s.group_id = ended.group_id AND s.slot = ended.slot;
    PERFORM pg_sleep(0.002);
    UPDATE"""


def test_control_a_count_that_is_not_waited_for_leaves_batches_open(world: World) -> None:
    """The same function, but it looks at the slot before it locks it: two who end rows at once take off one number."""
    ((real,),) = world.sql("SELECT pg_get_functiondef('count_ends'::regproc)")
    assert real.count(LOWER) == 1
    look = LOOK.format(schema=world.schema)
    world.sql(real.replace(LOWER, LOWER_WHAT_WAS_SEEN).replace(LOOP, look, 1))
    wrong = soak(world, Plan(batches=2, rows=300, workers=4, seed=5, seconds_max=15))
    assert "a slot is not empty" in wrong
    assert any(line.endswith("batches are open") for line in wrong)
