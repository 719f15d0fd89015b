"""A thread with a connection to the database: it connects again for as long as it takes, and says so once.

          connect                    work returns: ended
apart ──────────────▶ connected ─────────────────────────▶ done
  ▲                    │     ▲
  │ connection lost    │     │ statement refused (lock, deadlock): a short pause,
  └────────────────────┘     └── then `work` again on the same connection
"""

from __future__ import annotations

import random
import threading
import time

from ..events import DatabaseBack, DatabaseUnreachable, StatementTurnedAway
from ..model.jitter import Pace, jittered
from ..postgres.connection import QueueConnection, connect
from ..postgres.patience import Patience
from ..postgres.sqlstates import trouble_of
from .shared import Shared

AGAIN_SECONDS = 0.2  # before a refused statement runs again


class DbThread(threading.Thread):
    """Runs `work(conn)` until ended. When the connection is lost, it connects again and runs it again."""

    def __init__(self, who: str, shared: Shared, url: str, patience: Patience) -> None:
        super().__init__(name=f"tenure-{who}", daemon=True)
        self.who, self.shared, self._url, self._patience = who, shared, url, patience
        self.ended = threading.Event()
        self.connected = False
        self._pace = Pace()
        self._away_since: float | None = None

    def work(self, conn: QueueConnection) -> None:
        """What is done while the database answers; returns when ended."""
        raise NotImplementedError

    def connection_lost(self) -> None:
        """Called when the connection is lost, before the first pause."""

    def statement_refused(self) -> None:
        """Called when a statement was refused (a lock, a deadlock), before it runs again."""

    def end(self) -> None:
        """Ask the thread to return soon."""
        self.ended.set()

    def run(self) -> None:
        """The thread itself."""
        try:
            while not self.ended.is_set():
                self._connect_and_work()
        except BaseException as error:
            self.shared.failed(error)

    def _connect_and_work(self) -> None:
        """From one connection to its loss."""
        name = f"tenure {self.who} {self.shared.worker_id}"
        schema = self.shared.terms.schema
        try:
            with connect(self._url, application_name=name, patience=self._patience, schema=schema, writes=True) as conn:
                self._work_until_lost(conn)
        except Exception as error:
            if trouble_of(error) == "bug":
                raise
            self._lost(error)

    @property
    def away(self) -> bool:
        """True while the database does not answer; one that is only just connecting is not away."""
        return self._away_since is not None

    @property
    def done(self) -> bool:
        """True if this connection is needed no longer."""
        return self.ended.is_set()

    def _work_until_lost(self, conn: QueueConnection) -> None:
        while not self.done:
            try:
                self.work(conn)
            except Exception as error:
                if trouble_of(error) != "again":
                    raise
                if self.shared.bus.each_job:
                    self.shared.bus.emit(StatementTurnedAway(self.shared.worker_id, self.who, *_words(error)))
                self.statement_refused()
                self.ended.wait(jittered(AGAIN_SECONDS, random.random()))  # noqa: S311

    def worked(self) -> None:
        """Called by `work` after a good round: a server that lets us in and refuses every statement is not back."""
        if self.connected:
            return
        self.connected = True
        self._pace.reset()
        if self._away_since is not None:
            self.shared.away_seconds = away_seconds = time.monotonic() - self._away_since
            self._away_since = None
            self.shared.bus.emit(DatabaseBack(self.shared.worker_id, self.who, away_seconds))

    def _lost(self, error: Exception) -> None:
        self.connected = False
        if self._away_since is None:
            self._away_since = time.monotonic()
            self.shared.bus.emit(DatabaseUnreachable(self.shared.worker_id, self.who, *_words(error)))
        self.connection_lost()
        self.ended.wait(self._pace.next(random.random()))  # noqa: S311


def _words(error: Exception) -> tuple[str, str]:
    """The text of an error in one line, and its class."""
    return " ".join(str(error).split())[:300], type(error).__name__
