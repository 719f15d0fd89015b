"""The inboxes that one process serves: where each of them is, and that no two of them are one database."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ..errors import BadSettings


class Places:
    """Addresses by name; two of them may look different and lead to one database."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self.urls = dict(urls)
        self._lock, self._found = threading.Lock(), dict[str, str]()

    def check(self, inbox: str, place: str) -> None:
        """BadSettings if another name leads to this place: each row would count twice, and each limit, too."""
        with self._lock:
            for other, known in self._found.items():
                if known == place and other != inbox:
                    raise BadSettings(
                        f"inboxes {other!r} and {inbox!r} are one database by two addresses: give each one of its own"
                    )
            self._found[inbox] = place
