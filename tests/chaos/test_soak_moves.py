"""The judge of `make soak-moves`: what a killed worker leaves is no fault, and every fault is one."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.soak_moves import in_order


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
