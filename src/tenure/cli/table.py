"""Plain columns: aligned for people, split by spaces for tools; colour only where somebody looks."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A head and its lines, each column as wide as its widest cell."""
    every = [head, *lines]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in every
    )


def painted(text: str, colour: str) -> str:
    """The text in a colour, if stdout is a terminal and nobody said NO_COLOR."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=colour)
