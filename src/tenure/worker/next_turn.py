"""The next turn of the loop: rows that have a slot now begin in it, together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from .attempt import Attempt

TURN_SECONDS = 0.002  # how long one turn of the loop may begin rows: it has more to do


class NextTurn:
    """Used on the loop alone."""

    def __init__(self, begin: Callable[[list[Attempt]], None], over: Callable[[], None]) -> None:
        self._begin, self._over = begin, over
        self._attempts: list[Attempt] = []
        self._asked = False

    def add(self, attempt: Attempt) -> None:
        """This one begins in the next turn."""
        self._attempts.append(attempt)
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        """Begin them; those of handlers that return at once are followed by others."""
        until = time.monotonic() + TURN_SECONDS
        while self._attempts and time.monotonic() < until:
            attempts, self._attempts = self._attempts, []
            self._begin(attempts)
            self._over()
        self._asked = bool(self._attempts)
        if self._asked:
            asyncio.get_running_loop().call_soon(self._take)
