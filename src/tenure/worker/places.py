"""The inboxes that one process serves: where each of them is, and that no two of them are one database."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from psycopg import Error

from ..errors import BadSettings, TenureError
from ..postgres import migrate
from ..postgres.connection import QueueConnection, connect, soon_given_up
from ..postgres.patience import Patience
from ..postgres.runner import run
from ..verbs.questions import place

PATIENCE = Patience(statement_seconds=10)
AWAY_SECONDS = 10.0  # who did not answer is not asked again so soon: each question would wait for it


class Places:
    """Addresses by name; two of them may look different and lead to one database."""

    def __init__(self, urls: Mapping[str, str], schema: str) -> None:
        self.urls, self.schema = dict(urls), schema  # a node may join them
        self._lock, self._found = threading.Lock(), dict[str, str]()
        self._away_until: dict[str, float] = {}

    @contextmanager
    def others(self, here: str) -> Iterator[dict[str, QueueConnection]]:
        """Connections to all others that answer, and are inboxes of their own with the right schema."""
        with ExitStack() as stack:
            conns = {}
            for inbox, url in list(self.urls.items()):
                if inbox == here or time.monotonic() < self._away_until.get(inbox, 0.0):
                    continue
                try:
                    made = connect(soon_given_up(url), patience=PATIENCE, schema=self.schema, writes=True)
                    conns[inbox] = stack.enter_context(made)
                    self._know(inbox, made)
                except (Error, TenureError):
                    conns.pop(inbox, None)
                    self.missed(inbox)
            yield conns

    def _know(self, inbox: str, conn: QueueConnection) -> None:
        """Look at one that nobody has looked at: it was away when this process began."""
        if inbox not in self._found:
            migrate.require(conn, self.schema)
            self.check(inbox, run(conn, place()))

    def missed(self, inbox: str) -> None:
        """It did not answer."""
        self._away_until[inbox] = time.monotonic() + AWAY_SECONDS

    def check(self, inbox: str, place: str) -> None:
        """BadSettings if another name leads to this place: each row would count twice, and each limit, too."""
        with self._lock:
            for other, known in self._found.items():
                if known == place and other != inbox:
                    raise BadSettings(
                        f"inboxes {other!r} and {inbox!r} are one database by two addresses: give each one of its own"
                    )
            self._found[inbox] = place
