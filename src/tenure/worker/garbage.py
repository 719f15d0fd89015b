"""How often Python looks for garbage in circles: less often while thousands of quick jobs a second go through.

By default it looks whenever 700 objects more were made than have gone, or 2,000. A claim of some hundred rows makes
ten times as many, which all go by themselves when their jobs end: to look through them again and again takes long.

      rows come quickly, and leave no circles behind
    as Python does ──────────────────────────────────▶ less often
      ▲                                                    │
      └────────────────────────────────────────────────────┘
        they come slowly, or it is time to look: the jobs may leave circles by now
"""

from __future__ import annotations

import gc
import time

ROWS = 200  # after so many, see what they were like
QUICK_SECONDS = 0.2  # they were quick if they came in this time
CIRCLES = 20  # objects: with so many found among them, jobs leave circles behind
LOOKS = 10  # one in so many is done as Python does it
OBJECTS = 10_000
PYTHONS = gc.get_threshold()  # when the process began; what an application sets later is its own choice


class Garbage:
    """Told of all rows that are claimed; does nothing until the process is known to be the worker's own."""

    def __init__(self) -> None:
        self.ours = False
        self._rows, self._since = 0, 0.0
        self._found = 0  # in circles, since the process began
        self._looks = 0

    def rows(self, n: int) -> None:
        """So many more were claimed. Threads may overwrite each other: it is an estimate."""
        self._rows += n

    def look(self) -> None:
        """Now and then, also while none is claimed."""
        at = time.monotonic()
        quick = at - self._since <= QUICK_SECONDS
        if not self.ours or (quick and self._rows < ROWS):
            return
        found = sum(generation["collected"] for generation in gc.get_stats())
        clean = found - self._found < CIRCLES
        self._rows, self._since, self._found, self._looks = 0, at, found, self._looks + 1
        if quick and clean and self._looks % LOOKS:
            _change(PYTHONS, (OBJECTS, *PYTHONS[1:]))
        else:
            _change((OBJECTS, *PYTHONS[1:]), PYTHONS)


def _change(old: tuple[int, int, int], new: tuple[int, int, int]) -> None:
    """Unless somebody else has chosen."""
    if gc.get_threshold() == old:
        gc.set_threshold(*new)
