"""While jobs are quick, a worker process looks for garbage less often; else, and elsewhere, as Python does."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import servers
from apps.ledger import read
from crew import Process, eventually, processes
from tenure.worker.garbage import OBJECTS, ROWS, ROWS_A_SECOND, Garbage
from world import World


@pytest.fixture(autouse=True)
def usual() -> Iterator[int]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield 700
    gc.set_threshold(*before)


@pytest.fixture
def garbage(monkeypatch: pytest.MonkeyPatch) -> Garbage:
    """Of a worker's own process, in which no time passes but what a test says."""
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    made = Garbage()
    made.ours = True
    return made


def _come(monkeypatch: pytest.MonkeyPatch, garbage: Garbage, at: float, n: int = ROWS) -> int:
    monkeypatch.setattr(time, "monotonic", lambda: at)
    garbage.rows(n)
    return gc.get_threshold()[0]


def test_it_is_looked_for_less_often_while_rows_come_quickly(garbage: Garbage, monkeypatch: pytest.MonkeyPatch) -> None:
    just = ROWS / ROWS_A_SECOND
    assert _come(monkeypatch, garbage, 0.0, ROWS - 1) == 700
    assert _come(monkeypatch, garbage, just, 1) == OBJECTS
    assert _come(monkeypatch, garbage, 3 * just) == 700
    assert _come(monkeypatch, garbage, 4 * just) == OBJECTS
    assert gc.get_threshold()[1:] == (10, 10)


def test_what_the_application_has_chosen_stays(garbage: Garbage, monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen in (0, 2 * OBJECTS):
        gc.set_threshold(chosen, 7, 7)
        assert _come(monkeypatch, garbage, 0.0) == chosen
    gc.set_threshold(2000, 7, 7)
    assert _come(monkeypatch, garbage, 0.0) == OBJECTS
    gc.set_threshold(3000, 5, 5)  # while it looks less often
    assert _come(monkeypatch, garbage, 1000.0) == 3000


def test_a_process_that_is_not_the_workers_own_is_left_alone(garbage: Garbage, monkeypatch: pytest.MonkeyPatch) -> None:
    garbage.ours = False
    assert _come(monkeypatch, garbage, 0.0, 1000 * ROWS) == 700


@pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
def test_a_worker_process_does_so_and_goes_back(world: World, tmp_path: Path) -> None:
    worker = Process(world, "apps.looks:inbox", tmp_path, "--slots=4")

    def seen_after(kind: str, n: int) -> int:
        world.sql("SELECT enqueue(%s, '{}'::jsonb) FROM generate_series(1, %s::int)", kind, n)
        eventually(lambda: not world.sql("SELECT FROM live LIMIT 1"))
        before = len(read(worker.ledger))
        world.enqueue("look")
        return int(eventually(lambda: read(worker.ledger)[before:])[0]["objects"])

    with processes(worker):
        eventually(lambda: seen_after("quick", 5000) == OBJECTS)  # more than once if the machine is busy
        assert seen_after("slow", 2 * ROWS) == 700
        assert worker.end() == 0
