"""`tenure retry`: let rows that wait for their time run now."""

from __future__ import annotations

from .operators import acting

command = acting("retry", "Let pending rows that wait, for a backoff or for a date, run now.")
