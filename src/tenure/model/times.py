"""Times: the first and the last that a calendar has (what lies beyond, as infinity in the database, is read as these),
and how a time is said to people.
"""

from __future__ import annotations

from datetime import UTC, datetime

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def from_epoch(seconds: float) -> datetime:
    """The time so many seconds after 1970, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return FIRST if seconds < 0 else LAST


def day_and_time(at: datetime, *, clock: str = "%H:%M:%S") -> str:
    """A time for people, in its own zone: with its year, unless that is the current one."""
    year = "" if at.year == datetime.now(at.tzinfo).year else " %Y"
    return at.strftime(f"%d %b{year} {clock}")
