"""When a flow looks again at what it waits for: in so many seconds, or when the loop had a turn."""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from contextlib import AbstractContextManager
from typing import Any

from .core import Core

TURNS = 10  # of the loop before a park, at most: as long as calls are made that have not begun


class LookingAgain:
    """By the loop, or by a timer in a thread of its own."""

    _loop: AbstractEventLoop | None
    _lock: AbstractContextManager[Any]
    _core: Core
    _timer: Any = None  # until the next look
    _turning = False  # a look follows in the next turn of the loop

    def _look(self, turns: int = TURNS) -> None:
        raise NotImplementedError

    def _look_in_turn(self, loop: AbstractEventLoop, turns: int) -> None:
        """When the loop had a turn: a task of the author's own begins in it, and may be at work then."""
        if not self._turning:
            self._turning = True
            loop.call_soon(self._turned, turns)

    def _turned(self, turns: int) -> None:
        self._turning = False
        with self._lock:
            self._look(turns if self._core.unbegun else 0)

    def _look_in(self, seconds: float) -> None:
        self._no_look()
        if self._loop is not None:
            self._timer = self._loop.call_later(seconds, self._in_time)
        else:
            self._timer = threading.Timer(seconds, self._in_time)
            self._timer.daemon = True
            self._timer.start()

    def _no_look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _in_time(self) -> None:
        with self._lock:
            self._look()
