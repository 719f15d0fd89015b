"""`tenure redrive`: bring failed rows and dead letters back."""

from __future__ import annotations

from .operators import acting

command = acting("redrive", "Bring failed rows and dead letters back: pending at once, with fresh attempts.")
