"""How often Python looks for garbage in circles: less often while thousands of quick jobs a second go through.

By default it looks whenever 700 objects more were made than have gone. A claim of some hundred rows makes ten times
as many, which all go by themselves when their jobs end: to look through them again and again is a sixth of the time.
Handlers that leave circles of large objects behind take longer than these, and are looked after as usual.
"""

from __future__ import annotations

import gc
import time

ROWS = 200  # after so many, see how long they took
ROWS_A_SECOND = 1000  # from here on they are quick
OBJECTS = 10_000


class Garbage:
    """Told of all rows that are claimed; does nothing until the process is known to be the worker's own."""

    def __init__(self) -> None:
        self.ours = False
        self._rows, self._since = 0, 0.0
        self._usual: tuple[int, int, int] | None = None  # while it looks less often

    def rows(self, n: int) -> None:
        """So many rows more. Threads may overwrite each other: it is an estimate."""
        self._rows += n
        if self._rows < ROWS or not self.ours:
            return
        at = time.monotonic()
        quick = self._rows >= ROWS_A_SECOND * (at - self._since)
        self._rows, self._since = 0, at
        if quick != (self._usual is not None):
            self._look_less() if quick else self._look_as_usual()

    def _look_less(self) -> None:
        objects, *others = usual = gc.get_threshold()
        if 0 < objects < OBJECTS:  # else somebody has chosen: none at all, or even less often
            gc.set_threshold(OBJECTS, *others)
            self._usual = usual

    def _look_as_usual(self) -> None:
        if self._usual is not None and gc.get_threshold()[0] == OBJECTS:  # else somebody has chosen meanwhile
            gc.set_threshold(*self._usual)
        self._usual = None
