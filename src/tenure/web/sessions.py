"""Sessions of browsers that logged in: kept here, so that a logout ends them; a restart ends all of them."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Generic, NamedTuple, TypeVar

SESSION_SECONDS = 12 * 3600
SESSIONS_MAX = 1000
SESSIONS_EACH_MAX = 32
_now = time.monotonic
T = TypeVar("T")


class _Session(NamedTuple, Generic[T]):
    whose: T
    until: float


class Sessions(Generic[T]):
    """Who has which session; only digests of their secrets are kept. The oldest make room for new ones."""

    def __init__(
        self, seconds: float = SESSION_SECONDS, most: int = SESSIONS_MAX, each_most: int = SESSIONS_EACH_MAX
    ) -> None:
        self._seconds, self._most, self._each_most = seconds, most, each_most
        self._kept: dict[bytes, _Session[T]] = {}  # the oldest first

    def begin(self, whose: T) -> str:
        """The secret of a new session."""
        self._drop([digest for digest, each in self._kept.items() if each.until < _now()])
        own = [digest for digest, each in self._kept.items() if each.whose == whose]
        self._drop(own[: max(0, len(own) - self._each_most + 1)])
        self._drop(list(self._kept)[: max(0, len(self._kept) - self._most + 1)])
        secret = secrets.token_urlsafe(24)
        self._kept[_digest(secret)] = _Session(whose, _now() + self._seconds)
        return secret

    def find(self, secret: str) -> T | None:
        """Whose session this is, while it lasts."""
        found = self._kept.get(_digest(secret))
        return found.whose if found is not None and found.until >= _now() else None

    def end(self, secret: str) -> None:
        """End it, if there is one."""
        self._drop([_digest(secret)])

    def _drop(self, digests: list[bytes]) -> None:
        for each in digests:
            self._kept.pop(each, None)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
