"""Guarantee 10 with real processes: a fifth worker takes about a fifth of the buckets, and no row runs twice for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import servers
from apps.ledger import read
from chaos.checker import ran_twice
from chaos.fleet import fleet, load
from crew import eventually
from tenure.model.rows import BUCKETS
from world import World


def needless(joins: Iterable[int]) -> list[int]:
    """Joins of a fifth worker that moved too few buckets to share the work, or more than a fifth and a little."""
    return [moved for moved in joins if not 0.15 * BUCKETS <= moved <= 0.25 * BUCKETS]


def joins(events: Iterable[Mapping[str, Any]]) -> list[int]:
    """How many buckets moved when a worker saw its ring grow from four to five."""
    return [after["moved"] for before, after in pairwise(events) if (before["workers"], after["workers"]) == (4, 5)]


@pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
def test_a_fifth_worker_moves_a_fifth_of_the_buckets_and_no_row_runs_twice(world: World, tmp_path: Path) -> None:
    with fleet(world, tmp_path, "--slots=5", "--poll-seconds=0.5") as crew:
        four = crew.hire(4)
        crew.agreed(4)
        with load(world) as sent:
            eventually(lambda: len(read(crew.ledger)) > 20)
            (fifth,) = crew.hire()
            crew.agreed(5)
            fifth.saw("job_completed", 5)
        moved = [n for worker in four for n in joins(worker.events("ring_changed"))]
        assert [worker.end() for worker in crew.workers] == [0] * 5
    assert len(moved) == 4
    assert needless(moved) == []
    assert ran_twice(read(crew.ledger)) == []
    assert world.sql("SELECT status, attempts, lease_generation, count(*)::int FROM inbox GROUP BY 1, 2, 3") == [
        ("completed", 1, 1, sent.rows)
    ]


def test_control_buckets_dealt_by_remainder_would_move_needlessly() -> None:
    by_remainder = sum(bucket % 4 != bucket % 5 for bucket in range(BUCKETS))
    assert needless([by_remainder, 0]) == [by_remainder, 0]


def test_control_a_second_start_is_found() -> None:
    start = {"what": "start", "id": "a"}
    assert ran_twice([start, {**start, "id": "b"}, start]) == ["a"]
