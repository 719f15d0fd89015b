"""Connections that a worker lends to its handlers, for `with` and for `async with`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


class Connections(Protocol):
    """Where a job gets a connection for fenced() if the handler gives none."""

    def blocking(self) -> Any:
        """A context manager that lends a connection."""

    def awaiting(self) -> Any:
        """The same for `async with`."""

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for one: who keeps one for later gives it back then."""


class Lent(Protocol):
    """Whoever was made by a worker."""

    @property
    def connections(self) -> Connections | None:
        """Where it gets a connection of its worker."""


def lender_of(job: Lent) -> Connections:
    """Its worker's connections; RuntimeError if it was made without a worker."""
    if job.connections is None:
        raise RuntimeError("this job was made without a worker: give a connection, job.fenced(conn)")
    return job.connections


class LentConnection:
    """A connection that the worker lends, for `with` and for `async with`."""

    def __init__(self, lender: Connections) -> None:
        self._lender, self._lent = lender, list[Any]()

    def __enter__(self) -> Connection[Any]:
        self._lent.append(self._lender.blocking())
        conn: Connection[Any] = self._lent[-1].__enter__()
        return conn

    def __exit__(self, *raised: Any) -> bool | None:
        swallowed: bool | None = self._lent.pop().__exit__(*raised)
        return swallowed

    async def __aenter__(self) -> AsyncConnection[Any]:
        self._lent.append(self._lender.awaiting())
        conn: AsyncConnection[Any] = await self._lent[-1].__aenter__()
        return conn

    async def __aexit__(self, *raised: Any) -> bool | None:
        swallowed: bool | None = await self._lent.pop().__aexit__(*raised)
        return swallowed
