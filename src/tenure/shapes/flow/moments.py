"""The time as a flow knows it: from its records alone, so that every attempt reads the same clock.

Each path has its own. What other branches do meanwhile does not move it, for they may be faster or slower the next
time: at the join the latest time counts. Records that ride along with another, such as a patch, are written later than
they are asked for, and do not count.
"""

from __future__ import annotations

from collections.abc import Iterable


class Moments:
    """When each path began, and the latest time of what has ended on it."""

    def __init__(self, began_at: float) -> None:
        self._at = {"": began_at}

    def at(self, path: str) -> float:
        """The time there."""
        return self._at.get(path, self._at[""])

    def begin(self, path: str, of: str) -> None:
        """A branch begins, and reads the clock of the path that it is of."""
        self._at[path] = self.at(of)

    def passed(self, path: str, at: float) -> None:
        """Something has ended on this path, and is recorded with this time."""
        if at > self._at.get(path, 0.0):
            self._at[path] = at

    def join(self, path: str, branches: Iterable[str]) -> None:
        """These branches of the path have ended."""
        for each in branches:
            self.passed(path, self.at(each))
