"""`tenure delete`: remove rows for good."""

from __future__ import annotations

from .operators import acting

command = acting(
    "delete",
    "Remove rows that nobody holds for good, with their attempts and effects; an ordered key goes on with its next "
    "row. Idempotency keys stay until retention forgets them: a late duplicate is still one.",
)
