"""What the threads of a worker tell the claimer: the one way from any thread to its loop."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import NamedTuple

from .attempt import Attempt


class Note(NamedTuple):
    """There may be rows: a note from the database ("<bucket> <queue>", "queues"), or "" to look once more."""

    text: str = ""


class Buckets(NamedTuple):
    """The ring has changed: these buckets are ours; None for all."""

    ours: tuple[int, ...] | None


class News:
    """A queue: any thread puts, the claimer takes."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Attempt | Note | Buckets] = SimpleQueue()

    def ended(self, attempt: Attempt) -> None:
        """This attempt ended, or was let go: settle it."""
        self._queue.put(attempt)

    def wake(self, note: str = "") -> None:
        """There may be something to do."""
        self._queue.put(Note(note))

    def own(self, buckets: tuple[int, ...] | None) -> None:
        """These buckets are ours from now on; None: all of them."""
        self._queue.put(Buckets(buckets))

    @property
    def empty(self) -> bool:
        """True if everything was taken."""
        return self._queue.empty()

    def take(self, seconds: float) -> Iterator[Attempt | Note | Buckets]:
        """All news; waits at most these seconds for the first."""
        try:
            yield self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
            while True:
                yield self._queue.get_nowait()
        except Empty:
            return
