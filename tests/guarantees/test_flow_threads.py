"""What the branches of a plain workflow share: threads add to it and take from it at once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tenure.shapes.flow.core import Core
from tenure.shapes.flow.effects import Instance
from tenure.shapes.flow.failures import Failures
from tenure.shapes.flow.step_values import with_riders
from tenure.shapes.flow.writing import carried
from tenure.verbs.steps import Recording, Step

DONE = Step("", 1, "charge", "done")
PATCH = Step("", 0, "patch:p", "patched")


class Taken(list[Step]):
    """Another thread takes the last one between a look and a pop."""

    def pop(self, _at: Any = -1) -> Step:
        raise IndexError


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_step_is_recorded_though_another_thread_took_what_rides_along() -> None:
    assert with_riders(Taken([PATCH]), DONE) == (DONE,)


def test_what_is_added_while_a_fenced_step_is_recorded_rides_with_the_next() -> None:
    core = Core(Instance(uuid4(), "checkout", 1), 0.0)
    core.riders.append(PATCH)
    shared = core.riders
    recording: Any = Recording(None, 1, (PATCH, DONE))  # type: ignore[arg-type]
    carried(core, recording)
    shared.append(Step("0.1", 2, "returned", "done"))
    assert [each.name for each in core.riders] == ["returned"]


@pytest.mark.usefixtures("quick_switches")
def test_a_branch_returns_while_another_fails() -> None:
    failures, over = Failures(), threading.Event()

    def fail() -> None:
        n = 0
        while not over.is_set():
            n += 1
            failures.see("0.1", n % 5_000)

    other = threading.Thread(target=fail)
    other.start()
    try:
        by = time.monotonic() + 1.0
        while time.monotonic() < by:
            assert not failures.below("0.0")
    finally:
        over.set()
        other.join()
