"""Child processes for CPU-bound handlers: one thread talks to all of them, and they end with their worker.

A child runs one job at a time. While handlers are very short it is sent rows that wait ahead as well, several at once,
so that it need not wait for its worker; they are taken back like all others that wait.
"""

from __future__ import annotations

import multiprocessing
import selectors
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ..model.outcome import Outcome
from ..postgres.handler_pool import HandlerPool
from ..postgres.moved_nodes import present
from ..telemetry import log
from ..telemetry.tracing import NOTHING, Span
from .attempt import Attempt
from .child_loop import Turns, import_path, live, read
from .child_words import Begun, Ended, Jobs, JobSent, Notice, meant, pack, read_up
from .held import HeldAttempts
from .outcomes import ChildError
from .shared import Shared

SPAWN = multiprocessing.get_context("spawn")
SHORT_SECONDS = 0.001  # the mean run time below which a child is sent more than one job
QUEUE_SECONDS, QUEUE_MAX = 0.005, 24  # how much work may wait in a child, and how many jobs
LARGE_BYTES = 32_768  # a pipe takes so many at once, whatever the child does


class NotStarted(ChildError):
    """The process died before it called the handler: no attempt was made."""


class Runs(Protocol):
    """What the pools do for the attempts that run in children."""

    def begins(self, attempt: Attempt) -> None:
        """It is its turn."""

    def span_of(self, attempt: Attempt) -> Span:
        """The span of an attempt."""

    def called(self, attempt: Attempt, at: float) -> None:
        """Its handler was called at this time."""

    def returned(
        self,
        attempt: Attempt,
        span: Span,
        ended: Outcome | Exception,
        seconds: float,
        next_after: Callable[[Attempt], list[Attempt]],
    ) -> None:
        """Its handler has returned, or never will, after so long."""


class Sent:
    """A job that a child has."""

    __slots__ = ("attempt", "n", "span")

    def __init__(self, n: int, attempt: Attempt, span: Span) -> None:
        self.n, self.attempt, self.span = n, attempt, span


class Child:
    """One process, the pipe to it, and the jobs that it has: the first runs."""

    def __init__(self, url: str, schema: str) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.turns, self.jobs, self.sent = Turns(SPAWN), deque[Sent](), 0
        self.unread = bytearray()
        self._sending = threading.Lock()
        self.process = SPAWN.Process(target=live, args=[theirs, self.turns, url, schema, bool(log.JSON_STREAMS)])
        self.process.start()
        theirs.close()  # only the child has this end now: if it dies, the pipe ends

    def send(self, jobs: list[JobSent], attempts: list[Attempt]) -> None:
        """Send these; if they are large, without waiting until the child has read them."""
        data = pack(Jobs(jobs))
        if len(data) > LARGE_BYTES:
            threading.Thread(target=self._send_all, args=[data, jobs, attempts], daemon=True).start()
        else:
            self._send_all(data, jobs, attempts)

    def _send_all(self, data: bytes, jobs: list[JobSent], attempts: list[Attempt]) -> None:
        self._send(data)
        for job, attempt in zip(jobs, attempts, strict=True):
            if attempt.job.lost or attempt.job.cancel_asked or attempt.job.draining:
                self.tell(job.n, attempt)

    def tell(self, n: int, attempt: Attempt) -> None:
        """Tell the child that a job is lost, cancelled or drained; it ignores this if it has that job no more."""
        self._send(pack(Notice(n, attempt.job.lost, attempt.job.cancel_asked, attempt.job.draining)))

    def _send(self, data: bytes) -> None:
        try:
            with self._sending:
                self.pipe.send_bytes(data)
        except OSError:
            return  # it is dead, and its pipe says so


class Processes(threading.Thread):
    """The children of a worker, as many as jobs run at once; each is used again while it is alive."""

    def __init__(self, shared: Shared, held: HeldAttempts, connections: HandlerPool, runs: Runs) -> None:
        super().__init__(name="tenure-children", daemon=True)
        self._held, self._connections, self._runs = held, connections, runs
        self._where, self._failed = (shared.terms.url, shared.terms.schema), shared.failed
        self._todo: deque[Attempt] = deque()
        self._asking, self._rung = threading.Lock(), False
        self._paths: dict[str, tuple[str, str]] = {}  # where another process finds the handler of each kind
        self._lock = threading.RLock()  # of the children and their jobs
        self._children: list[Child] = []
        self._room: dict[Child, Any] = {}  # for a connection, of each that has jobs
        self._closed = False
        self._selector = selectors.DefaultSelector()
        self._bell, self._ring = SPAWN.Pipe(duplex=False)
        self._selector.register(self._bell, selectors.EVENT_READ)

    # -- called from other threads

    def start_job(self, attempt: Attempt) -> None:
        """Run this one, which has a slot; raises if no other process would find its handler."""
        assert attempt.handler is not None
        if attempt.handler.kind not in self._paths:
            self._paths[attempt.handler.kind] = import_path(attempt.handler)
        with self._asking:
            if self._closed:
                raise ChildError("its worker was stopped")
            if not self.is_alive():
                self.start()
            self._todo.append(attempt)
            if not self._rung and threading.current_thread() is not self:
                self._rung = True
                self._ring.send_bytes(b"")

    def take_back(self) -> list[Attempt]:
        """The rows that wait in children: they begin there no more."""
        back: list[Attempt] = []
        with self._lock:
            for child in [child for child in self._children if len(child.jobs) > 1]:
                first = child.turns.take_back(child.jobs[0].n + 1, child.sent)
                if first is not None:
                    back += [sent.attempt for sent in child.jobs if sent.n >= first]
                    child.jobs = deque(sent for sent in child.jobs if sent.n < first)
        return back

    def close(self) -> None:
        """Kill them all."""
        with self._asking:
            self._closed = True
        with self._lock:
            for child in self._children:
                child.process.kill()
            self._ring.send_bytes(b"")

    # -- the thread

    def run(self) -> None:
        """Hear what they say, and give them jobs. Nobody else does, so the worker stops if it fails."""
        try:
            while not self._closed:
                for key, _ in self._selector.select():
                    if key.fileobj is self._bell:
                        self._bell.recv_bytes()
                        self._rung = False
                    else:
                        self._hear(key.data)
                    self._give_out()
        except BaseException as error:
            self._failed(error)

    def _hear(self, child: Child) -> None:
        """All that it has said; the lock is free in between, for those who take jobs back."""
        try:
            words = read(child.pipe.fileno(), child.unread)
        except (EOFError, OSError):
            with self._lock:
                self._bury(child)
            return
        for word in map(read_up, words):
            with self._lock:
                # What was taken back is no longer its own, whatever it says of it.
                if not child.jobs or child.jobs[0].n != word.n:
                    continue
                if isinstance(word, Begun):
                    self._runs.called(child.jobs[0].attempt, word.at)
                else:
                    self._ended(child, word)

    def _ended(self, child: Child, word: Ended) -> None:
        sent = child.jobs.popleft()
        attempt = sent.attempt
        attempt.started, attempt.job.completion = word.at, "committed" if word.committed else "open"
        if not child.jobs:
            self._leave_room(child)
        after = self._held.next_after if not child.jobs else partial(self._goes_on, child.jobs[0].attempt)
        self._runs.returned(attempt, sent.span, meant(word, attempt.claimed), word.seconds, after)
        if child.jobs:
            self._send_more(child)

    def _goes_on(self, following: Attempt, attempt: Attempt) -> list[Attempt]:
        """The next job that the child has, in the same slot: it begins by itself."""
        self._held.pass_ahead(attempt, following)
        self._runs.begins(following)
        return []

    # -- giving out

    def _give_out(self) -> None:
        with self._lock:
            while self._todo and not self._closed:
                attempt = self._todo.popleft()
                self._runs.begins(attempt)
                try:
                    child = next((child for child in self._children if not child.jobs), None) or self._made()
                    ahead = self._ahead_for(1) if attempt.following is None else []
                    self._send(child, [attempt, *ahead])
                except OSError as error:  # no process can be made
                    self._runs.returned(attempt, NOTHING, NotStarted(str(error)), 0.0, self._held.next_after)

    def _made(self) -> Child:
        url, schema = self._where
        child = Child(present(url), schema)
        self._children.append(child)
        self._selector.register(child.pipe, selectors.EVENT_READ, child)
        return child

    def _send_more(self, child: Child) -> None:
        if more := self._ahead_for(len(child.jobs)):
            self._send(child, more)

    def _ahead_for(self, has: int) -> list[Attempt]:
        """Rows that wait ahead and may as well wait in the child: few, and none until half of them are done."""
        seconds = self._held.ahead.row_seconds
        most = min(QUEUE_MAX, int(QUEUE_SECONDS / max(seconds, 1e-6))) if seconds < SHORT_SECONDS else 0
        return self._held.lend_ahead(most - has + 1, self._paths) if 2 * has <= most else []

    def _send(self, child: Child, attempts: list[Attempt]) -> None:
        if child not in self._room:
            self._room[child] = self._connections.elsewhere()
            self._room[child].__enter__()
        jobs = []
        for attempt in attempts:
            assert attempt.handler is not None
            n, span, handler = child.sent, self._runs.span_of(attempt), attempt.handler
            child.sent += 1
            child.jobs.append(Sent(n, attempt, span))
            attempt.stop, attempt.kill = partial(child.tell, n, attempt), child.process.kill
            where, timed = self._paths[handler.kind], bool(attempt.timeout_seconds)
            carried = handler.tracing.carried(span=span)
            jobs.append(JobSent(n, *where, attempt.claimed, attempt.accept_late, timed, carried))
        child.send(jobs, attempts)

    # -- when one dies

    def _bury(self, child: Child) -> None:
        """Its pipe has ended: what it ran has failed, and what waited in it waits again."""
        self._selector.unregister(child.pipe)
        self._children.remove(child)
        child.process.join(1.0)
        child.process.kill()
        if child.jobs:
            self._leave_room(child)
            sent = child.jobs.popleft()
            self._held.return_ahead([each.attempt for each in child.jobs])
            died = f"the process it ran in died with exit code {child.process.exitcode}"
            error = (ChildError if sent.n < child.turns.begun else NotStarted)(died)
            self._runs.returned(sent.attempt, sent.span, error, 0.0, self._held.next_after)

    def _leave_room(self, child: Child) -> None:
        self._room.pop(child).__exit__(None, None, None)
