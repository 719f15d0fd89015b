"""Follows the nodes of a Citus cluster: one whose address has changed is found again, one that has joined is served."""

from __future__ import annotations

import threading
from collections.abc import Callable

from psycopg import Error

from ..errors import TenureError
from ..postgres.citus_door import node_urls
from ..postgres.moved_nodes import moved, present
from .config import Terms

SOON_SECONDS = 1.0  # while one of the inboxes is away


class Nodes(threading.Thread):
    """Asks the coordinator at every heartbeat, and often while an inbox is away; if it does not answer, the nodes."""

    def __init__(self, terms: Terms, attend: Callable[[str, str], None], all_well: Callable[[], bool]) -> None:
        super().__init__(name="tenure-nodes", daemon=True)
        self._terms, self._attend, self._all_well = terms, attend, all_well
        self._served = dict(terms.shards)
        self._ended = threading.Event()

    def end(self) -> None:
        """Ask the thread to return soon."""
        self._ended.set()

    def run(self) -> None:
        """The thread itself."""
        while not self._ended.wait(self._terms.heartbeat_seconds if self._all_well() else SOON_SECONDS):
            self.follow()

    def follow(self) -> None:
        """Compare what the cluster says with what is served. What cannot be done now is tried at the next turn."""
        for inbox, url in self._asked().items():
            if inbox in self._served:
                moved(self._served[inbox], url)
                continue
            try:
                self._attend(inbox, url)
            except (Error, TenureError):  # its inbox is not there yet, or it does not answer
                continue
            self._served[inbox] = url

    def _asked(self) -> dict[str, str]:
        for url in (self._terms.citus, *map(present, self._served.values())):
            try:
                return node_urls(url, self._terms.schema)
            except (Error, TenureError):
                continue
        return {}
