"""Turns of the loop: coroutines begin in one, and what ends in one is handed to the claimer together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from .attempt import Attempt
from .held import HeldAttempts
from .news import News
from .next_turn import NextTurn

begun: Callable[..., asyncio.Task[None]] = asyncio.Task
if sys.version_info >= (3, 12):
    begun = partial(asyncio.Task, eager_start=True)  # it has run up to its first wait: most never wait


class LoopTurns:
    """Used on the loop's own thread alone."""

    def __init__(
        self,
        held: HeldAttempts,
        news: News,
        begin: Callable[[list[Attempt]], None],
        elsewhere: Callable[[list[Attempt]], None],
        call_on_loop: Callable[..., object],
    ) -> None:
        self._held, self._news, self._elsewhere, self._call_on_loop = held, news, elsewhere, call_on_loop
        self._next_turn = NextTurn(begin, self.over)
        self._ended: list[Attempt] = []  # in this turn

    def begin(self, attempt: Attempt, coro: Coroutine[Any, Any, None]) -> None:
        """Run this in a task."""
        running = begun(coro, loop=asyncio.get_running_loop())
        if not running.done():
            attempt.call_on_loop, attempt.task = self._call_on_loop, running
            if attempt.job.lost or attempt.job.cancel_asked:  # asked to stop before there was a way
                attempt.ask_to_stop()

    def ended(self, attempt: Attempt) -> None:
        """The claimer learns it now, and need not hurry before the turn is over; then its slot is passed on."""
        self._ended.append(attempt)
        self._news.ended(attempt, goes_on=True)
        if len(self._ended) == 1:
            asyncio.get_running_loop().call_soon(self.over)

    def over(self) -> None:
        """The slots of what has ended so far are passed on together."""
        if self._ended:
            ended, self._ended = self._ended, []
            following = self._held.next_after(*ended)
            self._news.hurry()
            self.follow(following)

    def follow(self, attempts: list[Attempt]) -> None:
        """These have slots now: they begin in the next turn, without the way round by a thread."""
        for each in attempts:
            if each.handler is None or each.handler.handling.pool != "loop":
                self._elsewhere([each])
            else:
                self._next_turn.add(each)
