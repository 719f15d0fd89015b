"""A thread with a line to the database: connected anew for as long as it takes, saying so once, at a pace."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..events import Bus, DatabaseBack, DatabaseUnreachable, StatementTurnedAway
from ..model.jitter import Pace, jittered
from ..postgres.connection import Patience, QueueConnection, connect
from ..postgres.sqlstates import trouble_of
from ..telemetry.tally import Tally
from ..telemetry.tracing import Tracing
from .config import Terms, new_worker_id

AGAIN_SECONDS = 0.2  # before a statement that was turned away goes again


@dataclass(slots=True)
class Crew:
    """What the threads of one worker share."""

    terms: Terms
    bus: Bus
    failed: Callable[[BaseException], None]  # what to do when a thread of ours meets a bug: the worker must not limp on
    worker: str = ""  # a worker declared dead goes on under another id
    tally: Tally = field(default_factory=Tally)
    tracing: Tracing = field(default_factory=Tracing)

    def __post_init__(self) -> None:
        self.worker = self.worker or new_worker_id(self.terms.name)


class Line(threading.Thread):
    """Runs `work(conn)` until ended. When the database goes away, connects again and runs it again."""

    def __init__(self, who: str, crew: Crew, url: str, patience: Patience) -> None:
        super().__init__(name=f"tenure-{who}", daemon=True)
        self.who, self.crew, self._url, self._patience = who, crew, url, patience
        self.ended = threading.Event()
        self.connected = False
        self._pace = Pace()
        self._away_since: float | None = None

    def work(self, conn: QueueConnection) -> None:
        """What is done while the database answers; returns when ended."""
        raise NotImplementedError

    def cut_off(self) -> None:
        """Called when the line is lost, before the first wait."""

    def turned_away(self) -> None:
        """Called when a statement was refused in good order (a lock, a deadlock), before it is tried again."""

    def end(self) -> None:
        """Ask the thread to return soon."""
        self.ended.set()

    def run(self) -> None:
        """The thread itself."""
        try:
            while not self.ended.is_set():
                self._stretch()
        except BaseException as error:
            self.crew.failed(error)

    def _stretch(self) -> None:
        """From one connection to its loss."""
        try:
            with connect(
                self._url, application_name=f"tenure {self.who} {self.crew.worker}", patience=self._patience
            ) as conn:
                self._until_away(conn)
        except Exception as error:
            if trouble_of(error) == "bug":
                raise
            self._lost(error)

    def _until_away(self, conn: QueueConnection) -> None:
        while not self.ended.is_set():
            try:
                self.work(conn)
            except Exception as error:
                if trouble_of(error) != "again":
                    raise
                if self.crew.bus.each_job:
                    self.crew.bus.emit(StatementTurnedAway(self.crew.worker, self.who, *_words(error)))
                self.turned_away()
                self.ended.wait(jittered(AGAIN_SECONDS, random.random()))  # noqa: S311

    def answered(self) -> None:
        """Called by `work` when a round went well: a server that lets us in and refuses every statement is not back."""
        if self.connected:
            return
        self.connected = True
        self._pace.reset()
        if self._away_since is not None:
            self.crew.bus.emit(DatabaseBack(self.crew.worker, self.who, time.monotonic() - self._away_since))
            self._away_since = None

    def _lost(self, error: Exception) -> None:
        self.connected = False
        if self._away_since is None:
            self._away_since = time.monotonic()
            self.crew.bus.emit(DatabaseUnreachable(self.crew.worker, self.who, *_words(error)))
        self.cut_off()
        self.ended.wait(self._pace.next(random.random()))  # noqa: S311


def _words(error: Exception) -> tuple[str, str]:
    """What an error says, in one line, and of which class it is."""
    return " ".join(str(error).split())[:300], type(error).__name__
