"""What `make test` leaves to `make test-all` is named in one place, and each name is a test that there is."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slices import EVERY, LATER, SOME, VARIABLE, WHOLE, left_out, left_to_the_first
from tenure.settings import check_names

TESTS = Path(__file__).parents[1]


def test_every_name_is_a_test() -> None:
    known = {
        name for path in TESTS.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert known.issuperset(LATER | SOME.keys())
    assert not LATER & SOME.keys()
    assert {path.stem for path in TESTS.rglob("test_*.py")} >= WHOLE


def test_who_asks_for_everything_says_it_in_a_variable_that_tenure_lets_pass() -> None:
    """Servers and commands that tests start have it in their environment, and refuse what they do not know."""
    said = re.findall(r"(TENURE_TEST\w*)=(\w+) ", (TESTS.parent / "Makefile").read_text())
    assert set(said) == {(VARIABLE, "yes")}
    check_names(dict(said))


class Case:
    """As much of a test as the slices look at."""

    def __init__(self, nodeid: str, server: str = "") -> None:
        self.nodeid, self.path = nodeid, Path(nodeid.partition("::")[0])
        self.callspec = SimpleNamespace(params={"server_url": server}) if server else None


def test_some_are_spread_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slices.EVERYTHING", False)
    cases = [Case(f"file.py::test_a_start_that_cannot_be_is_refused[{n}]") for n in range(9)]
    plain = Case("file.py::test_that_is_quick")
    left: set[Any] = left_out([*cases, plain])  # type: ignore[list-item]
    assert {*cases, plain} - left == {cases[0], cases[3], cases[6], plain}


def test_a_further_server_takes_one_case_of_some_tests_and_all_that_is_about_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slices.EVERYTHING", False)
    first = [Case(f"test_x.py::test_{n}[embedded-{case}]", "embedded") for n in range(90) for case in "abc"]
    plain = [Case(f"test_x.py::test_plain_{n}") for n in range(9)]
    older = [Case(f"test_x.py::test_{n}[15-{case}]", "15") for n in range(90) for case in "abc"]
    about = [Case(f"test_migrate.py::test_{n}[15]", "15") for n in range(9)]
    left: set[Any] = left_to_the_first([*first, *plain, *older, *about], "embedded")  # type: ignore[list-item]
    assert left <= set(older)
    kept = [case.nodeid for case in older if case not in left]
    assert len({name.partition("[")[0] for name in kept}) == len(kept), "one case each"
    assert 90 // EVERY / 2 < len(kept) < 90 // EVERY * 2
    assert {name[-2] for name in kept} == set("abc"), "not always the first case"
    monkeypatch.setattr("slices.EVERYTHING", True)
    assert not left_to_the_first([*first, *older], "embedded")  # type: ignore[list-item]
