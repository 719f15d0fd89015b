"""What the threads of a worker tell the claimer: the one way from any thread to its loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import NamedTuple

from .attempt import Attempt

LINGER_SECONDS = 0.005  # how long the end of a row waits for the rows behind it in its run


class Note(NamedTuple):
    """There may be rows: a note from the database ("<bucket> <queue>", "queues"), or "" to look once more."""

    text: str = ""

    @property
    def ordered(self) -> bool | None:
        """What kind of row came, by the zeros before its bucket: one for unordered, two for ordered; None: not said."""
        bucket, _, _ = self.text.partition(" ")
        zeros = len(bucket) - len(bucket.lstrip("0") or "0") if bucket.isdigit() else 0
        return {1: False, 2: True}.get(zeros)


class Buckets(NamedTuple):
    """The ring has changed: these buckets are ours; None for all."""

    ours: tuple[int, ...] | None


class News:
    """A queue: any thread puts, the claimer takes.

    Rows of a run that end one right after the other come together: the claimer is woken for the first of them and then
    waits a moment, unless there is other news.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Attempt | Note | Buckets | None] = SimpleQueue()
        self._in_runs: deque[Attempt] = deque()  # ended, and the next row of the run has begun
        self._told = False  # that there are some

    def ended(self, attempt: Attempt, *, goes_on: bool = False) -> None:
        """This attempt ended, or was let go: settle it. If its run goes on, soon is enough."""
        if not goes_on:
            self._queue.put(attempt)
            return
        self._in_runs.append(attempt)
        if not self._told:
            self._told = True
            self._queue.put(None)

    def wake(self, note: str = "") -> None:
        """There may be something to do."""
        self._queue.put(Note(note))

    def own(self, buckets: tuple[int, ...] | None) -> None:
        """These buckets are ours from now on; None: all of them."""
        self._queue.put(Buckets(buckets))

    @property
    def empty(self) -> bool:
        """True if everything was taken."""
        return self._queue.empty() and not self._in_runs

    def take(self, seconds: float) -> Iterator[Attempt | Note | Buckets]:
        """All news; waits at most these seconds for the first."""
        found: list[Attempt | Note | Buckets] = []
        try:
            first = self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
            if first is None and seconds > 0:  # else there is something to do meanwhile
                first = self._queue.get(timeout=LINGER_SECONDS)
            while True:
                if first is not None:
                    found.append(first)
                first = self._queue.get_nowait()
        except Empty:
            pass
        # Asked for last: an earlier row of a run is never behind a later one. Told first: what comes now tells again.
        self._told = False
        while self._in_runs:
            yield self._in_runs.popleft()
        yield from found
