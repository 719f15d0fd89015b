"""The failures that an attempt has seen, and what its function had asked for when each was recorded.

A redrive tries a failure again unless something is recorded that was asked for later. The order of the numbers does not
say it: calls that are given to parallel as they are, or gathered, have their numbers before the first of them runs.
"""

from __future__ import annotations

from .made_late import made_late
from .undoing import is_undo


class Failures:
    """Where something failed, and the next number of each path."""

    _seen = made_late[dict[tuple[str, int], None]](dict)

    def __init__(self) -> None:
        self.next: dict[str, int] = {}

    def see(self, path: str, n: int) -> None:
        """The function is told of a failure there."""
        self._seen[path, n] = None

    def below(self, path: str) -> bool:
        """Whether it was told of one on this path or below."""
        return any(each == path or each.startswith(f"{path}/") for each, _ in list(self._seen))  # threads add to it

    def asked(self, path: str) -> dict[str, list[int]]:
        """As it is recorded with a failure: the next number of every path from the function itself down to this one."""
        if is_undo(path):
            return {}
        parts = path.split("/") if path else []
        return {"asked": [self.next.get("/".join(parts[:depth]), 0) for depth in range(len(parts) + 1)]}
