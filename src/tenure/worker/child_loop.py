"""A child process: it runs the jobs that its worker sends, one at a time, and ends with its worker."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from ..app.handler import Handler
from ..app.job import Job
from ..errors import BadSettings
from ..postgres.handler_pool import HandlerPool
from ..telemetry import log
from ..telemetry.tracing import within
from .child_words import Begun, Ended, Jobs, JobSent, pack, read_down, spelled, spelled_error
from .outcomes import arguments, outcome_for

READ_BYTES = 65_536


class Token:
    """A lock between two processes: a byte in a pipe. Whoever dies, nothing of it stays on the machine."""

    def __init__(self, context: Any) -> None:
        self._take, self._put = context.Pipe(duplex=False)
        os.set_blocking(self._take.fileno(), False)
        self.release()

    def acquire(self, seconds: float = float("inf")) -> bool:
        """Wait for it, at most so long; False if it did not come."""
        until = time.monotonic() + seconds
        while True:
            try:
                os.read(self._take.fileno(), 1)
                return True
            except BlockingIOError:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._take.poll(min(left, 60.0))

    def release(self) -> None:
        """Let the other have it."""
        os.write(self._put.fileno(), b"!")


class Turns:
    """Which jobs of a child have begun, and which may not any more: memory that it shares with its worker.

    A worker takes jobs back that wait in a child, also from one that does not listen. Either the child was first and
    the handler is called, or the worker was and it is not.
    """

    def __init__(self, context: Any) -> None:
        self._token = Token(context)
        self._numbers = context.RawArray("q", 3)  # all below the first have begun; from the second to the third may not

    @property
    def begun(self) -> int:
        """All jobs below this number have begun."""
        return int(self._numbers[0])

    def take(self, n: int) -> bool:
        """In the child: begin this job; False if it was taken back."""
        self._token.acquire()
        try:
            _, first, end = self._numbers
            if first <= n < end:
                return False
            self._numbers[0] = n + 1
            return True
        finally:
            self._token.release()

    def take_back(self, first: int, end: int) -> int | None:
        """In the worker: jobs from the first on, up to the end, may not begin. From which one on that is true.

        None for a while after the last time: the child may still have jobs before it that may not begin. Nor is it
        known if the child has died in the middle of `take`.
        """
        if not self._token.acquire(1.0):
            return None
        try:
            if self._numbers[0] < self._numbers[2]:
                return None
            first = max(first, self._numbers[0])
            self._numbers[1], self._numbers[2] = first, end
        finally:
            self._token.release()
        return first


def write(file: int, word: bytes) -> None:
    """Say one word: its length, and then itself."""
    data = memoryview(len(word).to_bytes(4, "big") + word)
    while data:
        data = data[os.write(file, data) :]


def read(file: int, left: bytearray) -> list[bytes]:
    """All words that have come, with what is left of the time before; EOFError if no more will."""
    if not (data := os.read(file, READ_BYTES)):
        raise EOFError
    left += data
    words, at = [], 0
    while len(left) >= at + 4 and len(left) >= (end := at + 4 + int.from_bytes(left[at : at + 4], "big")):
        words.append(bytes(left[at + 4 : end]))
        at = end
    del left[:at]
    return words


def find(module: str, qualname: str) -> Any:
    """What has this name in this module."""
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


def import_path(handler: Handler[..., ..., Any]) -> tuple[str, str]:
    """The module and name under which another process finds this handler."""
    module, qualname = handler.function.__module__, handler.function.__qualname__
    try:
        found = find(module, qualname)
    except (ImportError, AttributeError):
        found = None
    if found is not handler:
        raise BadSettings(
            f"handler {handler.kind!r} has pool='process' but is not {qualname!r} of module {module!r}: "
            "another process finds it by that name alone, so decorate a function at the top of a module"
        )
    return module, qualname


def live(pipe: Any, turns: Turns, url: str, schema: str, as_json: bool) -> None:
    """Job after job, until the worker ends."""
    if as_json:
        log.all_as_json(sys.stderr)
    for number in (signal.SIGINT, signal.SIGTERM):
        # A terminal or an init system signals all processes at once, but only the worker should act. An empty handler
        # is not inherited by what a job starts; SIG_IGN would be.
        signal.signal(number, lambda *_: None)
    jobs: SimpleQueue[tuple[Job, JobSent]] = SimpleQueue()
    # For one job at a time; its connection is closed when the job is done: the worker gives the room to another.
    connections = HandlerPool(url, idle_seconds=0.0)
    threading.Thread(target=_listen, args=[pipe, jobs, turns, connections, schema], daemon=True).start()
    say = partial(write, pipe.fileno())
    while True:
        ended = _work(*jobs.get(), turns, say)
        if ended is not None:
            say(pack(ended))


def _listen(
    pipe: Any, jobs: SimpleQueue[tuple[Job, JobSent]], turns: Turns, connections: HandlerPool, schema: str
) -> None:
    here: dict[int, Job] = {}  # those that run or wait
    while True:
        try:
            word = read_down(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(1)  # the worker is gone
        if isinstance(word, Jobs):
            running = turns.begun - 1
            here = {n: job for n, job in here.items() if n >= running}
            for sent in word.jobs:
                job = Job(sent.claimed, connections=connections, schema=schema, accept_late=sent.accept_late)
                here[sent.n] = job
                jobs.put((job, sent))
        elif (known := here.get(word.n)) is not None:
            known.lost, known.cancel_asked, known.draining = word.lost, word.cancel_asked, word.draining


def _work(job: Job, sent: JobSent, turns: Turns, say: Callable[[bytes], object]) -> Ended | None:
    """Find the handler where it was defined, and call it; None if the job was taken back before."""
    at = time.monotonic()
    try:
        handler = find(sent.module, sent.qualname)
        job.tracing, job.keep_payload, job.seal = handler.tracing, handler.handling.keep_payload, handler.seal
        args, fields = arguments(handler, job)
        job.check()  # it may be lost already
        at = time.monotonic()
        if not turns.take(sent.n):
            return None
        if sent.tell_begin:
            say(pack(Begun(sent.n, at)))
        with within(sent.trace):
            how, about = spelled(outcome_for(handler, job, handler.run(job, args, fields)))
    except BaseException as error:
        how, about = spelled_error(error, job.veil)
    return Ended(sent.n, how, about, job.completion == "committed", at, time.monotonic() - at)
