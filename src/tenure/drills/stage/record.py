"""The record of a stage: everything said on it, numbered, for whoever comes late or comes back."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from .said import Said

SAID_MAX = 5000
PICTURES_MAX = 600


class Told(NamedTuple):
    """One thing said, numbered from 1 and ready to send."""

    n: int
    event: str
    line: bytes


class Record:
    """Written by one thread and read by any, without a lock: out of a signal handler, too."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._n = self._pictures = 0
        self._wakes: list[Callable[[], None]] = []

    def keep(self, said: Said) -> None:
        """Write it down and wake whoever listens."""
        self._n += 1
        self._pictures += said.event == "picture"
        own = {"n": self._n, "at": round(said.at, 3), "who": said.who, "event": said.event}
        self._told.append(Told(self._n, said.event, msgspec.json.encode({**said.fields, **own}, enc_hook=str)))
        if len(self._told) > SAID_MAX or self._pictures > PICTURES_MAX:
            self._told = shortened(self._told)
            self._pictures = sum(told.event == "picture" for told in self._told)
        self.wake()

    def since(self, n: int) -> list[Told]:
        """What was said after the n-th, as far as it is kept: of many pictures the older ones are not."""
        told = self._told
        return told[bisect.bisect_right(told, n, key=lambda each: each.n) :]

    @contextmanager
    def heard(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call this, on whatever thread, whenever there may be something new."""
        self._wakes.append(wake)
        try:
            yield
        finally:
            self._wakes.remove(wake)

    @property
    def hearers(self) -> int:
        """How many listen."""
        return len(self._wakes)

    def wake(self) -> None:
        """Let everybody look."""
        for wake in list(self._wakes):
            wake()


def shortened(told: list[Told]) -> list[Told]:
    """Without the older half of its pictures; without its oldest tenth where there are none to spare."""
    pictures = [each.n for each in told if each.event == "picture"]
    if len(pictures) < 2:
        return told[len(told) // 10 :]
    middle = pictures[len(pictures) // 2]
    return [each for each in told if each.event != "picture" or each.n >= middle]
