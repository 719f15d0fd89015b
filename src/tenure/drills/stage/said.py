"""One event on a stage, whoever reports it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Said(NamedTuple):
    """One thing that happened: when (seconds since the stage was opened), who reports it, and what."""

    at: float
    who: str
    event: str
    fields: dict[str, Any]


def said_by(who: str, at: float, fields: dict[str, Any]) -> Said:
    """An event of a worker's engine; its own field `who` names a connection, and becomes `line`."""
    if "who" in fields:
        fields["line"] = fields.pop("who")
    return Said(at, who, fields.pop("event"), fields)
