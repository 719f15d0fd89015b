"""A Job: a claimed row as its handler sees it, with its lease."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from uuid import UUID

import msgspec

from ..errors import Cancelled, StaleLease
from ..model.rows import Claimed, Lease
from ..model.veil import Veil
from ..postgres.runner import run
from ..settings import DEFAULT_SCHEMA
from ..telemetry.tracing import NOTHING, Span, Tracing
from ..verbs.lifecycle import fence, holding, once
from .fence import NO_CONNECTION, fenced
from .unawaited import unawaited

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


class Connections(Protocol):
    """Where a job gets a connection for fenced() if the handler gives none."""

    def blocking(self) -> Any:
        """A context manager that lends a connection."""

    def awaiting(self) -> Any:
        """The same for `async with`."""


class Own(Enum):
    """A connection of the worker's own: what fenced() takes if none is given. None is a mistake, not this."""

    CONNECTION = "lent by the worker"


Completion = Literal["open", "committing", "committed"]  # of the row, by the handler's own fenced transaction


class JobTerms(NamedTuple):
    """What all jobs of one handler in a worker share."""

    connections: Connections | None = None
    schema: str = DEFAULT_SCHEMA
    accept_late: bool = False
    tracing: Tracing | None = None  # makes the span of its completion
    keep_payload: bool = True  # in the archive, once it is completed


class Job:
    """One attempt at one row. Once `lost` is set, the lease is gone and every write under it is refused."""

    __slots__ = ("_terms", "cancel_asked", "claimed", "completion", "deadline", "lost", "veil")

    def __init__(
        self,
        claimed: Claimed,
        *,
        deadline: float = float("inf"),
        connections: Connections | None = None,
        schema: str = DEFAULT_SCHEMA,
        accept_late: bool = False,
        tracing: Tracing | None = None,
        keep_payload: bool = True,
        terms: JobTerms | None = None,
    ) -> None:
        self.claimed = claimed
        self.deadline = deadline  # on the monotonic clock, counted from when the claim was sent
        self.lost = ""  # why, once it is lost
        self.cancel_asked = False
        self.completion: Completion = "open"
        self.veil: Veil | None = None  # what must not be told, once an encrypted payload was opened
        self._terms = terms or JobTerms(connections, schema, accept_late, tracing, keep_payload)

    def __repr__(self) -> str:
        return f"<Job {self.kind} {self.id} attempt {self.attempt} of {self.max_attempts}, token {self.token}>"

    @property
    def schema(self) -> str:
        """Where Tenure's tables are."""
        return self._terms.schema

    @property
    def tracing(self) -> Tracing | None:
        """Makes the span of its completion."""
        return self._terms.tracing

    @tracing.setter
    def tracing(self, tracing: Tracing | None) -> None:
        self._terms = self._terms._replace(tracing=tracing)

    @property
    def keep_payload(self) -> bool:
        """True if the archive shall have its payload, once it is completed."""
        return self._terms.keep_payload

    @keep_payload.setter
    def keep_payload(self, keep: bool) -> None:
        self._terms = self._terms._replace(keep_payload=keep)

    @property
    def id(self) -> UUID:
        """The row's id."""
        return self.claimed.id

    @property
    def kind(self) -> str:
        """Which handler runs it."""
        return self.claimed.kind

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self.claimed.queue

    @property
    def key(self) -> str:
        """Its partition key; its own id if it was sent without one."""
        return self.claimed.partition_key

    @property
    def seq(self) -> int:
        """Its number in the order of arrival: rises with each row of its key."""
        return self.claimed.seq

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.claimed.attempts

    @property
    def max_attempts(self) -> int:
        """After how many attempts it becomes a dead letter."""
        return self.claimed.max_attempts

    @property
    def lease(self) -> Lease:
        """The proof of holding it."""
        return self.claimed.lease

    @property
    def token(self) -> int:
        """The generation of the lease: 1 for the first holder, +1 for each later one."""
        return self.claimed.generation

    @property
    def fence(self) -> int:
        """The number for other stores: a later holder has a higher fence, of any row, also after a failover."""
        return self.claimed.fence

    @property
    def seconds_left(self) -> float:
        """How long the lease lasts without another renewal, by this worker's clock."""
        return self.deadline - time.monotonic()

    def check(self) -> None:
        """Raise if the work should stop: StaleLease if the lease is lost or over, Cancelled if somebody asked."""
        if self.cancel_asked:
            raise Cancelled(self.id)
        if self.lost or self.deadline <= time.monotonic():
            raise StaleLease(self.claimed, "check", self.lost or "lease_expired")

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers its producer sent, with the trace context; empty if they are not a mapping of text to text."""
        try:
            return msgspec.json.decode(self.claimed.headers or "{}", type=dict[str, str])
        except msgspec.ValidationError:
            return {}  # COPY checks nothing

    def headers(self) -> dict[str, str]:
        """Headers for an HTTP call of this job: the receiver can detect duplicates by id and refuse an older fence."""
        return {"Idempotency-Key": str(self.id), "Tenure-Fence": str(self.fence), "Tenure-Attempt": str(self.attempt)}

    def fenced(
        self, conn: Connection[Any] | AsyncConnection[Any] | Own = Own.CONNECTION, *, keep: bool = False
    ) -> JobFence:
        """A transaction whose writes and this job's completion commit together, or not at all.

        With keep=True the job goes on afterwards: the writes commit if its lease is current at their end.

        If psycopg.Rollback leaves its body, it raises RolledBack: uncaught, the job is retried, so no write is lost in
        silence. None is refused: it is a connection that was not opened, and writes through it would not be fenced.
        """
        return JobFence(self, conn, keep=keep)

    def once(self, tx: Any, effect: str) -> Any:
        """True for the first caller of this effect of this job, in any attempt; awaitable if the connection is."""
        return unawaited(run(tx, once(self.claimed, effect), self.schema), f"job.once(tx, {effect!r})")

    def fence_off(self, tx: Any, resource: str) -> Any:
        """Admit a write to this resource, or raise StaleFence if a newer fence has written; awaitable alike."""
        return run(tx, fence(resource, self.fence), self.schema)

    def holding(self, tx: Any) -> Any:
        """Ask the database: seconds left of the lease, or StaleLease; awaitable alike."""
        return unawaited(run(tx, holding(self.claimed), self.schema), "job.holding(tx)")


class JobFence:
    """`with job.fenced() as tx:` or `async with`; then the job is completed, whatever its handler returns, or kept."""

    def __init__(self, job: Job, conn: Connection[Any] | AsyncConnection[Any] | Own, *, keep: bool = False) -> None:
        if conn is None:
            raise TypeError(NO_CONNECTION)
        self._job, self._conn, self._keep = job, conn, keep
        self._stack: Any = None

    def __enter__(self) -> Connection[Any]:
        self._stack = stack = ExitStack()
        with ExitStack() as opening:
            lent = self._conn is Own.CONNECTION
            conn = opening.enter_context(self._lender().blocking()) if lent else self._conn
            tx: Connection[Any] = opening.enter_context(self._fenced(conn))
            stack.push(opening.pop_all())
        return tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with self._committing(error), self._span(error):
            swallowed: bool | None = self._stack.__exit__(kind, error, trace)
        return swallowed

    async def __aenter__(self) -> AsyncConnection[Any]:
        self._stack = stack = AsyncExitStack()
        async with AsyncExitStack() as opening:
            lent = self._conn is Own.CONNECTION
            conn = await opening.enter_async_context(self._lender().awaiting()) if lent else self._conn
            tx: AsyncConnection[Any] = await opening.enter_async_context(self._fenced(conn))
            stack.push_async_exit(opening.pop_all())
        return tx

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with self._committing(error), self._span(error):
            swallowed: bool | None = await self._stack.__aexit__(kind, error, trace)
        return swallowed

    @contextmanager
    def _committing(self, error: BaseException | None) -> Iterator[None]:
        """While the transaction commits, only its result counts. If the commit is refused, it stays "committing"."""
        if error is not None or self._keep:
            yield
            return
        self._job.completion = "committing"
        yield
        self._job.completion = "committed"

    def _fenced(self, conn: Any) -> fenced:
        job = self._job
        kept = {"keep_payload": job.keep_payload, "keep": self._keep}
        return fenced(conn, job.claimed, schema=job.schema, accept_late=job._terms.accept_late, **kept)

    def _span(self, error: BaseException | None) -> Span:
        """The span of the completion; none after an error, which rolls back."""
        tracing = self._job.tracing
        return NOTHING if tracing is None or error or self._keep else tracing.settling("complete", self._job.claimed)

    def _lender(self) -> Connections:
        lender = self._job._terms.connections
        if lender is None:
            raise RuntimeError("this job was made without a worker: give a connection, job.fenced(conn)")
        return lender
