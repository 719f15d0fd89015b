"""The dashboard beside the demo, served from a thread of this process: it ends with the process."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..web.access import Door

END_SECONDS_MAX = 15.0  # time to end a drill that somebody plays on the page, and to remove its schema


@contextmanager
def served(listener: socket.socket, database_url: str, schema: str, door: Door | None) -> Iterator[None]:
    """Serve on this listener while the block lasts; the door decides who gets in."""
    from ..web import app
    from ..web.serve import Server

    server = Server(app(database_url=database_url or None, schema=schema, access=door, drills=True))
    answering = server.serve([listener])
    thread = threading.Thread(target=lambda: _run(answering), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.handle_exit(signal.SIGTERM, None)
        thread.join(END_SECONDS_MAX)


def _run(answering: Coroutine[Any, Any, None]) -> None:
    """On a loop of its own that is closed: Python would close it at the end of the process, with a traceback."""
    with closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(answering)
