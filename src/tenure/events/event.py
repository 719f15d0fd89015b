"""What every event is: a name, a level, and fields that become one flat record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `name` is what logs and metrics call it, `level` how much it matters."""

    name: ClassVar[str] = "event"
    level: ClassVar[str] = "info"

    @property
    def news(self) -> bool:
        """True if it is worth a line in a log; False if it is only counted."""
        return True

    def fields(self) -> dict[str, Any]:
        """The event as a flat record, ready for JSON."""
        values = asdict(self)
        return {"event": self.name, **{k: str(v) if isinstance(v, UUID) else v for k, v in values.items()}}
