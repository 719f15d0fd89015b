"""`tenure release`: take held rows from their holders."""

from __future__ import annotations

from .operators import acting

command = acting(
    "release", "Take held rows from their holders: pending at once, and what a holder still writes is refused."
)
