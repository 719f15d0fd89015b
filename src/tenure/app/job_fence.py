"""The fence of a job: a transaction on its worker's connection or the user's, which completes the job or keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from ..errors import NoConnection
from ..postgres.callers import Awaiting, Blocking
from ..telemetry.tracing import NOTHING, Span
from .fence import NO_CONNECTION, fenced
from .lent import Connections, lender_of

if TYPE_CHECKING:
    from ..model.rows import Claimed
    from ..telemetry.tracing import Tracing


class Own(Enum):
    """A connection of the worker's own: what fenced() takes if none is given. None is a mistake, not this."""

    CONNECTION = "lent by the worker"


With = TypeVar("With")
AsyncWith = TypeVar("AsyncWith")
# Of the row, by the handler itself: in its own fenced transaction, or given back by a park.
Completion = Literal["open", "committing", "committed", "parking", "parked"]


class Fenceable(Protocol):
    """What the fence asks of its job."""

    completion: Completion
    kept: str | None

    @property
    def claimed(self) -> Claimed:
        """The row as it was claimed."""

    @property
    def schema(self) -> str:
        """Where Tenure's tables are."""

    @property
    def accept_late(self) -> bool:
        """True if its completion is accepted after the end of its lease."""

    @property
    def keep_payload(self) -> bool:
        """True if the archive shall have its payload."""

    @property
    def tracing(self) -> Tracing | None:
        """Makes the span of its completion."""

    @property
    def connections(self) -> Connections | None:
        """Where it gets a connection of its worker."""


class JobFence(Generic[With, AsyncWith]):
    """`with job.fenced() as tx:` or `async with`; then the job is completed, whatever its handler returns, or kept."""

    def __init__(self, job: Fenceable, conn: Blocking | Awaiting | Own, *, keep: bool = False) -> None:
        if conn is None:
            raise NoConnection(NO_CONNECTION)
        self._job, self._conn, self._keep = job, conn, keep
        self._stack: Any = None

    def __enter__(self) -> With:
        self._stack = stack = ExitStack()
        with ExitStack() as opening:
            lent = self._conn is Own.CONNECTION
            conn = opening.enter_context(lender_of(self._job).blocking()) if lent else self._conn
            tx: With = opening.enter_context(self._fenced(conn))
            stack.push(opening.pop_all())
        return tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with self._committing(error), self._span(error):
            swallowed: bool | None = self._stack.__exit__(kind, error, trace)
        return swallowed

    async def __aenter__(self) -> AsyncWith:
        self._stack = stack = AsyncExitStack()
        async with AsyncExitStack() as opening:
            lent = self._conn is Own.CONNECTION
            conn = await opening.enter_async_context(lender_of(self._job).awaiting()) if lent else self._conn
            tx: AsyncWith = await opening.enter_async_context(self._fenced(conn))
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
        how: dict[str, Any] = {"keep_payload": job.keep_payload, "keep": self._keep, "result": lambda: job.kept}
        return fenced(conn, job.claimed, schema=job.schema, accept_late=job.accept_late, **how)

    def _span(self, error: BaseException | None) -> Span:
        """The span of the completion; none after an error, which rolls back."""
        tracing = self._job.tracing
        return NOTHING if tracing is None or error or self._keep else tracing.settling("complete", self._job.claimed)
