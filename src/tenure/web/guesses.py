"""Whoever guesses secrets waits: longer after each wrong one, by address and by name."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from .http_errors import Refused

ADDRESS_FREE = 20  # wrong secrets before the first wait: many people may share an address
NAME_FREE = 5
WAIT_SECONDS_MAX = 60.0
FORGET_SECONDS = 900.0  # after the last wrong one
KEPT_MAX = 10_000  # addresses and names; the one that has been quiet longest is forgotten first
FRIENDS_MAX = 1000
SAME_MAX = 8
_now = time.monotonic


@dataclass(frozen=True, slots=True)
class Guess:
    """A secret that somebody shows: from where, for which name, and its digest."""

    address: str
    name: str | None
    digest: bytes


@dataclass(slots=True)
class _Wrong:
    """What was wrong at an address or for a name."""

    n: int = 0
    last_at: float = 0.0
    until: float = 0.0
    digests: deque[bytes] = field(default_factory=lambda: deque(maxlen=SAME_MAX))


class Guesses:
    """Counts wrong secrets. The same one again is no new guess: a client with an old secret does no harm.

    While a name is guessed, whoever came in with it before from the same address need not wait.
    """

    def __init__(self) -> None:
        self._wrong: dict[tuple[str, str], _Wrong] = {}
        self._friends: dict[tuple[str, str], None] = {}

    def check(self, guess: Guess) -> None:
        """Refuse if this address or name must wait."""
        now = _now()
        waits = [self._wrong[key].until - now for key in self._keys(guess) if key in self._wrong]
        if (seconds := max(waits, default=0.0)) > 0:
            said = f"{ceil(seconds)} s"
            sentence = f"too many wrong logins: check your name and secret, and try again in {said}"
            raise Refused(429, sentence, {"retry-after": str(ceil(seconds))})

    def wrong(self, guess: Guess) -> None:
        """It was wrong: the next one may have to wait."""
        now = _now()
        for key in self._keys(guess):
            found = self._wrong.pop(key, _Wrong())
            if now - found.last_at > FORGET_SECONDS:
                found = _Wrong()
            if guess.digest not in found.digests:
                found.digests.append(guess.digest)
                found.n += 1
                over = found.n - (ADDRESS_FREE if key[0] == "address" else NAME_FREE)
                found.until = now + min(WAIT_SECONDS_MAX, 2.0**over) if over >= 0 else 0.0
            found.last_at = now
            self._wrong[key] = found
        while len(self._wrong) > KEPT_MAX:
            self._wrong.pop(next(iter(self._wrong)))

    def right(self, guess: Guess) -> None:
        """It was right: nothing is held against this name any more, and its owner is at this address."""
        if guess.name is None:
            return
        self._wrong.pop(("name", guess.name), None)
        self._friends.pop((guess.address, guess.name), None)
        self._friends[guess.address, guess.name] = None
        while len(self._friends) > FRIENDS_MAX:
            self._friends.pop(next(iter(self._friends)))

    def _keys(self, guess: Guess) -> Iterator[tuple[str, str]]:
        yield "address", guess.address
        if guess.name is not None and (guess.address, guess.name) not in self._friends:
            yield "name", guess.name


class Tries:
    """Counts failed logins by address, to say so seldom: at the first, the 10th, the 100th … try."""

    def __init__(self) -> None:
        self._by_address: dict[str, tuple[int, float]] = {}

    def count(self, address: str) -> int | None:
        """The number of this try, if it is worth telling."""
        now = _now()
        n, last_at = self._by_address.pop(address, (0, now))
        n = 1 if now - last_at > FORGET_SECONDS else n + 1
        self._by_address[address] = (n, now)
        while len(self._by_address) > KEPT_MAX:
            self._by_address.pop(next(iter(self._by_address)))
        return n if str(n).rstrip("0") == "1" else None
