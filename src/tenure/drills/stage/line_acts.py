"""Acts on the stage itself: cut and heal the workers' line to the database, change its props."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from .act import Act

if TYPE_CHECKING:
    from .stage import Stage

Seconds = Annotated[float, Meta(ge=0, le=60)]
LeaseSeconds = Annotated[float, Meta(ge=1, le=60)]


class Cut(Act, frozen=True):
    """Cut the line between the workers and the database."""

    def do(self, stage: Stage) -> None:
        """Reset every connection, and refuse new ones."""
        stage.line.refuse()
        stage.line.cut()
        stage.say("drill", "database_cut")


class Heal(Act, frozen=True):
    """Let the workers reach the database again."""

    def do(self, stage: Stage) -> None:
        """Let connections through again."""
        stage.line.heal()
        stage.say("drill", "database_healed")


class Set(Act, frozen=True):
    """Change the props of the stage; a new lease time is for workers that start from now on."""

    lease_seconds: LeaseSeconds | None = None
    handler_seconds: Seconds | None = None
    dedupe: bool | None = None

    def do(self, stage: Stage) -> None:
        """Handlers read the props when they start."""
        stage.set(lease_seconds=self.lease_seconds, handler_seconds=self.handler_seconds, dedupe=self.dedupe)
