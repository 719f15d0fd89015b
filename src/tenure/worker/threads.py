"""Threads for plain handlers: started as they are needed, at most one a slot, all with one queue.

They are daemons: nothing ends a thread, so one that does not return must not keep its process alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

Work = Callable[[], object]


class Threads:
    """Runs what it is given, each in a thread that has nothing else to do."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._n = 0
        self._idle = 0  # threads that wait, without those that have work in the queue
        self._closed = False

    def run(self, work: Work) -> None:
        """From any thread; raises RuntimeError if no thread can be started, or none should be any more."""
        with self._lock:
            if self._closed:
                raise RuntimeError("its worker was stopped")
            if self._idle > 0 or self._n >= self._most:
                self._idle -= 1  # if all are at work, it waits for the next that has ended
            else:
                threading.Thread(target=self._live, name=f"tenure-handler_{self._n}", daemon=True).start()
                self._n += 1
        self._queue.put(work)

    def _live(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
            with self._lock:
                self._idle += 1

    def close(self) -> None:
        """Start no more; threads end when they have returned. What waits in the queue is not run."""
        with self._lock:
            self._closed = True
            n = self._n
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        for _ in range(n):
            self._queue.put(None)
