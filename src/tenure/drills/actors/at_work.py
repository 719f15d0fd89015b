"""What every actor with a real worker in it does: heed its drill, work until told to stop, and leave at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from ...worker.worker import Worker


def heed(word: Callable[[str], None]) -> None:
    """Call this with every further word, on a thread of its own; without a drill there is nobody to work for."""

    def listen() -> None:
        for line in sys.stdin:
            word(line.strip())
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()


def work(worker: Worker) -> None:
    """Until SIGTERM; the process has ended when the worker has."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    worker.at_last = _leave
    _leave(worker.run())


def _leave(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)  # a handler's thread may be waiting for an answer that nobody will give
