"""How long to wait before the next look or the next connection, so that a fleet does not move in step.

Nothing here draws chance or reads a clock: `chance` is a number from 0 up to 1 that the caller draws.
"""

from __future__ import annotations

from ..errors import BadSettings

_SPREAD = 0.5  # wide: after a restart of the database the whole fleet knocks at once


def jittered(seconds: float, chance: float, spread: float = 0.25) -> float:
    """Up to `spread` less than these seconds, never more: a wait that was promised to end is not drawn out."""
    return seconds * (1.0 - spread * chance)


class Pace:
    """The waits between attempts to reach a server: each may be twice as long as the last, up to `most_seconds`."""

    def __init__(self, first_seconds: float = 0.1, most_seconds: float = 5.0) -> None:
        if not 0 < first_seconds <= most_seconds < float("inf"):
            raise BadSettings(
                f"first_seconds={first_seconds!r} must be above 0 and not above most_seconds={most_seconds!r}: "
                "waits double from the first to the most"
            )
        self.first_seconds, self.most_seconds = first_seconds, most_seconds
        self._seconds = first_seconds

    def next(self, chance: float) -> float:
        """How many seconds to wait now: at least half of what this step allows, so never nothing."""
        seconds, self._seconds = self._seconds, min(self._seconds * 2, self.most_seconds)
        return jittered(seconds, chance, _SPREAD)

    def reset(self) -> None:
        """Begin again with the shortest wait: the server has answered."""
        self._seconds = self.first_seconds
