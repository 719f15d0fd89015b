"""One finding of doctor: the check, how bad it is, what was measured, and what to do."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Level = Literal["ok", "warn", "fault"]


class Finding(NamedTuple):
    """The check, how bad it is, what was measured, the same in words, and the next step."""

    check: str
    level: Level
    value: Any
    said: str
    next: str = ""
