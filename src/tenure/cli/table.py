"""Plain columns: aligned for people, split by spaces for tools; colour only where somebody looks."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from ..log import printable

LAST_MIN = 20  # letters that the last column gets even where there is no room


def table(head: Sequence[str], lines: Sequence[Sequence[str]], width: int | None = None) -> str:
    """A head and its lines, each column as wide as its widest cell, numbers to the right.

    What cannot be seen is written out: a cell that somebody else wrote neither ends its line nor steers the terminal.
    Of a given width the last column gets what is left.
    """
    every = [[printable(cell) for cell in line] for line in (head, *lines)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    numbers = [all(line[n].replace(",", "").isdecimal() for line in every[1:]) for n in range(len(widths))]
    if width is not None:
        left = max(LAST_MIN, width - sum(widths[:-1]) - 2 * (len(widths) - 1))
        every = [[*line[:-1], _cut(line[-1], left)] for line in every]
    return "\n".join(
        "  ".join(
            cell.rjust(wide) if right else cell.ljust(wide)
            for cell, wide, right in zip(line, widths, numbers, strict=True)
        ).rstrip()
        for line in every
    )


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else f"{cell[: most - 1]}…"


def painted(text: str, colour: str) -> str:
    """The text in a colour, if stdout is a terminal and nobody said NO_COLOR."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=colour)
