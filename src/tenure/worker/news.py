"""What the threads of a worker tell the claimer: the one way from any thread to its loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from ..model.rows import Settled
from .attempt import Attempt

LINGER_SECONDS = 0.005  # how long the end of an attempt waits for others that are about to end


class Note(NamedTuple):
    """There may be rows: a note from the database ("<bucket> <queue>", "queues"), or "" to look once more."""

    text: str = ""

    @property
    def bucket(self) -> str:
        """Where a row came to; "*" if several did."""
        return self.text.partition(" ")[0]

    @property
    def queue(self) -> str:
        """Its queue."""
        return self.text.partition(" ")[2]

    @property
    def ordered(self) -> bool | None:
        """What kind of row came, by the zeros before its bucket: one for unordered, two for ordered; None: not said."""
        bucket = self.bucket
        zeros = len(bucket) - len(bucket.lstrip("0") or "0") if bucket.isdigit() else 0
        return {1: False, 2: True}.get(zeros)


class Buckets(NamedTuple):
    """The ring has changed: these buckets are ours; None for all."""

    ours: tuple[int, ...] | None


class GivenBack(NamedTuple):
    """A batch of the completer's that is the claimer's again: with the database's answers, refused, or unanswered."""

    attempts: list[Attempt]
    answers: Sequence[Settled] | None
    since: int  # when its statement was sent, in ns
    refused: bool


Other = Note | Buckets | GivenBack


class News:
    """A queue: any thread puts, the claimer takes.

    Attempts that end one right after the other, in one turn of the loop or in one run, come together: the claimer is
    woken for the first of them and then waits a moment, unless there is other news.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Other | None] = SimpleQueue()
        self._ended: deque[Attempt] = deque()  # in the order in which they ended: a run is settled in its own
        self._told = self._hurried = False  # that there are some; that there is nothing to wait for

    def ended(self, attempt: Attempt, *, goes_on: bool = False) -> None:
        """This attempt ended, or was let go: settle it. If more is about to follow, soon is enough."""
        self._ended.append(attempt)
        if not goes_on:
            self.hurry()
        elif not self._told:
            self._told = True
            self._queue.put(None)

    def hurry(self) -> None:
        """Nothing more is about to follow what has ended."""
        if self._ended and not self._hurried:
            self._told = self._hurried = True
            self._queue.put(None)

    def wake(self, note: str = "") -> None:
        """There may be something to do."""
        self._queue.put(Note(note))

    def nudge(self) -> None:
        """Somebody has left a slot."""
        self._queue.put(None)

    def own(self, buckets: tuple[int, ...] | None) -> None:
        """These buckets are ours from now on; None: all of them."""
        self._queue.put(Buckets(buckets))

    def give_back(self, batch: GivenBack) -> None:
        """These are to be settled by the claimer."""
        self._queue.put(batch)

    @property
    def empty(self) -> bool:
        """True if everything was taken."""
        return self._queue.empty() and not self._ended

    def take(self, seconds: float, told: Callable[[Collection[Attempt]], object]) -> list[Other]:
        """All news; waits at most these seconds for the first. What ended is told first, and is here until it was."""
        found: list[Other] = []
        try:
            first = self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
            if first is None and seconds > 0 and not self._hurried:  # else there is something to do meanwhile
                first = self._queue.get(timeout=LINGER_SECONDS)
            while True:
                if first is not None:
                    found.append(first)
                first = self._queue.get_nowait()
        except Empty:
            pass
        # Told first: what comes now tells again.
        self._told = self._hurried = False
        ended = self._ended.copy()
        told(ended)
        for _ in ended:
            self._ended.popleft()
        return found
