"""Where handlers run: coroutines on the loop, plain functions in threads, CPU-bound ones in processes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ..app.handler import Handler
from ..app.job import Job
from ..errors import Cancelled, StaleLease
from ..events import ExecutionStarted, HandlerOverran, StaleWriteBlocked
from ..model.outcome import DeadLetter, Outcome, Release, Retry, Snooze
from ..telemetry.tracing import Span
from .db_thread import Crew
from .outcomes import Poison, arguments, as_outcome, said
from .processes import Children, Errand, Unbegun, whereabouts

TURNED_AWAY_SECONDS = 10.0  # for how long a row is out of the way that this worker cannot run
UNBEGUN_SECONDS = 0.5
LATER_SECONDS_MAX = 600.0
OUR_OWN = ("lease_expired", "presence_lost", "drained")  # reasons to stop that the database has not confirmed

Settle = Callable[[Job, Outcome | None], None]


class Pools:
    """Starts jobs and sees to it that each ends in exactly one outcome, whatever its handler does."""

    def __init__(self, crew: Crew, settle: Settle, free: Callable[[Job], None]) -> None:
        self._slots, self._url, self._bus = crew.terms.slots, crew.terms.url, crew.bus
        self._crew, self._settle, self._free = crew, settle, free
        self._lock = threading.Lock()  # who ends a job: its handler, or we without it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._children = Children()

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Coroutines run on this loop, and so does the clock of all others."""
        self._loop = loop

    def start(self, jobs: list[Job]) -> None:
        """Start these, each where it belongs; called on the desk's thread."""
        on_loop = []
        for job in jobs:
            if job.handler is None:
                self._turn_away(job, f"no handler for kind {job.kind!r} in this worker")
            elif job.handler.handling.pool == "loop":
                on_loop.append(job)
            else:
                self._in_thread(job, job.handler)
        if on_loop and not self._call_on_loop(self._on_loop, on_loop):
            for job in on_loop:
                self._turn_away(job, "its worker was stopped")

    def _in_thread(self, job: Job, handler: Handler[..., Any]) -> None:
        try:
            if handler.handling.pool == "process":
                whereabouts(handler)
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._slots, thread_name_prefix="tenure-handler")
            self._threads.submit(self._run_plain, job, handler)
        except Exception as error:  # a handler that no process could find, or no thread is to be had
            self._turn_away(job, str(error))

    def _turn_away(self, job: Job, why: str) -> None:
        job.lost = "drained"  # should it be started after all
        self._end(job, _later(job, TURNED_AWAY_SECONDS, why))

    # -- on the loop

    def _call_on_loop(self, function: Callable[..., object], *args: Any) -> bool:
        """From any thread; False when the loop is closed, and this worker at its end."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return False
        return True

    def _on_loop(self, jobs: list[Job]) -> None:
        assert self._loop is not None
        for job in jobs:
            asking = self._loop.create_task(self._attend(job))
            job.stop = partial(self._call_on_loop, asking.cancel)

    async def _attend(self, job: Job) -> None:
        """Carry one coroutine to its end; a CancelledError is ours if we had a reason, else the handler's own."""
        with self._span(job) as span:
            try:
                handler = self._begin(job)
                self._set_timer(job)
                args, fields = arguments(handler, job)
                job.check()  # as below; cancelling what has not begun would skip its end, and keep its slot for ever
                outcome: Outcome | None = as_outcome(await handler.function(*args, **fields))
            except BaseException as error:  # SystemExit and the like end the attempt, not the worker
                outcome = self._of_error(job, error)
                span.ended(outcome, error)
            else:
                span.ended(outcome)
        self._end(job, outcome)

    # -- in threads, which for a handler in a process just wait

    def _run_plain(self, job: Job, handler: Handler[..., Any]) -> None:
        with self._span(job) as span:
            try:
                self._begin(job)
                if handler.handling.pool == "process":
                    outcome: Outcome | None = self._in_child(job, handler)
                else:
                    self._set_timer(job)
                    args, fields = arguments(handler, job)
                    job.check()  # a slow start may have cost the lease
                    outcome = as_outcome(handler.function(*args, **fields))
            except BaseException as error:
                outcome = self._of_error(job, error)
                span.ended(outcome, error)
            else:
                span.ended(outcome)
        self._end(job, outcome)

    def _in_child(self, job: Job, handler: Handler[..., Any]) -> Outcome:
        def started(at: float) -> None:
            job.started = at
            self._set_timer(job)

        with self._children.lent() as child:
            job.stop = partial(child.tell, job)
            where, carried = whereabouts(handler), handler.tracing.carried()
            errand = Errand(*where, job.claimed, self._url, job.schema, job.accept_late, carried)
            ended, job.settled = child.run(job, errand, started)
        if isinstance(ended, partial):
            raise ended()
        return ended

    # -- when time is up

    def _set_timer(self, job: Job) -> None:
        if seconds := _timeout_seconds(job):
            self._call_on_loop(self._arm, job, seconds)

    def _arm(self, job: Job, seconds: float) -> None:
        if self._loop is not None and not job.ended:
            job.timer = self._loop.call_later(seconds, self._overrun, job)

    def _overrun(self, job: Job) -> None:
        """The row goes on without this handler, which is asked to stop and keeps its slot until it does."""
        seconds = _timeout_seconds(job)
        if job.lost or not self.let_go(job, Retry(f"timed out after {seconds:g} s")):
            return
        job.lost = "timed_out"
        if job.stop is not None:
            job.stop()
        self._bus.emit(HandlerOverran(self._crew.worker, job.id, job.token, job.kind, seconds))

    def let_go(self, job: Job, outcome: Outcome) -> bool:
        """Settle a row before its handler has ended; False if the handler was faster."""
        with self._lock:
            if job.ended or job.overran:
                return False
            job.overran = True
        self._settle(job, outcome)
        return True

    # -- the same for all

    def _span(self, job: Job) -> Span:
        """The attempt as a span: current for the handler, and what its settling will hang on."""
        span = self._crew.tracing.processing(self._crew.worker, job.claimed)
        job.trace = span.context
        return span

    def _begin(self, job: Job) -> Handler[..., Any]:
        job.started = time.monotonic()
        if self._bus.each_job:
            self._bus.emit(ExecutionStarted(self._crew.worker, job.id, job.token, job.kind, job.queue))
        assert job.handler is not None
        return job.handler

    def _end(self, job: Job, outcome: Outcome | None) -> None:
        """The handler has returned. If its row was settled before it did, only its slot is left to free."""
        with self._lock:
            if job.ended:
                return
            job.ended = True
        if _timeout_seconds(job):
            self._call_on_loop(_disarm, job)
        self._free(job) if job.overran else self._settle(job, outcome)

    def _of_error(self, job: Job, error: BaseException) -> Outcome | None:
        if isinstance(error, StaleLease) and error.verb in ("enter", "complete"):
            told = (error.current, error.reason, error.verb)
            self._bus.emit(StaleWriteBlocked(self._crew.worker, job.id, job.token, *told))
        if isinstance(error, StaleLease) or (job.lost and isinstance(error, asyncio.CancelledError)):
            # Never a failure of the job. Where only we ourselves spoke, the row may still be ours to give back.
            return Release() if job.lost in OUR_OWN else None
        if isinstance(error, Cancelled) or job.cancel_asked:
            return Release("cancelled on request")
        if isinstance(error, Poison):
            return DeadLetter(str(error))
        if isinstance(error, Unbegun):
            return _later(job, UNBEGUN_SECONDS, str(error))
        return Retry(said(error))

    def close(self) -> None:
        """Take no more; what still runs is not waited for, and in a child it ends."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._children.close()


def _later(job: Job, seconds: float, why: str) -> Snooze:
    """At no cost, but longer each time: what nobody can start must not be handed round for ever."""
    return Snooze(min(LATER_SECONDS_MAX, seconds * 2 ** min(job.token - 1, 10)), why)


def _timeout_seconds(job: Job) -> float:
    return (job.handler and job.handler.handling.timeout_seconds) or 0.0


def _disarm(job: Job) -> None:
    if job.timer is not None:
        job.timer.cancel()
