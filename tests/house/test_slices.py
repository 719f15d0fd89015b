"""What `make test` leaves to `make test-all` is named in one place, and each name is a test that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from slices import LATER, SOME, left_out

TESTS = Path(__file__).parents[1]


def test_every_name_is_a_test() -> None:
    known = {
        name for path in TESTS.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert known.issuperset(LATER | SOME.keys())
    assert not LATER & SOME.keys()


class Case:
    """As much of a test as the slice looks at."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


def test_some_are_spread_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slices.EVERYTHING", False)
    cases = [Case(f"file.py::test_a_start_that_cannot_be_is_refused[{n}]") for n in range(9)]
    plain = Case("file.py::test_that_is_quick")
    left: set[Any] = left_out([*cases, plain])  # type: ignore[list-item]
    assert {*cases, plain} - left == {cases[0], cases[3], cases[6], plain}
