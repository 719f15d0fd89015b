"""What strangers can cause is logged seldom: the first lines of a kind each minute, then only their number."""

from __future__ import annotations

import logging
import time

LINES_MAX = 5
SECONDS = 60.0
KINDS_MAX = 100


class Seldom(logging.Filter):
    """Lets through a few lines of each kind a minute; the next one says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[str, tuple[float, int]] = {}  # by message: since when, and how many

    def filter(self, record: logging.LogRecord) -> bool:
        """Is this line among the first of its kind?"""
        kind, now = str(record.msg)[:200], time.monotonic()
        since, n = self._kinds.pop(kind, (now, 0))
        if now - since >= SECONDS:
            if n > LINES_MAX:
                record.msg = f"{record.msg} ({n - LINES_MAX} more like this in {now - since:.0f} s)"
            since, n = now, 0
        self._kinds[kind] = (since, n + 1)
        if len(self._kinds) > KINDS_MAX:
            self._kinds.pop(next(iter(self._kinds)))
        return n < LINES_MAX
