"""Child processes for CPU-bound handlers: each runs one job at a time, and ends with its worker."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import signal
import sys
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
from ..model.envelope import MissingKey
from ..model.outcome import Outcome
from ..model.rows import Claimed
from ..postgres.handler_pool import HandlerPool
from ..telemetry import log
from ..telemetry.tracing import within
from .outcomes import ChildError, Poison, arguments, as_outcome, said

SPAWN = multiprocessing.get_context("spawn")


class ChildJob(NamedTuple):
    """One job, as it is sent to a child."""

    module: str
    qualname: str
    claimed: Claimed
    url: str
    schema: str
    accept_late: bool = False
    trace: Mapping[str, str] | None = None  # the context of the job's span


class ChildReply(NamedTuple):
    """What a child sends back. An exception comes as a function that makes it: not every exception can be pickled."""

    ended: Outcome | partial[Any]
    settled: bool


class NotStarted(ChildError):
    """The process died before it called the handler: no attempt was made."""


class Child:
    """One process and the pipe to it: jobs and notices go down, the start and the end of each job come up."""

    def __init__(self) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self._sending = threading.Lock()
        self.process = SPAWN.Process(target=_live, args=[theirs, bool(log.JSON_STREAMS)])
        self.process.start()
        theirs.close()  # only the child has this end now: if it dies, the pipe ends

    def run(self, job: Job, sent: ChildJob, started: Callable[[float], None]) -> ChildReply:
        """Block until the handler has ended; ChildError if its process died, NotStarted if it died before the call."""
        begun = False
        try:
            self._send(sent)
            if job.lost or job.cancel_asked:
                self.tell(job)
            while not isinstance(word := self._pipe.recv(), ChildReply):
                begun = True
                started(word)
        except (EOFError, OSError):
            self.process.join(1.0)
            died = f"the process it ran in died with exit code {self.process.exitcode}"
            raise (ChildError if begun else NotStarted)(died) from None
        return word

    def tell(self, job: Job) -> None:
        """Tell the child that a job is lost or cancelled; it ignores this if it runs another job now."""
        try:
            self._send((job.claimed.identity, job.lost, job.cancel_asked))
        except OSError:
            return  # it is dead

    def _send(self, word: Any) -> None:
        with self._sending:
            self._pipe.send(word)


class Children:
    """The children of a worker: as many as jobs run at once, each used again while it is alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._out: set[Child] = set()
        self._closed = False

    @contextmanager
    def lent(self) -> Iterator[Child]:
        """A child for one job; a child that failed is killed and not used again."""
        with self._lock:
            if self._closed:
                raise ChildError("its worker was stopped")
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
        """Kill them all."""
        with self._lock:
            self._closed = True
            for child in [*self._idle, *self._out]:
                child.process.kill()


def import_path(handler: Handler[..., Any]) -> tuple[str, str]:
    """The module and name under which another process finds this handler."""
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


@functools.cache
def _pool_of(url: str) -> HandlerPool:
    """For one job at a time; its connection is closed when the job is done: the worker gives the room to another."""
    return HandlerPool(url, idle_seconds=0.0)


def _live(pipe: Any, as_json: bool) -> None:
    """Job after job, until the worker ends."""
    if as_json:
        log.all_as_json(sys.stderr)
    for number in (signal.SIGINT, signal.SIGTERM):
        # A terminal or an init system signals all processes at once, but only the worker should act. An empty handler
        # is not inherited by what a job starts; SIG_IGN would be.
        signal.signal(number, lambda *_: None)
    jobs: SimpleQueue[tuple[Job, ChildJob]] = SimpleQueue()
    threading.Thread(target=_listen, args=[pipe, jobs], daemon=True).start()
    while True:
        pipe.send(_work(*jobs.get(), pipe.send))


def _listen(pipe: Any, jobs: SimpleQueue[tuple[Job, ChildJob]]) -> None:
    job: Job | None = None
    while True:
        try:
            word = pipe.recv()
        except (EOFError, OSError):
            os._exit(1)  # the worker is gone
        if isinstance(word, ChildJob):
            job = Job(word.claimed, connections=_pool_of(word.url), schema=word.schema, accept_late=word.accept_late)
            jobs.put((job, word))
        elif job is not None and job.claimed.identity == word[0]:
            _, job.lost, job.cancel_asked = word


def _work(job: Job, sent: ChildJob, started: Callable[[float], None]) -> ChildReply:
    """Find the handler where it was defined, and call it."""
    ended: Outcome | partial[Any]
    try:
        handler = _find(sent.module, sent.qualname)
        job.tracing, job.keep_payload = handler.tracing, handler.handling.keep_payload
        args, fields = arguments(handler, job)
        job.check()  # it may be lost already
        started(time.monotonic())  # all processes share this clock
        with within(sent.trace):
            ended = as_outcome(handler.function(*args, **fields), job.veil)
    except BaseException as error:
        ended = _again(job, error)
    return ChildReply(ended, job.completion == "committed")


def _again(job: Job, error: BaseException) -> partial[Any]:
    if isinstance(error, StaleLease):
        return partial(StaleLease, job.claimed, error.verb, error.reason, error.current)
    if isinstance(error, Cancelled):
        return partial(Cancelled, job.id)
    if isinstance(error, MissingKey):
        return partial(MissingKey, error.key, error.why)
    return partial(Poison if isinstance(error, Poison) else ChildError, said(error, job.veil))
