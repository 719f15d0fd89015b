"""When the time of a handler is up: its row is retried without it, and it is asked to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..events import HandlerOverran
from ..model.outcome import Outcome, Retry
from .attempt import Attempt
from .shared import Shared

STUBBORN_SECONDS = 10.0  # how long after its timeout a process may take to stop


class Overruns:
    """The timers of attempts, on the loop."""

    def __init__(self, shared: Shared, let_go: Callable[[Attempt, Outcome], bool]) -> None:
        self._shared, self._let_go = shared, let_go

    def arm(self, attempt: Attempt) -> None:
        """Begin to count; on the loop, when its handler was called."""
        if not attempt.handler_returned:
            loop = asyncio.get_running_loop()
            attempt.timer = loop.call_later(attempt.timeout_seconds, self._overrun, attempt, loop)

    def _overrun(self, attempt: Attempt, loop: asyncio.AbstractEventLoop) -> None:
        """Its slot stays taken until the handler stops. A process that does not is killed; nothing ends a thread."""
        job, seconds = attempt.job, attempt.timeout_seconds
        if job.lost or not self._let_go(attempt, Retry(f"timed out after {seconds:g} s")):
            return
        attempt.lose("timed_out")
        attempt.ask_to_stop()
        if attempt.kill is not None:
            loop.call_later(STUBBORN_SECONDS, _kill, attempt)
        self._shared.bus.emit(HandlerOverran(self._shared.worker_id, job.id, job.token, job.kind, seconds))


def _kill(attempt: Attempt) -> None:
    if attempt.kill is not None and not attempt.handler_returned:
        attempt.kill()
