"""Guarantee 7 with real processes: per key one in flight and no inversion, whoever is killed, stopped or late.

A slice of `make soak-order`, which runs for minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import servers
from chaos.nemesis import Plan
from chaos.soak_order import soak, without_the_rule, words
from world import World

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


def test_ordered_keys_keep_their_order_while_workers_are_killed_and_stopped(world: World, tmp_path: Path) -> None:
    plan = Plan(seconds=8, seed=2, workers=4, needed=2)
    verdict, evidence = soak(world, tmp_path, plan)
    assert verdict.word == "valid", words(plan, verdict, evidence)
    assert evidence.happened["exits with 0"] == plan.workers, words(plan, verdict, evidence)
    assert not world.keys_taken()


def test_control_without_one_in_flight_as_a_database_fact_the_judge_finds_some(world: World, tmp_path: Path) -> None:
    without_the_rule(world)
    verdict, _ = soak(world, tmp_path, Plan(seconds=3, seed=3, workers=3, needed=0))
    assert verdict.kinds()["two in flight"]
