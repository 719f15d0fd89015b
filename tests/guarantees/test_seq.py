"""Every claimed row knows its number in the order of arrival, whichever claim took it and however late it came."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from guarantees.facts import Beside, waits_for_a_lock
from tenure import verbs
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import queues
from tenure.verbs.statement import Statement
from world import World

CLAIMS: dict[str, tuple[bool, Statement[list[Claimed]]]] = {
    "claim": (False, verbs.claim("A", 9)),
    "claim_in_crowd": (False, verbs.claim("A", 9, in_crowd=True)),
    "claim_ordered": (True, verbs.claim_ordered("A", 9, run_length=3)),
    "claim_limited": (False, queues.claim_limited("A", 9, "default")),
    "claim_limited of ordered keys": (True, queues.claim_limited("A", 9, "default")),
}
# A claim that stands still where it has begun and has not looked for rows yet: what is committed meanwhile, its
# statement does not see, and its function does.
GATE = """
CREATE OR REPLACE FUNCTION must_read_committed() RETURNS void LANGUAGE plpgsql VOLATILE AS
$$ BEGIN LOCK TABLE gate IN SHARE MODE; END $$
"""


def numbers(world: World) -> list[tuple[Any, int]]:
    return sorted(world.sql("SELECT id, seq FROM live"))


@pytest.mark.parametrize("way", CLAIMS)
def test_a_claimed_row_has_its_number(world: World, way: str) -> None:
    ordered, claim = CLAIMS[way]
    if way.startswith("claim_limited"):
        world.run(queues.limit("default", max_running=50))
    for n in range(6):
        world.enqueue(key=f"k:{n}", ordered=ordered)
    assert sorted((job.id, job.seq) for job in world.run(claim)) == numbers(world)


@pytest.mark.parametrize("way", [way for way in CLAIMS if way.startswith(("claim_ordered", "claim_limited"))])
def test_a_row_that_comes_while_the_claim_is_under_way_has_its_number(world: World, way: str) -> None:
    ordered, claim = CLAIMS[way]
    if way.startswith("claim_limited"):
        world.run(queues.limit("default", max_running=50))
    world.sql("CREATE TABLE gate ()")
    world.sql(GATE)
    claimer: psycopg.Connection[Any] = world.connect()
    with world.conn.transaction():
        world.sql("LOCK TABLE gate")
        claiming = Beside(lambda: world.run(claim, claimer))
        waits_for_a_lock(world, claimer)
        producer = world.connect()
        for n in range(3):
            world.run(verbs.enqueue(NewRow("k", key=f"k:{n}", ordered=ordered)), producer)
    assert sorted((job.id, job.seq) for job in claiming.result()) == numbers(world)
