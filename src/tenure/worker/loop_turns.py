"""Turns of the loop: coroutines begin in one, and what ends in one is handed to the claimer together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from .attempt import Attempt
from .news import News


class LoopTurns:
    """Used on the loop's own thread alone."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._ending = False  # the claimer will be told when this turn is over

    def begin(self, attempt: Attempt, coro: Coroutine[Any, Any, None], stop: Callable[..., object]) -> None:
        """Run this in a task; `stop` calls something on the loop, from any thread."""
        running = begun(coro, asyncio.get_running_loop())
        if not running.done():
            attempt.stop = partial(stop, running.cancel)
            if attempt.job.lost or attempt.job.cancel_asked:  # asked to stop before there was a way
                attempt.ask_to_stop()

    def ended(self, attempt: Attempt) -> None:
        """The claimer learns it now; it need not hurry before the turn is over."""
        self._news.ended(attempt, goes_on=True)
        if not self._ending:
            self._ending = True
            asyncio.get_running_loop().call_soon(self._over)

    def _over(self) -> None:
        self._ending = False
        self._news.hurry()


def begun(coro: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
    """A task for this coroutine. From Python 3.12 on it has run up to its first wait: most never wait."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coro, loop=loop, eager_start=True)
    return loop.create_task(coro)
