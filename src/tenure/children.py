"""Processes for CPU-bound handlers: one for each slot in use, told when to stop, and gone when their worker is."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor
from ctypes import Array, c_byte, c_double
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from .errors import BadSettings, Cancelled, StaleLease
from .handler import Handler
from .job import Job
from .lender import Lender
from .model import Claimed
from .outcome import Outcome
from .settling import Poison, Told, arguments, as_outcome, said

LOST, CANCEL = 1, 2  # what a worker writes into the cell of a job

# An outcome, or how to make the exception again: one that cannot be unpickled would take the whole pool with it.
Back = tuple[Outcome | partial[Any], bool]


class Children:
    """A pool of processes, and a cell for each of their jobs in memory that they share with this worker."""

    def __init__(self, slots: int, url: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._url, self._lock = url, threading.Lock()
        self._free, self._cells = list(range(slots)), dict[Job, int]()
        self._words, self._starts = context.RawArray(c_byte, slots), context.RawArray(c_double, slots)
        lifeline, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(
            slots, mp_context=context, initializer=_move_in, initargs=(lifeline, self._words, self._starts)
        )

    def submit(self, job: Job, handler: Handler[..., Any]) -> Future[Back]:
        """Send a job out; BrokenExecutor if a child has died, BadSettings if no child could find its handler."""
        module, qualname = whereabouts(handler)
        with self._lock:
            cell = self._cells[job] = self._free.pop()
            self._words[cell], self._starts[cell] = 0, 0.0
        try:
            future = self._pool.submit(work, module, qualname, job.claimed, self._url, job.schema, cell)
        except BaseException:
            self._returned(job)
            raise
        future.add_done_callback(lambda _: self._returned(job))
        return future

    def _returned(self, job: Job) -> None:
        job.started = self.started(job) or job.started
        with self._lock:
            self._free.append(self._cells.pop(job))

    def tell(self, job: Job) -> None:
        """Let the child know what has befallen the job; one that is back needs no word, and has no cell."""
        with self._lock:
            if job in self._cells:
                word = (LOST if job.lost else 0) | (CANCEL if job.cancel_asked else 0)
                self._words[self._cells[job]] = word

    def started(self, job: Job) -> float:
        """When its handler was called, on the monotonic clock that all processes share; zero before."""
        with self._lock:
            return self._starts[self._cells[job]] if job in self._cells else 0.0

    def cut(self) -> None:
        """Let go of the lifeline: every child ends at once, whatever it does."""
        self._lifeline.close()

    def close(self) -> None:
        """Take no more, wait for nobody."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.cut()


def whereabouts(handler: Handler[..., Any]) -> tuple[str, str]:
    """The module and name under which another process will find this handler."""
    module, qualname = handler.function.__module__, handler.function.__qualname__
    try:
        found = _find(module, qualname)
    except (ImportError, AttributeError):
        found = None
    if found is not handler:
        raise BadSettings(
            f"handler {handler.kind!r} has pool='process' but is not {qualname!r} of module {module!r}: "
            "another process finds it by that name alone, so decorate a function at the top of a module"
        )
    return module, qualname


def _find(module: str, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


# -- in the child

_words: Array[c_byte]
_starts: Array[c_double]
_lender = functools.cache(Lender)


def _move_in(lifeline: Connection, words: Array[c_byte], starts: Array[c_double]) -> None:
    """Be deaf to what a terminal or an init system sends to all at once (the worker decides), and leave with it."""
    global _words, _starts
    _words, _starts = words, starts
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # not SIG_IGN: a handler's own children would inherit that
    threading.Thread(target=_leave_with, args=[lifeline], daemon=True).start()


def _leave_with(lifeline: Connection) -> None:
    wait([lifeline])
    os._exit(1)


class Away(Job):
    """A job as a child sees it: whether it is lost or to be cancelled is for the worker to say, in the job's cell."""

    __slots__ = ("_cell",)

    def __init__(self, claimed: Claimed, cell: int, **rest: Any) -> None:
        self._cell = cell
        super().__init__(claimed, **rest)

    @property
    def lost(self) -> str:
        """Why, once it is lost."""
        return "lease_lost" if _words[self._cell] & LOST else ""

    @lost.setter
    def lost(self, _: str) -> None: ...

    @property
    def cancel_asked(self) -> bool:
        """Has somebody asked?"""
        return bool(_words[self._cell] & CANCEL)

    @cancel_asked.setter
    def cancel_asked(self, _: bool) -> None: ...


def work(module: str, qualname: str, claimed: Claimed, url: str, schema: str, cell: int) -> Back:
    """Find the handler where it was defined, and call it."""
    job = Away(claimed, cell, connections=_lender(url), schema=schema)
    back: Outcome | partial[Any]
    try:
        handler = _find(module, qualname)
        args, fields = arguments(handler, job)
        job.check()  # it may have been lost on the way
        _starts[cell] = time.monotonic()
        back = as_outcome(handler.function(*args, **fields))
    except BaseException as error:
        back = _again(job, error)
    return back, job.settled


def _again(job: Job, error: BaseException) -> partial[Any]:
    if isinstance(error, StaleLease):
        return partial(StaleLease, job.claimed, error.verb, error.reason, error.current)
    if isinstance(error, Cancelled):
        return partial(Cancelled, job.id)
    return partial(Poison if isinstance(error, Poison) else Told, said(error))
