"""The server process: uvicorn with our app under its prefix; streams end at the first signal."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from types import FrameType

from starlette.applications import Starlette
from starlette.routing import Mount

from ..errors import BadSettings
from .app import lifespan

if find_spec("uvicorn") is None:
    raise BadSettings('tenure serve needs uvicorn: pip install "tenure[web]"')

import uvicorn

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
    """Ends its streams when it is told to stop; uvicorn alone would wait until every tab is closed."""

    def __init__(self, app: Starlette, prefix: str = "") -> None:
        outer = Starlette(routes=[Mount(prefix, app)], lifespan=lambda _outer: lifespan(app)) if prefix else app
        super().__init__(
            uvicorn.Config(
                outer,
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

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, then end the stages: a second signal skips the app's own end."""
        await super().serve(sockets)
        if self._site.hosts is not None:
            self._site.hosts.end()
