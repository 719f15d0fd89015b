"""A signal wakes the loop: one that comes just before the loop falls asleep would wait for the next thing to happen."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def waking(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While this lasts, whatever thread gets a signal, Python's handler for it runs at once on the loop's thread.

    Python runs handlers on the main thread, when that is not asleep. Elsewhere there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.setblocking(False)
        loop.add_reader(ours, ours.recv, 4096)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)
