"""The server process: uvicorn with our app under its prefix; streams end at the first signal."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from functools import partial
from importlib.util import find_spec
from types import FrameType
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route

from ..errors import BadSettings
from .app import lifespan

if find_spec("uvicorn") is None:
    raise BadSettings('tenure serve needs uvicorn: pip install "tenure[web]"')

import uvicorn

from .connections import Connection, Connections, accepts_at_once, connections_max
from .seldom import Seldom
from .turns import Turns

BACKLOG = 2048
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LOG = logging.getLogger("tenure.web")
TICKS = 10  # uvicorn's, a tenth of a second each, between two looks at who is too late
LAST_SECONDS = (
    0.5  # for requests that are being answered: the server must end within a second, even if the database is stuck
)


def listen(host: str, port: int) -> socket.socket:
    """A listener with TCP_NODELAY: without it, an answer sent in two parts waits 40 ms for an acknowledgement."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host.strip("[]"), port), family=family)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class Server(uvicorn.Server):
    """uvicorn with limits: on connections, on how long clients may take, on its log.

    It ends its streams when it is told to stop; uvicorn alone would wait until every tab is closed.
    """

    def __init__(self, app: Starlette, prefix: str = "") -> None:
        self._connections = Connections(connections_max())
        outer = _below(prefix, app) if prefix else app
        super().__init__(
            uvicorn.Config(
                Turns(outer, prefix),
                http=partial(Connection, self._connections),  # type: ignore[arg-type]
                ws="none",
                backlog=accepts_at_once(),
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=LAST_SECONDS,  # type: ignore[arg-type]
            )
        )
        self._site = app.state.site

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, then do what uvicorn does; the signal is not raised again, so the exit code is 0."""
        self._site.close()
        super().handle_exit(sig, frame)
        self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, with a longer queue: its backlog is also how many asyncio accepts at once."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """As uvicorn's; once a second, close the connections of those who are too late."""
        if counter % TICKS == 0:
            self._connections.sweep()
        return await super().on_tick(counter)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, then end the stages: a second signal skips the app's own end."""
        asyncio.get_running_loop().set_exception_handler(_told)
        for name in ("uvicorn.error", "tenure.web"):
            logging.getLogger(name).addFilter(Seldom())
        await super().serve(sockets)
        if self._site.hosts is not None:
            self._site.hosts.end()


def _below(prefix: str, app: Starlette) -> Starlette:
    """An app with ours below this path; the path without its slash leads there, on whatever host."""

    async def lead(_request: Request) -> Response:
        return RedirectResponse(f"{prefix}/", 307)

    outer = Starlette(routes=[Route(prefix, lead), Mount(prefix, app)], lifespan=lambda _outer: lifespan(app))
    outer.router.redirect_slashes = False
    return outer


def _told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """One sentence where a connection cannot be accepted: asyncio tries again, and would log a traceback each time."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in OUT_OF_FILES:
        _LOG.warning("a connection could not be accepted (%s): raise `ulimit -n`", error.strerror)
    else:
        loop.default_exception_handler(context)
