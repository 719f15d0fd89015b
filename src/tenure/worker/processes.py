"""Processes for CPU-bound handlers: each runs one job at a time, hears what befalls it, and leaves with its worker."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..app.handler import Handler
from ..app.job import Job
from ..errors import BadSettings, Cancelled, StaleLease
from ..model.outcome import Outcome
from ..model.rows import Claimed
from ..postgres.handler_pool import HandlerPool
from ..telemetry.tracing import within
from .outcomes import Poison, Told, arguments, as_outcome, said

SPAWN = multiprocessing.get_context("spawn")


class Errand(NamedTuple):
    """What a child is sent out with."""

    module: str
    qualname: str
    claimed: Claimed
    url: str
    schema: str
    accept_late: bool = False
    trace: Mapping[str, str] | None = None  # the context of the job's span


class Back(NamedTuple):
    """What it comes back with. Exceptions come as a way to make them again: not every one can be unpickled."""

    ended: Outcome | partial[Any]
    settled: bool


class Unbegun(Told):
    """The process died before it called the handler: nothing was tried."""


class Child:
    """One process, and the pipe to it: errands and words go down, the start and the end of each errand come up."""

    def __init__(self) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self._sending = threading.Lock()
        self.process = SPAWN.Process(target=_live, args=[theirs])
        self.process.start()
        theirs.close()  # now its end is the child's alone: should it die, the pipe ends

    def run(self, job: Job, errand: Errand, started: Callable[[float], None]) -> Back:
        """Blocks until the handler has ended; Told if its process did first, Unbegun if the handler was not called."""
        begun = False
        try:
            self._send(errand)
            if job.lost or job.cancel_asked:
                self.tell(job)
            while not isinstance(word := self._pipe.recv(), Back):
                begun = True
                started(word)
        except (EOFError, OSError):
            self.process.join(1.0)
            died = f"the process it ran in died with exit code {self.process.exitcode}"
            raise (Told if begun else Unbegun)(died) from None
        return word

    def tell(self, job: Job) -> None:
        """Let the child know what has befallen a job; it does not care if it has another one by now."""
        try:
            self._send((job.claimed.identity, job.lost, job.cancel_asked))
        except OSError:
            return  # it is dead

    def _send(self, word: Any) -> None:
        with self._sending:
            self._pipe.send(word)


class Children:
    """The children of a worker: as many as it has jobs for at once, each used again as long as it lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._out: set[Child] = set()
        self._closed = False

    @contextmanager
    def lent(self) -> Iterator[Child]:
        """A child for one job; one that did not bring it to an end is not lent again."""
        with self._lock:
            if self._closed:
                raise Told("its worker was stopped")
            self._idle = [child for child in self._idle if child.process.is_alive()]
            child = self._idle.pop() if self._idle else Child()
            self._out.add(child)
        try:
            yield child
        except BaseException:
            child.process.kill()
            raise
        else:
            with self._lock:
                self._idle.append(child)
        finally:
            self._out.discard(child)

    def close(self) -> None:
        """End them all, whatever they do."""
        with self._lock:
            self._closed = True
            for child in [*self._idle, *self._out]:
                child.process.kill()


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

_pool_of = functools.cache(HandlerPool)


def _live(pipe: Any) -> None:
    """Errand after errand, until the worker ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # What a terminal or an init system sends to all at once is for the worker alone. A handler that does nothing
        # is not inherited as SIG_IGN would be by what a job starts.
        signal.signal(number, lambda *_: None)
    errands: SimpleQueue[tuple[Job, Errand]] = SimpleQueue()
    threading.Thread(target=_listen, args=[pipe, errands], daemon=True).start()
    while True:
        pipe.send(_work(*errands.get(), pipe.send))


def _listen(pipe: Any, errands: SimpleQueue[tuple[Job, Errand]]) -> None:
    job: Job | None = None
    while True:
        try:
            word = pipe.recv()
        except (EOFError, OSError):
            os._exit(1)  # nobody is left to work for
        if isinstance(word, Errand):
            job = Job(word.claimed, connections=_pool_of(word.url), schema=word.schema, accept_late=word.accept_late)
            errands.put((job, word))
        elif job is not None and job.claimed.identity == word[0]:
            _, job.lost, job.cancel_asked = word


def _work(job: Job, errand: Errand, started: Callable[[float], None]) -> Back:
    """Find the handler where it was defined, and call it."""
    ended: Outcome | partial[Any]
    try:
        handler = _find(errand.module, errand.qualname)
        args, fields = arguments(handler, job)
        job.check()  # it may have been lost on the way
        started(time.monotonic())  # a clock that all processes share
        with within(errand.trace):
            ended = as_outcome(handler.function(*args, **fields))
    except BaseException as error:
        ended = _again(job, error)
    return Back(ended, job.completion == "committed")


def _again(job: Job, error: BaseException) -> partial[Any]:
    if isinstance(error, StaleLease):
        return partial(StaleLease, job.claimed, error.verb, error.reason, error.current)
    if isinstance(error, Cancelled):
        return partial(Cancelled, job.id)
    return partial(Poison if isinstance(error, Poison) else Told, said(error))
