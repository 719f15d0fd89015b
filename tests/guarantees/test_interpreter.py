"""In a worker process threads take turns sooner than Python lets them, unless the application has chosen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import servers
from apps.ledger import read
from crew import Process, eventually, processes
from tenure.worker.garbage import Garbage
from tenure.worker.interpreter import PYTHONS_SECONDS, TURN_SECONDS, own
from world import World


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(PYTHONS_SECONDS)
    yield
    sys.setswitchinterval(before)


def _owned() -> Garbage:
    garbage = Garbage()
    own(SimpleNamespace(garbage=garbage))  # type: ignore[arg-type]
    return garbage


def test_threads_take_turns_sooner_and_garbage_is_the_workers_own() -> None:
    assert _owned().ours
    assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)


def test_what_the_application_has_chosen_stays() -> None:
    sys.setswitchinterval(0.02)
    _owned()
    assert sys.getswitchinterval() == pytest.approx(0.02)


@pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
def test_a_worker_process_does_so(world: World, tmp_path: Path) -> None:
    worker = Process(world, "apps.looks:inbox", tmp_path)
    with processes(worker):
        world.enqueue("look")
        seen = eventually(lambda: read(worker.ledger))[0]["seconds"]
        assert float(seen) == pytest.approx(TURN_SECONDS)
        assert worker.end() == 0
