"""The first and the last time that a calendar has; what lies beyond, as infinity in the database, is read as these."""

from __future__ import annotations

from datetime import UTC, datetime

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def from_epoch(seconds: float) -> datetime:
    """The time so many seconds after 1970, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return FIRST if seconds < 0 else LAST
