"""What is said on a stage: one value for everything that happens, whoever reports it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Said(NamedTuple):
    """One thing that happened: when (seconds since the stage was opened), who says so, and what."""

    at: float
    who: str
    event: str
    fields: dict[str, Any]


def said_by(who: str, at: float, fields: dict[str, Any]) -> Said:
    """An engine event in the feed: who speaks there is the worker, not that line of its own which an event names."""
    if "who" in fields:
        fields["line"] = fields.pop("who")
    return Said(at, who, fields.pop("event"), fields)
