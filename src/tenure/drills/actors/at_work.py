"""What every actor with a real worker does: obey its drill, work until told to stop, and exit at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from ...worker.worker import Worker


def heed(word: Callable[[str], None]) -> None:
    """Call `word` with every line of stdin, on a thread; the process exits when the drill is gone."""

    def listen() -> None:
        for line in sys.stdin:
            word(line.strip())
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()


def work(worker: Worker) -> None:
    """Run the worker until SIGTERM; then the process exits."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    _leave(worker.run(at_last=_leave))


def _leave(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)  # a handler's thread may wait for an answer that never comes
