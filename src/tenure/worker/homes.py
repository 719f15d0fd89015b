"""Which of several inboxes is the home of a name: the same for every worker, and few names move with a change."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


def home_of(name: str, inboxes: Iterable[str]) -> str:
    """The inbox with the greatest weight for this name."""
    return max(inboxes, key=lambda inbox: blake2b(f"{inbox}\0{name}".encode(), digest_size=8).digest())
