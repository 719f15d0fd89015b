"""A Journal: append events in your own transaction, and read them in one order without gaps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from ...app.inbox import Inbox
from ...errors import BadSettings
from ...model.journal import Appended, Event
from ...postgres.runner import run
from ...verbs.journal import append, read_after, read_stream
from .projection import Projection
from .resident import kind_of, register
from .tailing import Tail

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


class Journal:
    """The journal of an inbox's schema; all of them in one schema are the same journal."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.projections: dict[str, Projection] = {}
        self._tail = Tail()

    def projection(self, name: str, **how: Any) -> Callable[[Callable[..., Any]], Projection]:
        """Make tables of events: `@journal.projection("order_totals", of=["order.*"], tables=["order_totals"])`.

        The function takes (tx, event), or (tx, events) for a list. Its writes and the checkpoint commit together.
        """
        if not isinstance(name, str):
            raise BadSettings(
                f"projection {getattr(name, '__name__', name)!r} has no name: write "
                '@journal.projection("order_totals", of=["order.*"])'
            )
        if name in self.projections:
            raise BadSettings(f"projection {name!r} exists already: {self.projections[name].function.__qualname__}")
        if kind_of(name) in self.inbox.handlers:
            raise BadSettings(f"projection {name!r} is in another Journal of this inbox: give this one another name")

        def decorate(function: Callable[..., Any]) -> Projection:
            self.projections[name] = made = Projection(function, name, **how)
            register(made, self.inbox, self._tail)
            return made

        return decorate

    @overload
    def append(self, conn: Connection[Any], stream: str, event: Any, *, expect: int | None = None) -> Appended: ...
    @overload
    def append(
        self, conn: AsyncConnection[Any], stream: str, event: Any, *, expect: int | None = None
    ) -> Awaitable[Appended]: ...
    def append(self, conn: Any, stream: str, event: Any, *, expect: int | None = None) -> Any:
        """Append an event, or a list of them, in the caller's transaction; awaitable if the connection is.

        `expect` is the last version that the caller has seen, 0 for a new stream: WrongVersion if it is another, and
        nothing is appended; the transaction goes on.
        """
        events: Sequence[Any] = event if isinstance(event, list) else [event]
        return run(conn, append(stream, events, expect=expect), self.inbox.schema)

    @overload
    def read(
        self, conn: Connection[Any], *, after: int = 0, of: Sequence[str] | None = None, limit: int = 500
    ) -> list[Event]: ...
    @overload
    def read(
        self, conn: AsyncConnection[Any], *, after: int = 0, of: Sequence[str] | None = None, limit: int = 500
    ) -> Awaitable[list[Event]]: ...
    def read(self, conn: Any, *, after: int = 0, of: Sequence[str] | None = None, limit: int = 500) -> Any:
        """Events after a position: whoever goes on after the last of them misses none and sees none twice.

        Fewer than `limit` may come while a transaction that appends is open. Needs READ COMMITTED.
        """
        return run(conn, read_after(after, of=of, limit=limit), self.inbox.schema)

    @overload
    def read_stream(self, conn: Connection[Any], stream: str, *, after: int = 0, limit: int = 500) -> list[Event]: ...
    @overload
    def read_stream(
        self, conn: AsyncConnection[Any], stream: str, *, after: int = 0, limit: int = 500
    ) -> Awaitable[list[Event]]: ...
    def read_stream(self, conn: Any, stream: str, *, after: int = 0, limit: int = 500) -> Any:
        """Events of one stream after a version."""
        return run(conn, read_stream(stream, after=after, limit=limit), self.inbox.schema)
