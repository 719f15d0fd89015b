"""The judge of `make soak-moves`: what a killed worker leaves is no fault, and every fault is one."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.soak_moves import Tally, faults, held_up, in_order


def begun(*lines: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Rows of a key as they began: number, process, token."""
    return [{"n": n, "pid": pid, "token": token} for n, pid, token in lines]


@pytest.mark.parametrize(
    "lines",
    [
        [(0, 1, 1), (1, 1, 1), (2, 1, 1)],
        [(0, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 1)],
        [(0, 1, 1), (1, 1, 1), (0, 2, 2), (1, 2, 2), (2, 2, 1)],
    ],
    ids=["each once", "one again", "those of a claim again, elsewhere"],
)
def test_rows_may_begin_again_in_order(lines: list[tuple[int, int, int]]) -> None:
    assert in_order(begun(*lines), 3)


@pytest.mark.parametrize(
    "lines",
    [
        [(0, 1, 1), (2, 1, 1), (1, 1, 1)],
        [(0, 1, 1), (1, 1, 1)],
        [(0, 1, 1), (1, 1, 1), (2, 1, 1), (1, 1, 2), (2, 1, 2)],
        [(0, 1, 1), (1, 1, 1), (0, 2, 2), (2, 2, 1)],
        [(0, 1, 1), (1, 2, 2), (1, 1, 1), (2, 2, 1)],
        [],
    ],
    ids=[
        "overtaken",
        "lost",
        "back in one process",
        "one is left out the second time",
        "a holder of before",
        "nothing",
    ],
)
def test_every_fault_is_found(lines: list[tuple[int, int, int]]) -> None:
    assert not in_order(begun(*lines), 3)


def test_a_key_that_goes_on_elsewhere_is_held_up_since_nothing_of_its_range_was_left() -> None:
    def line(key: str, n: int, at: int, sent: int, inbox: int) -> dict[str, Any]:
        return {
            "what": "start", "key": key, "n": n, "at_ns": at * 10**9, "sent_ns": sent * 10**9, "worker": f"w@{inbox}",
        }  # fmt: skip

    lines = [
        line("a", 0, 1, 0, 1),
        line("b", 0, 4, 0, 1),
        line("c", 0, 9, 0, 1),
        line("a", 1, 10, 2, 2),  # 6 s after b, of the same range; c is of another
        line("a", 2, 10, 3, 2),
        line("b", 1, 30, 25, 2),  # 5 s after it was sent
        line("b", 1, 40, 25, 1),  # again, by another worker
    ]
    assert held_up(lines, {"a": 1, "b": 1, "c": 2}) == [6, 5]


def test_a_run_below_its_load_or_with_keys_held_up_for_long_shows_nothing() -> None:
    tally = Tally(sent={"a": 5000}, seconds=10.0, waited=[1.0] * 5000, held=[11.0] * 200)
    assert faults(tally, 500) == []
    assert faults(tally, 600) == ["less than 600 rows a second"]
    tally.held += [13.0] * 20
    assert faults(tally, 500) == ["held up for more than 12 s"]
