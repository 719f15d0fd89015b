"""One line of doctor: what was looked at, how bad it is, what was measured, and what to do."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Level = Literal["ok", "warn", "fault"]


class Finding(NamedTuple):
    """What was looked at, how bad it is, what was measured, the same in words, and the next step."""

    check: str
    level: Level
    value: Any
    said: str
    next: str = ""


def spoken(seconds: float) -> str:
    """A span of time for people."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
