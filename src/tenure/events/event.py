"""What every event is: a name, a level, and fields that become one flat record."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, ClassVar
from uuid import UUID

AT_AN_INBOX = re.compile(r"-[0-9a-f]{8}@([a-z0-9][a-z0-9_-]*)$")  # how the id of a worker of several inboxes ends


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
        values = {k: str(v) if isinstance(v, UUID) else v for k, v in asdict(self).items()}
        if at := AT_AN_INBOX.search(str(values.get("worker", ""))):
            values["inbox"] = at.group(1)
        return {"event": self.name, **values}
