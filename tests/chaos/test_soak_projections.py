"""A slice of `make soak-projections`: killed holders and a rebuild under load, and the tables equal the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

import servers
from chaos.soak_projections import Soak
from world import World

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


def test_tables_equal_the_journal_though_holders_are_killed_and_tables_rebuilt(world: World, tmp_path: Path) -> None:
    soak = Soak(world, tmp_path, events=1_500, writers=3, kills=3, rebuilds=2, seed=3)
    assert soak.run() == 0
    assert soak.killed >= 3
    assert soak.rebuilt == 2
    world.sql(f"DROP SCHEMA {soak.place} CASCADE")
