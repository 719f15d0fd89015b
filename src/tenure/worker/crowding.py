"""Whether so many claim at once that they are in each other's way: then a claim has a trip of its own, and a turn."""

from __future__ import annotations

from dataclasses import dataclass

# Eight sessions on two cores stay below: a trip of its own would cost them more than they pass over.
TRIP_SECONDS = 0.05
ROW_SECONDS = 0.0002  # a few times what a row takes where nobody is in the way


@dataclass(slots=True)
class Crowd:
    """Told by how long claims take. While claims wait for places they take long: it lasts as long as that.

            a claim took long for its rows
    thin ──────────────────────────────────▶ thick
      ▲                                        │
      └────────────────────────────────────────┘
            a claim was quick
    """

    is_thick: bool = False

    def answered(self, rows: int, seconds: float) -> None:
        """A claim, with what shared its trip, has brought so many rows."""
        self.is_thick = seconds > TRIP_SECONDS + ROW_SECONDS * rows
