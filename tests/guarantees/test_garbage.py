"""While jobs are quick, a worker process looks for garbage less often; else, and elsewhere, as Python does."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import servers
from apps.ledger import read
from crew import Process, eventually, processes
from tenure.worker.garbage import CIRCLES, LOOKS, OBJECTS, PYTHONS, QUICK_SECONDS, ROWS, Garbage
from world import World

JUST = QUICK_SECONDS - 0.01


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = gc.get_threshold()
    monkeypatch.setattr("tenure.worker.garbage.PYTHONS", (700, 10, 10))
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


class Clock:
    """A worker's own process, in which no time passes but what a test says, and no circles are found but these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.found, self.garbage = 1000.0, 0, Garbage()
        self.garbage.ours = True
        monkeypatch.setattr("tenure.worker.garbage.time", SimpleNamespace(monotonic=lambda: self.at))
        monkeypatch.setattr(gc, "get_stats", lambda: [{"collected": 0}, {"collected": self.found}])
        self.after(1.0)

    def after(self, seconds: float, rows: int = 0, circles: int = 0) -> int:
        """After how many new objects Python looks, when so many rows have come in this time."""
        self.at += seconds
        self.found += circles
        self.garbage.rows(rows)
        self.garbage.look()
        return gc.get_threshold()[0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_it_is_looked_for_less_often_while_rows_come_quickly(clock: Clock) -> None:
    assert clock.after(0.0, ROWS - 1) == 700
    assert clock.after(JUST, 1) == OBJECTS
    assert clock.after(JUST, ROWS - 1) == OBJECTS  # not known yet
    assert clock.after(0.02) == 700
    assert clock.after(JUST, ROWS) == OBJECTS
    assert gc.get_threshold()[1:] == (10, 10)


def test_jobs_that_leave_circles_behind_are_looked_after_as_python_does(clock: Clock) -> None:
    assert clock.after(0.1, ROWS, CIRCLES - 1) == OBJECTS
    assert clock.after(0.1, ROWS, CIRCLES) == 700
    assert clock.after(0.1, ROWS) == OBJECTS


def test_now_and_then_python_looks_though_no_circles_were_found(clock: Clock) -> None:
    """Found late, circles of large objects would take much memory."""
    looks = [clock.after(0.1, ROWS) for _ in range(2 * LOOKS)]
    assert looks.count(700) == 2
    assert looks.count(OBJECTS) == 2 * LOOKS - 2


def test_what_the_application_has_chosen_stays(clock: Clock) -> None:
    for chosen in (0, 2000, 2 * OBJECTS):
        gc.set_threshold(chosen, 7, 7)
        assert clock.after(0.1, ROWS) == chosen
    gc.set_threshold(700, 10, 10)
    assert clock.after(0.1, ROWS) == OBJECTS
    gc.set_threshold(3000, 5, 5)  # while it looks less often
    assert clock.after(1.0) == 3000


def test_a_process_that_is_not_the_workers_own_is_left_alone(clock: Clock) -> None:
    clock.garbage.ours = False
    assert clock.after(0.1, 1000 * ROWS) == 700


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
        assert seen_after("slow", 2 * ROWS) == PYTHONS[0]
        assert worker.end() == 0
