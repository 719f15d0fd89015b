"""Where handlers run: coroutines on the loop, plain functions in threads, CPU-bound ones in processes."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from .errors import Cancelled, InvalidPayload, StaleLease
from .events import ExecutionStarted, HandlerOverran, StaleWriteBlocked
from .handler import Handler
from .job import Job
from .lender import Lender
from .line import Crew
from .model import Claimed
from .outcome import COMPLETED, Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze

UNKNOWN_KIND_SECONDS = 10.0
OUR_OWN = ("lease_expired", "presence_lost", "drained")  # reasons to stop that the database has not confirmed
_OUTCOMES = (Completed, Retry, Snooze, Fail, DeadLetter, Release)

Settle = Callable[[Job, Outcome | None], None]


class Pools:
    """Starts jobs and sees to it that each ends in exactly one outcome, whatever its handler does."""

    def __init__(self, crew: Crew, settle: Settle, free: Callable[[Job], None]) -> None:
        self._slots, self._url, self._bus = crew.terms.slots, crew.terms.url, crew.bus
        self._crew, self._settle, self._free = crew, settle, free
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._processes: ProcessPoolExecutor | None = None

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Coroutines run on this loop."""
        self._loop = loop

    def start(self, jobs: list[Job]) -> None:
        """Start these, each where it belongs; called on the desk's thread."""
        on_loop = []
        for job in jobs:
            if job.handler is None:
                self._end(job, Snooze(UNKNOWN_KIND_SECONDS, f"no handler for kind {job.kind!r} in this worker"))
            elif job.handler.handling.pool == "loop":
                on_loop.append(job)
            elif job.handler.handling.pool == "thread":
                self._in_thread(job)
            else:
                self._in_process(job)
        if on_loop and self._loop is not None:
            self._loop.call_soon_threadsafe(self._on_loop, on_loop)

    # -- on the loop

    def _on_loop(self, jobs: list[Job]) -> None:
        assert self._loop is not None
        for job in jobs:
            asking = self._loop.create_task(self._attend(job))
            job.stop = _Stop(self._loop, asking)

    async def _attend(self, job: Job) -> None:
        """Carry one coroutine to its end; a CancelledError is ours if we had a reason, else the handler's own."""
        handler = self._begin(job)
        timer = self._set_timer(job, handler)
        try:
            args, fields = _arguments(handler, job)
            job.check()  # as below; cancelling what has not begun would skip its end, and keep its slot for ever
            outcome: Outcome | None = as_outcome(await handler.function(*args, **fields))
        except BaseException as error:  # SystemExit and the like end the attempt, not the worker
            outcome = self._of_error(job, error)
        if timer is not None:
            timer.cancel()
        self._end(job, outcome)

    def _set_timer(self, job: Job, handler: Handler[..., Any]) -> asyncio.TimerHandle | None:
        if handler.handling.timeout_seconds is None or self._loop is None:
            return None
        return self._loop.call_later(handler.handling.timeout_seconds, self._overrun, job)

    # -- in threads and processes

    def _in_thread(self, job: Job) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._slots, thread_name_prefix="tenure-handler")
        self._threads.submit(self._run_plain, job)

    def _run_plain(self, job: Job) -> None:
        handler = self._begin(job)
        timer = self._set_alarm(job, handler)
        try:
            args, fields = _arguments(handler, job)
            job.check()  # a slow start may have cost the lease
            outcome: Outcome | None = as_outcome(handler.function(*args, **fields))
        except BaseException as error:
            outcome = self._of_error(job, error)
        if timer is not None:
            timer.cancel()
        self._end(job, outcome)

    def _in_process(self, job: Job) -> None:
        handler = self._begin(job)
        timer = self._set_alarm(job, handler)

        def ended(future: Future[Any]) -> None:
            if timer is not None:
                timer.cancel()
            self._end(job, self._of_future(job, future))

        try:
            self._process_pool().submit(
                run_in_process,
                handler.function.__module__,
                handler.function.__qualname__,
                job.claimed,
                self._url,
                job.schema,
            ).add_done_callback(ended)
        except BrokenExecutor:
            self._processes = None
            self._end(job, Retry("the process it was to run in had died"))

    def _process_pool(self) -> ProcessPoolExecutor:
        if self._processes is None:
            self._processes = ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))
        return self._processes

    def _of_future(self, job: Job, future: Future[Any]) -> Outcome | None:
        try:
            return as_outcome(future.result())
        except BrokenExecutor as error:
            self._processes = None
            return Retry(f"the process it ran in died: {error}")
        except BaseException as error:
            return self._of_error(job, error)

    def _set_alarm(self, job: Job, handler: Handler[..., Any]) -> threading.Timer | None:
        if handler.handling.timeout_seconds is None:
            return None
        timer = threading.Timer(handler.handling.timeout_seconds, self._overrun, [job])
        timer.daemon = True
        timer.start()
        return timer

    # -- the same for all

    def _begin(self, job: Job) -> Handler[..., Any]:
        job.started = time.monotonic()
        if self._bus.each_job:
            self._bus.emit(ExecutionStarted(self._crew.worker, job.id, job.token, job.kind, job.queue))
        assert job.handler is not None
        return job.handler

    def _end(self, job: Job, outcome: Outcome | None) -> None:
        """The handler has returned. If its row was settled before it did, only its slot is left to free."""
        job.ended = True
        if job.overran:
            self._free(job)
        else:
            self._settle(job, outcome)

    def _overrun(self, job: Job) -> None:
        """Time is up: the row goes on without this handler, which is asked to stop and keeps its slot until it does."""
        if job.ended or job.lost or job.handler is None:
            return
        seconds = job.handler.handling.timeout_seconds or 0.0
        job.overran, job.lost = True, "timed_out"
        self._bus.emit(HandlerOverran(self._crew.worker, job.id, job.token, job.kind, seconds))
        self._settle(job, Retry(f"timed out after {seconds:g} s"))
        if job.stop is not None:
            job.stop()

    def _of_error(self, job: Job, error: BaseException) -> Outcome | None:
        if isinstance(error, StaleLease) and error.verb in ("enter", "complete"):
            told = (error.current, error.reason, error.verb)
            self._bus.emit(StaleWriteBlocked(self._crew.worker, job.id, job.token, *told))
        if isinstance(error, StaleLease) or (job.lost and isinstance(error, asyncio.CancelledError)):
            # Never a failure of the job. Where only we ourselves spoke, the row may still be ours to give back.
            return Release() if job.lost in OUR_OWN else None
        if isinstance(error, Cancelled) or job.cancel_asked:
            return Release("cancelled on request")
        if isinstance(error, _Poison):
            return DeadLetter(str(error))
        return Retry(said(error))

    def close(self) -> None:
        """Take no more; what still runs is not waited for."""
        for pool in (self._threads, self._processes):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)


class _Poison(Exception):
    """This row's payload does not fit its handler: trying again is of no use."""


def _arguments(handler: Handler[..., Any], job: Job) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        return handler.arguments(job)
    except InvalidPayload as error:
        raise _Poison(str(error)) from None


class _Stop:
    """Cancels a coroutine from any thread."""

    __slots__ = ("_asking", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, asking: asyncio.Task[None]) -> None:
        self._loop, self._asking = loop, asking

    def __call__(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._asking.cancel)
        except RuntimeError:
            return  # the loop is closed: nothing runs on it


def as_outcome(value: Any) -> Outcome:
    """What a handler returned: an outcome, or anything else for Completed."""
    return value if isinstance(value, _OUTCOMES) else COMPLETED


def said(error: BaseException) -> str:
    """An exception with its traceback, whatever its own words do."""
    try:
        return "".join(traceback.format_exception(error))[-8000:]
    except Exception:
        return f"{type(error).__name__} (whose text cannot be had)"


def run_in_process(module: str, qualname: str, claimed: Claimed, url: str, schema: str) -> Any:
    """In a child process: find the handler where it was defined, and call it."""
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    job = Job(claimed, connections=Lender(url), schema=schema)
    args, fields = _arguments(found, job)
    return found.function(*args, **fields)
