"""The completer: completes large batches on a connection of its own, while the claimer claims the next rows.

              a large batch, and this thread is ready                      all applied
    claimer ──────────────────────────────────────────▶ completer ──────────────────────▶ settled
       ▲                                                    │
       │    given back: refused for a moment, some          │
       └──── not applied, or the connection was lost ◀──────┘

A batch belongs to one of the two at a time: what the claimer hands over it no longer sends, and what comes back it
settles as if it had never left. Only unordered rows are handed over: no key and no permit waits for their end. Small
rounds are settled and claimed in one trip, by the claimer alone; this thread starts with the first large one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from ..model.rows import Settled
from ..postgres.connection import QueueConnection
from ..postgres.patience import Patience
from ..postgres.runner import run
from ..verbs.questions import ping
from ..verbs.settle import AllCompleted
from .db_thread import DbThread
from .held import HeldAttempts
from .news import GivenBack, News
from .reports import completed
from .settler import Batch, Settler
from .shared import Shared

LARGE = 100  # rows: below, one trip for both costs less than two connections


class Completer(DbThread):
    """Has at most one batch; `ready` says that it has none and is connected."""

    def __init__(self, shared: Shared, held: HeldAttempts, news: News, patience: Patience) -> None:
        super().__init__("completer", shared, shared.terms.url, patience)
        self._held, self._news = held, news
        self._changing = threading.Lock()  # of the two below: whose the batch is
        self._batch: Batch | None = None
        self._ready = False
        self._called = threading.Event()  # there is a batch, or something else to see
        self._anew = False  # connect again

    # -- called by the claimer

    def relieve(self, settler: Settler) -> None:
        """Take a large batch of its attempts. Their slots are free at once: the handlers have returned."""
        if len(settler.unsettled) < LARGE or settler.one_by_one:
            return
        if self.ident is None:
            self.start()
        if (batch := self.take(partial(settler.hand_over, LARGE))) is not None:
            self._held.vacate(batch[0])

    def take(self, make: Callable[[], Batch | None]) -> Batch | None:
        """The batch that this makes is ours from now on; None if there is none, or if this thread is not ready."""
        with self._changing:
            if not self._ready or self._batch is not None:
                return None
            made = self._batch = make()
        if made is not None:
            self._called.set()
        return made

    @property
    def busy(self) -> bool:
        """True while it has a batch."""
        return self._batch is not None

    def connect_again(self) -> None:
        """The claimer's connection was lost: its next one may be to another server; this one must follow."""
        with self._changing:
            self._ready, self._anew = False, True
        self._called.set()

    def end(self) -> None:
        """Ask the thread to return soon."""
        super().end()
        self._called.set()

    # -- the thread

    def work(self, conn: QueueConnection) -> None:
        """Batch after batch."""
        run(conn, ping())
        self.worked()
        with self._changing:
            self._ready = not self._anew
        while not self.done:
            self._called.wait()
            self._called.clear()
            if self._batch is not None:
                self._complete(conn, self._batch)

    @property
    def done(self) -> bool:
        """True if this connection is needed no longer."""
        return self._anew or super().done

    def _connect_and_work(self) -> None:
        self._anew = False
        super()._connect_and_work()

    def _complete(self, conn: QueueConnection, batch: Batch) -> None:
        attempts, statement = batch
        since = time.time_ns()
        answers = run(conn, statement)
        if not isinstance(answers, AllCompleted):
            self._give_back(answers, since)
            return
        tracing = self.shared.tracing
        if tracing.on:
            tracing.settled(self.shared.worker_id, answers, [attempt.trace for attempt in attempts], since)
        for attempt in attempts:
            attempt.settle()
        self._held.end(attempts)
        completed(self.shared, attempts, time.monotonic())
        self._batch = None  # the last step: until then the worker is not idle

    def connection_lost(self) -> None:
        """Nobody knows what became of the batch: the claimer asks."""
        self._ready = False
        self._give_back()

    def statement_refused(self) -> None:
        """A row is locked, or something else was: the claimer goes round it."""
        self._give_back(refused=True)

    def _give_back(self, answers: Sequence[Settled] | None = None, since: int = 0, *, refused: bool = False) -> None:
        with self._changing:
            if self._batch is not None:
                self._news.give_back(GivenBack(self._batch[0], answers, since, refused))
            self._batch = None
