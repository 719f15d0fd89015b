"""What happens to projections: they advance, stop at an event, and are swapped for what was rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .event import Event


@dataclass(frozen=True, slots=True)
class ProjectionAdvanced(Event):
    """A shard of a projection has applied events and moved its checkpoint, in one transaction."""

    name: ClassVar[str] = "projection_advanced"
    level: ClassVar[str] = "debug"
    projection: str
    shard: int
    position: int
    events: int


@dataclass(frozen=True, slots=True)
class ProjectionStopped(Event):
    """A shard could not apply an event: it waits for an operator, or, where that is the rule, has skipped it."""

    name: ClassVar[str] = "projection_stopped"
    level: ClassVar[str] = "error"
    projection: str
    shard: int
    position: int
    error: str
    skipped: bool


@dataclass(frozen=True, slots=True)
class ProjectionSwapped(Event):
    """The tables of a projection were rebuilt and took the place of the old ones."""

    name: ClassVar[str] = "projection_swapped"
    level: ClassVar[str] = "info"
    projection: str
    position: int
    how: str
