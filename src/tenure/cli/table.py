"""Plain columns, aligned and separated by spaces; colour only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from ..console.terminal import styled
from ..telemetry.log import printable

GAP = "  "  # between two columns, and before a continued line


def table(head: Sequence[str], lines: Sequence[Sequence[str]], width: int = sys.maxsize) -> str:
    """A head and its lines, each column as wide as its widest cell, numbers to the right.

    Control characters are escaped: a cell cannot break its line or control the terminal. Columns that do not fit the
    width go on the next line, and so does a last cell that is too long for its line; only a cell that is longer than a
    whole line is cut.
    """
    every = [[printable(cell) for cell in line] for line in (head, *lines)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    numbers = [all(line[n].replace(",", "").isdecimal() for line in every[1:]) for n in range(len(widths))]
    shared, room = _shared(widths[:-1], width)
    room = room if len(every[0][-1]) <= room else 0
    for line in every:
        line[:] = [
            cell.rjust(wide) if right else cell.ljust(wide)
            for cell, wide, right in zip(line, widths, numbers, strict=True)
        ]
    return "\n".join(text for line in every for text in _told(line, shared, room, width))


def _shared(widths: Sequence[int], width: int) -> tuple[list[list[int]], int]:
    """The columns of each line, as many as fit, and the room that is left on the last line."""
    shared: list[list[int]] = [[]]
    used = 0
    for column, wide in enumerate(widths):
        if shared[-1] and used + wide > width:
            shared.append([])
            used = len(GAP)
        shared[-1].append(column)
        used += wide + len(GAP)
    return shared, width - used


def _told(line: Sequence[str], shared: Sequence[Sequence[int]], room: int, width: int) -> Iterator[str]:
    """The lines of text for one line of the table."""
    last = line[-1].rstrip()
    told = [[line[column] for column in columns] for columns in shared]
    if len(last) <= room:
        told[-1].append(last)
    else:
        told.append([_cut(last, max(1, width - len(GAP)))])
    first, *below = (GAP.join(cells).rstrip() for cells in told)
    yield first
    yield from (GAP + each for each in below if each)


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else f"{cell[: most - 1]}…"


def draws() -> bool:
    """Whether to colour and draw: stdout is a terminal, and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def painted(text: str, colour: str) -> str:
    """The text, in a colour if colours are on."""
    return styled(text, fg=colour) if draws() else text
