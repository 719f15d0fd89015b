"""The server's connections: at most so many, and each client has so long to send a request and to read its answer.

When all are taken, a new one takes the place of the client that has kept us waiting longest. So slow clients keep out
each other, and nobody else.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX = 1000
ACCEPTS_MAX = 64  # accepted at once, before the first of them is counted
OTHER_FILES = 48  # connections to the database, files of the dashboard
HEAD_SECONDS = 15.0  # to send a whole head, counted from the connection or from the answer before
BODY_SECONDS = 30.0
READ_SECONDS = 120.0  # to read on, where an answer is longer than the buffers


def accepts_at_once() -> int:
    """How many connections are accepted at once: few where few files may be open."""
    return max(4, min(ACCEPTS_MAX, _files_max() // 16))


def connections_max() -> int:
    """How many connections may be open: fewer than the files this process may open."""
    # Accepted, being closed and not yet closed: each may be a batch of its own.
    return max(8, min(CONNECTIONS_MAX, _files_max() - 4 * accepts_at_once() - OTHER_FILES))


def _files_max() -> int:
    try:
        import resource
    except ImportError:  # Windows counts them otherwise
        return 512
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1_000_000 if soft == resource.RLIM_INFINITY else soft


class Connections:
    """All connections of a server, and until when each client must do what we wait for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[Connection] = set()
        self._until: dict[Connection, float] = {}  # the one that we have waited for longest is the first

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, new: Connection) -> None:
        """Count a new one; if all are taken, close the one that we have waited for longest, else the new one."""
        self._open.add(new)
        if len(self._open) > self._most:
            self._end(next(iter(self._until), new))

    def await_client(self, whom: Connection, seconds: float) -> None:
        """From now on we wait for this client, so long."""
        self.await_nothing(whom)
        if whom in self._open:
            self._until[whom] = time.monotonic() + seconds

    def await_nothing(self, whom: Connection) -> None:
        """The client has done its part."""
        self._until.pop(whom, None)

    def leave(self, whom: Connection) -> None:
        """It is closed."""
        self._open.discard(whom)
        self.await_nothing(whom)

    def sweep(self) -> None:
        """Close those that are too late."""
        now = time.monotonic()
        for each in [each for each, until in self._until.items() if until < now]:
            self._end(each)

    def _end(self, whom: Connection) -> None:
        self.leave(whom)
        whom.transport.abort()  # `close` would wait until the client has read everything


class Connection(H11Protocol):
    """One connection: tells `Connections` when we begin to wait for its client, and when that is over."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self._awaited: tuple[str, object] = ("", None)  # a part of a request, and of which one

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._all.enter(self)
        self._await(HEAD_SECONDS, ("head", None))

    def data_received(self, data: bytes) -> None:
        """A part of a request came: wait on, or answer."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next head."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """The buffers are full: wait until the client reads."""
        super().pause_writing()
        self._await(READ_SECONDS, ("reader", self.cycle))

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._all.leave(self)
        super().connection_lost(exc)

    def _look(self) -> None:
        """What do we wait for? What comes in small parts must be whole in time: the time is not counted anew."""
        if self.cycle is None or self.cycle.response_complete:
            self._await(HEAD_SECONDS, ("head", self.cycle))
        elif self.cycle.more_body:
            self._await(BODY_SECONDS, ("body", self.cycle))
        else:
            self._awaited = ("", None)
            self._all.await_nothing(self)

    def _await(self, seconds: float, what: tuple[str, object]) -> None:
        if what != self._awaited:
            self._awaited = what
            self._all.await_client(self, seconds)
