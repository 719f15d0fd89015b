"""When a schedule fires: a cron expression by the clock of a zone, and what happens to ticks that were missed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from ..errors import BadSettings

_NAMED = ("zone", "misfire", "tick_as")


class Tick:
    """The value of a field that is to have the time of the tick."""

    def __repr__(self) -> str:
        return "TICK"


TICK: Any = Tick()


@dataclass(frozen=True, slots=True)
class Cron:
    """`Cron("30 2 * * *", zone="Europe/Berlin", misfire="skip")`."""

    text: str
    zone: str = "UTC"
    misfire: Literal["once", "skip", "all"] = "once"
    tick_as: str | None = None  # the field that has the time of the tick; TICK as its value says the same


def cron_of(cron: str | Cron, fields: dict[str, Any]) -> tuple[Cron, dict[str, Any]]:
    """When, and the fields that are left: without those that say when, and without the one that is TICK."""
    if isinstance(cron, Cron):
        when, left = cron, fields
    else:
        when = Cron(cron, **{name: fields[name] for name in _NAMED if name in fields})
        left = {name: value for name, value in fields.items() if name not in _NAMED}
    ticking = [name for name, value in left.items() if value is TICK]
    if not ticking:
        return when, left
    if len(ticking) > 1 or when.tick_as is not None:
        both = ", ".join([*ticking, *([when.tick_as] if when.tick_as else [])])
        raise BadSettings(f"the time of the tick goes to one field, not to {both}: leave the others out")
    return replace(when, tick_as=ticking[0]), {name: value for name, value in left.items() if value is not TICK}
