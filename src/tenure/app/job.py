"""A Job: a claimed row as its handler sees it, with its lease."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload
from uuid import UUID

import msgspec

from ..errors import BadSettings, Cancelled, StaleLease
from ..model.ended import BatchEnd
from ..model.rows import Claimed, Lease
from ..model.veil import Veil
from ..postgres.runner import run
from ..settings import DEFAULT_SCHEMA
from ..telemetry.tracing import Tracing
from ..verbs.lifecycle import fence, holding, once
from .job_fence import Completion, JobFence, Own
from .lent import Connections as Connections
from .lent import LentConnection, lender_of
from .progress import tell_progress
from .unawaited import unawaited

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

    from ..postgres.callers import Awaiting, Blocking

C = TypeVar("C", bound="Blocking | Awaiting")
_HEADERS = msgspec.json.Decoder(dict[str, str])


class JobTerms(NamedTuple):
    """What all jobs of one handler in a worker share."""

    connections: Connections | None = None
    schema: str = DEFAULT_SCHEMA
    accept_late: bool = False
    tracing: Tracing | None = None  # makes the span of its completion
    keep_payload: bool = True  # in the archive, once it is completed
    seal: Callable[[Any, Job], str] | None = None  # makes its result of a value; None: none is kept


class Job:
    """One attempt at one row. Once `lost` is set, the lease is gone and every write under it is refused."""

    __slots__ = (
        "_terms",
        "cancel_asked",
        "claimed",
        "completion",
        "deadline",
        "draining",
        "kept",
        "lost",
        "told_at",
        "veil",
    )

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
        self.draining = (
            False  # its worker was asked to stop: a job that stays for long should end, and return Release()
        )
        self.completion: Completion = "open"
        self.kept: str | None = None  # the result that fenced() shall keep, as JSON text
        self.told_at = float("-inf")  # when its progress was noted last
        self.veil: Veil | None = None  # what must not be told, once an encrypted payload was opened
        self._terms = terms or JobTerms(connections, schema, accept_late, tracing, keep_payload)

    def __repr__(self) -> str:
        return f"<Job {self.kind} {self.id} attempt {self.attempt} of {self.max_attempts}, token {self.token}>"

    @property
    def schema(self) -> str:
        """Where Tenure's tables are."""
        return self._terms.schema

    @property
    def connections(self) -> Connections | None:
        """Where it gets a connection of its worker."""
        return self._terms.connections

    @property
    def accept_late(self) -> bool:
        """True if its completion is accepted after the end of its lease."""
        return self._terms.accept_late

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
    def seal(self) -> Callable[[Any, Job], str] | None:
        """How its result is made of a value; None if none is kept."""
        return self._terms.seal

    @seal.setter
    def seal(self, seal: Callable[[Any, Job], str] | None) -> None:
        self._terms = self._terms._replace(seal=seal)

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

    @property
    def lender(self) -> Connections:
        """Where the worker lends connections from."""
        return lender_of(self)

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
            return _HEADERS.decode(self.claimed.headers or "{}")
        except msgspec.ValidationError:
            return {}  # COPY checks nothing

    @property
    def batch(self) -> BatchEnd | None:
        """How the batch ended that this job follows; None if it follows none."""
        told = [self.sent_headers.get(f"tenure-{name}", "") for name in ("batch", "ended", "failed", "cancelled")]
        return BatchEnd(*map(int, told)) if all(number.isdecimal() for number in told) else None

    def headers(self) -> dict[str, str]:
        """Headers for an HTTP call of this job: the receiver can detect duplicates by id and refuse an older fence."""
        return {"Idempotency-Key": str(self.id), "Tenure-Fence": str(self.fence), "Tenure-Attempt": str(self.attempt)}

    @overload
    def fenced(self, *, keep: bool = False) -> JobFence[Connection[Any], AsyncConnection[Any]]: ...
    @overload
    def fenced(self, conn: C, *, keep: bool = False) -> JobFence[C, C]: ...
    def fenced(self, conn: Any = Own.CONNECTION, *, keep: bool = False) -> JobFence[Any, Any]:
        """A transaction whose writes and this job's completion commit together, or not at all.

        With keep=True the job goes on afterwards: the writes commit if its lease is current at their end.

        If psycopg.Rollback leaves its body, it raises RolledBack: uncaught, the job is retried, so no write is lost in
        silence. None is refused: it is a connection that was not opened, and writes through it would not be fenced.
        """
        return JobFence(self, conn, keep=keep)

    def returns(self, value: Any) -> None:
        """Inside fenced(), which completes the row before its handler returns: keep this value as the result."""
        if self.seal is None:
            raise BadSettings(f"the handler of {self.kind!r} keeps no result: write @inbox.handler(…, result=True)")
        self.kept = self.seal(value, self)

    def progress(self, share: float | None = None, note: str | None = None) -> Any:
        """Tell how far it is, from 0 to 1, and what it does; awaitable on the loop, and noted once a second at most."""
        return tell_progress(self, share, note)

    def connection(self) -> LentConnection:
        """A connection that the worker lends, outside of any transaction: for `with` and for `async with`."""
        return LentConnection(lender_of(self))

    def once(self, tx: Any, effect: str) -> Any:
        """True for the first caller of this effect of this job, in any attempt; awaitable if the connection is."""
        return unawaited(run(tx, once(self.claimed, effect), self.schema), f"job.once(tx, {effect!r})")

    def fence_off(self, tx: Any, resource: str) -> Any:
        """Admit a write to this resource, or raise StaleFence if a newer fence has written; awaitable alike."""
        return run(tx, fence(resource, self.fence), self.schema)

    def holding(self, tx: Any) -> Any:
        """Ask the database: seconds left of the lease, or StaleLease; awaitable alike."""
        return unawaited(run(tx, holding(self.claimed), self.schema), "job.holding(tx)")
