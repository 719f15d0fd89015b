"""`tenure cancel`: end rows that need not run any more."""

from __future__ import annotations

from .operators import acting

command = acting("cancel", "End pending rows as cancelled and ask the holders of running ones to stop.")
