"""Logins at the provider that have begun. Each browser keeps its own, signed: so strangers cannot crowd others out."""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from typing import NamedTuple

FLOW_SECONDS = 600
USED_MAX = 10_000
_now = time.monotonic


class Flow(NamedTuple):
    """A login that has begun: what only this server and the provider know of it."""

    nonce: str
    verifier: str


class Flows:
    """Makes logins and knows them again: nonce and verifier are made of the state, by a key of this process.

    Only states that came back are kept, so that each is good once; of too many, the oldest are forgotten. A code of
    the provider is good once, too.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._used: dict[str, float] = {}  # until when; the oldest first

    def begin(self) -> tuple[str, Flow]:
        """A new state, which goes to the provider and into the browser's cookie, and its flow."""
        words = f"{int(_now() + FLOW_SECONDS):x}.{secrets.token_urlsafe(24)}"
        state = f"{words}.{self._made('state', words)}"
        return state, self._flow(state)

    def take(self, state: str) -> Flow | None:
        """The flow of this state; None if it is not ours, too old, or was taken before."""
        words, _, sign = state.rpartition(".")
        if not hmac.compare_digest(sign.encode(errors="surrogatepass"), self._made("state", words).encode()):
            return None
        until = int(words.partition(".")[0], 16)
        if until < _now() or state in self._used:
            return None
        self._used[state] = until
        while len(self._used) > USED_MAX or next(iter(self._used.values())) < _now():
            self._used.pop(next(iter(self._used)))
        return self._flow(state)

    def _flow(self, state: str) -> Flow:
        return Flow(self._made("nonce", state), self._made("verifier", state))

    def _made(self, what: str, words: str) -> str:
        digest = hmac.digest(self._key, f"{what} {words}".encode(errors="surrogatepass"), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
