"""The testbed: what one test needs to send rows, run them, and look at what became of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec
from uuid import UUID, uuid4

import psycopg

from .. import postgres
from ..app.handler import Handler
from ..app.inbox import Inbox
from ..app.job import Job, JobTerms
from ..errors import BadSettings
from ..model.rows import Lane, Row
from ..postgres.handler_pool import HandlerPool
from ..verbs import lifecycle, questions
from ..worker.config import Terms
from .address import with_schema
from .clock import Clock
from .crash_points import Crash
from .forked import ForkedWorker
from .heard import Heard
from .schemas import theirs_of
from .sent import found, not_found
from .threaded import Ran, counted, working

P = ParamSpec("P")
SECONDS_MAX = 60.0
SLOTS = 4


class Testbed:
    """A schema on a real Postgres, and one for your tables: it is first on the search path of `url` and `conn`."""

    __test__ = False  # its name begins like that of a test

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = with_schema(url, theirs_of(schema)), schema
        self.events = Heard()
        self.crash: Crash | None = None
        self.conn: psycopg.Connection[Any] = psycopg.connect(self.url, autocommit=True)
        self._clock = Clock(self.conn, schema)
        self._inbox: Inbox | None = None
        self._before = ""  # the schema that the inbox had
        self._pool = HandlerPool(self.url, SLOTS, idle_seconds=0.0)
        self._workers: list[ForkedWorker] = []

    def __enter__(self) -> Testbed:
        return self

    def __exit__(self, *raised: object) -> None:
        for worker in self._workers:
            worker.kill()
        self._let_go()
        self.conn.close()

    # -- whose handlers

    def use(self, inbox: Inbox) -> Inbox:
        """Work with the handlers of this inbox, in the schema of the test, until it ends."""
        if not isinstance(inbox, Inbox):
            raise BadSettings(f"testbed.use() takes an Inbox, not {inbox!r}: import it, and give the object itself")
        self._let_go()
        self._inbox, self._before = inbox, inbox.schema
        inbox.use_schema(self.schema)
        inbox.bus.subscribe(self.events)
        return inbox

    def _let_go(self) -> None:
        if self._inbox is not None:
            self._inbox.bus.unsubscribe(self.events)
            self._inbox.use_schema(self._before)

    @property
    def inbox(self) -> Inbox:
        """The inbox in use."""
        if self._inbox is None:
            raise RuntimeError(
                "the testbed has no inbox: call testbed.use(inbox), or write `tenure_inbox = app:inbox` "
                "into the settings of pytest"
            )
        return self._inbox

    # -- running

    def run_pending(self, *, scheduled: bool = False, seconds: float = SECONDS_MAX) -> Ran:
        """Run a real worker until nothing is left that is due; how the attempts ended.

        With scheduled=True scheduled rows, retries too, are made due first, again and again.
        """
        if self.crash is not None and self.crash.point is not None and not self.crash.over:
            self._crash_once(seconds)
        first = len(self.events)
        with contextlib.ExitStack() as stack:
            if self.crash is not None and self.crash.point is None:
                stack.enter_context(self.crash.noting(self.inbox))
            if scheduled:
                self.make_due()
            if self._left():
                stack.enter_context(working(self.inbox, self._terms(), self.events))
            self._until(lambda: not self._left(due_first=scheduled), seconds)
        return counted(list(self.events)[first:])

    def _crash_once(self, seconds: float) -> None:
        """A worker process that is killed at the crash point; what it held is due again."""
        crash, inbox = self.crash, self.inbox
        assert crash is not None
        if not self._left():
            return
        worker = self._hired(lambda: crash.arm(inbox))
        self._until(lambda: worker.ended or not self._left(), seconds)
        crash.over = worker.ended
        worker.kill()
        self._clock.send_away(worker.pid)
        self._clock.make_due(self._clock.expire())

    @contextlib.contextmanager
    def worker(self, **terms: Any) -> Iterator[ForkedWorker]:
        """A worker in a process of its own, with `kill`, `pause`, `resume` and `stop`; it is gone after the block."""
        worker = self._hired(None, **terms).ready()
        try:
            yield worker
        finally:
            worker.kill()

    def _hired(self, before: Callable[[], object] | None, **terms: Any) -> ForkedWorker:
        worker = ForkedWorker(self.inbox, self._terms(**terms), self.events, before)
        self._workers.append(worker)
        return worker

    def job(self, handler: Handler[..., P, Any], *payload: P.args, **fields: P.kwargs) -> Job:
        """A job to call the handler with: `send_receipt(testbed.job(send_receipt, order_id=1), order_id=1)`.

        Its row is real and claimed, so `job.fenced()` completes it, and its lease can be expired.
        """
        queue = f"job-{uuid4().hex}"
        with self._in_schema(handler):
            sender = handler.using(queue=queue, ordered=False, hold=False, priority=0)
            sender.enqueue(self.conn, *payload, **fields)
        claim = lifecycle.claim("testbed", 1, lanes=[Lane(queue)], buckets=lifecycle.ALL_BUCKETS)
        (claimed,) = postgres.run(self.conn, claim, self.schema)
        late = handler.handling.late_completion == "accept"
        terms = JobTerms(self._pool, self.schema, late, handler.tracing, handler.handling.keep_payload, handler.seal)
        deadline = time.monotonic() + lifecycle.LEASE_SECONDS
        return Job(claimed, deadline=deadline, terms=terms)

    @contextlib.contextmanager
    def _in_schema(self, handler: Handler[..., ..., Any]) -> Iterator[None]:
        before, handler.schema, handler.citus = (handler.schema, handler.citus), self.schema, False
        try:
            yield
        finally:
            handler.schema, handler.citus = before

    # -- time

    def expire_lease(self, row: Any) -> None:
        """Let the lease of this row (or of the job, or the answer of enqueue) have ended a minute ago, and sweep."""
        self._clock.expire([_id_of(row)])

    def make_due(self) -> int:
        """Make every scheduled row due; how many."""
        return self._clock.make_due()

    # -- looking

    def row(self, row: Any) -> Row:
        """A row by its id, its job or the answer of enqueue, in whatever state it is."""
        seen = postgres.run(self.conn, questions.row(_id_of(row)), self.schema)
        assert seen is not None, f"there is no row {_id_of(row)}: was its transaction committed?"
        return seen

    def assert_enqueued(
        self, kind: str | Handler[..., ..., Any], /, *, queue: str | None = None, key: str | None = None, **fields: Any
    ) -> Row:
        """The newest row of this kind whose payload has these fields; AssertionError with what is there instead."""
        return found(self.conn, self.schema, _kind_of(kind), fields, queue, key)

    def assert_not_enqueued(self, kind: str | Handler[..., ..., Any], /, **fields: Any) -> None:
        """AssertionError if there is a row of this kind whose payload has these fields."""
        not_found(self.conn, self.schema, _kind_of(kind), fields)

    # -- waiting

    def _left(self, *, due_first: bool = False) -> list[str]:
        """The queues that have something to run, or that runs."""
        if due_first:
            self.make_due()
        due = postgres.run(self.conn, questions.oldest_runnable(), self.schema)
        at_work = postgres.run(self.conn, questions.depth(), self.schema)
        busy = {each.queue for each in at_work if each.status == "processing"}
        return sorted((set(due) | busy) & set(self.inbox.queues))

    def _until(self, fact: Callable[[], bool], seconds: float) -> None:
        by = time.monotonic() + seconds
        while not fact():
            assert time.monotonic() < by, f"rows of {', '.join(self._left())} are not done within {seconds:g} s"
            time.sleep(0.005)

    def _terms(self, **terms: Any) -> Terms:
        given = {"queues": self.inbox.queues, "slots": SLOTS, "poll_seconds": 0.1, "drain_seconds": 5.0, **terms}
        return Terms(self.url, schema=self.schema, **given)


def _id_of(row: Any) -> UUID:
    try:
        return UUID(str(getattr(row, "id", row)))
    except ValueError:
        raise BadSettings(f"{row!r} is no row: give its id, its job, or the answer of enqueue") from None


def _kind_of(kind: str | Handler[..., ..., Any]) -> str:
    if isinstance(kind, Handler):
        return kind.kind
    if isinstance(kind, str):
        return kind
    raise BadSettings(f"{kind!r} is no kind: give its name, or the handler that @inbox.handler made")
