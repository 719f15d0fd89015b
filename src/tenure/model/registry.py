"""What a worker says of itself in the registry: whoever may write there may write anything, and all read it."""

from __future__ import annotations

from typing import Any

import msgspec

_NUMBERS = ("slots", "slots_used", "pid", "migration")
_TEXTS = ("version", "host", "wakeup")
_LISTS = ("queues", "kinds", "inboxes")


def facts_of(metadata: str) -> dict[str, Any]:
    """The facts as their readers expect them; one that is of another type is left out, as if it were not said."""
    try:
        said = msgspec.json.decode(metadata)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {name: fact for name, fact in said.items() if _is_sane(name, fact)} if isinstance(said, dict) else {}


def _is_sane(name: str, fact: object) -> bool:
    if name in _NUMBERS:
        return isinstance(fact, int) and not isinstance(fact, bool)
    if name in _TEXTS:
        return isinstance(fact, str)
    if name in _LISTS:
        return isinstance(fact, list) and all(isinstance(each, str) for each in fact)
    return True
