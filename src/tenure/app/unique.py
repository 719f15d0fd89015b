"""Unique rows: while one is pending, another like it is a duplicate. What is alike: the arguments, or the key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ..errors import BadSettings, InvalidPayload
from ..model.limits import DELAY_SECONDS_MAX


@dataclass(frozen=True, slots=True)
class Unique:
    """By arguments or by key; with seconds, also for so long after a row was sent, whatever has become of it."""

    by: Literal["arguments", "key"] = "arguments"
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.by not in ("arguments", "key"):
            raise BadSettings(f"unique by {self.by!r} is not known: choose from arguments, key")
        number = isinstance(self.seconds, int | float) and not isinstance(self.seconds, bool)
        if not number or not 0 <= self.seconds <= DELAY_SECONDS_MAX:
            raise BadSettings(f"unique for seconds={self.seconds!r} must be between 0 and {DELAY_SECONDS_MAX:.0f}")

    def options(self, kind: str, sent: Any, key: str | None) -> dict[str, Any]:
        """The options of a row that make it unique."""
        if self.by == "key" and key is None:
            raise InvalidPayload(f"{kind!r} is unique by key and this row has none: give it one, or by='arguments'")
        alike = key if self.by == "key" else msgspec.to_builtins(sent)
        digest = hashlib.sha256(msgspec.json.encode(alike, order="deterministic")).hexdigest()
        name = f"unique:{kind[:120]}:{self.by}:{digest}"
        return {"idempotency_key": name, "again": "after_start", "again_seconds": float(self.seconds)}


def check_unique(kind: str, unique: Any, *, keyless: bool, encrypted: bool) -> Unique | None:
    """What was asked for, or BadSettings."""
    if unique is None:
        return None
    found = Unique() if unique == "pending" else unique
    if not isinstance(found, Unique):
        raise BadSettings(f"handler {kind!r} has unique={unique!r}: write unique='pending', or Unique(by='key')")
    if found.by == "key" and keyless:
        raise BadSettings(f"handler {kind!r} is unique by key and has no key: give it one, e.g. 'order:{{order_id}}'")
    if found.by == "arguments" and encrypted:
        raise BadSettings(
            f"handler {kind!r} is unique by its arguments, which are encrypted: their digest would stand in clear; "
            "write Unique(by='key')"
        )
    return found
