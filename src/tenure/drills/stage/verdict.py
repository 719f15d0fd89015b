"""The verdict of a drill: its assertions and whether they held, for terminals, pipes and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """One assertion: a name for programs, a sentence for people."""

    name: str
    sentence: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the drill showed; `trouble` is set if it could not be played to its end."""

    drill: str
    shown: str
    checks: tuple[Check, ...]
    seconds: float
    trouble: str | None = None

    @property
    def ok(self) -> bool:
        """True when every assertion held, and there was one."""
        return self.trouble is None and bool(self.checks) and all(check.ok for check in self.checks)

    def fields(self) -> dict[str, Any]:
        """The verdict as a flat record, ready for JSON."""
        record: dict[str, Any] = {
            "drill": self.drill,
            "ok": self.ok,
            "shown": self.shown if self.ok else None,
            "assertions": {check.name: check.ok for check in self.checks},
            "seconds": round(self.seconds, 3),
        }
        return record | ({"trouble": self.trouble} if self.trouble else {})
