"""How long to wait before the next poll or the next connection, so that the workers of a fleet do not act together.

Nothing here is random or reads a clock: `chance` is a random number from 0 to 1 that the caller gives.
"""

from __future__ import annotations

from ..errors import BadSettings

_SPREAD = 0.5  # wide: after a restart of the database the whole fleet connects at once


def jittered(seconds: float, chance: float, spread: float = 0.25) -> float:
    """These seconds, or up to `spread` less; never more, because a promised wait must not get longer."""
    return seconds * (1.0 - spread * chance)


class Pace:
    """The waits between attempts to reach a server: each may be twice as long as the last, up to `most_seconds`."""

    def __init__(self, first_seconds: float = 0.1, most_seconds: float = 3.0) -> None:
        if not 0 < first_seconds <= most_seconds < float("inf"):
            raise BadSettings(
                f"first_seconds={first_seconds!r} must be above 0 and not above most_seconds={most_seconds!r}: "
                "waits double from the first to the most"
            )
        self.first_seconds, self.most_seconds = first_seconds, most_seconds
        self._seconds = first_seconds

    def next(self, chance: float) -> float:
        """How many seconds to wait now: at least half of what this step allows."""
        seconds, self._seconds = self._seconds, min(self._seconds * 2, self.most_seconds)
        return jittered(seconds, chance, _SPREAD)

    def reset(self) -> None:
        """Start again with the shortest wait: the server has answered."""
        self._seconds = self.first_seconds
