"""The record of a stage: every event, numbered, so that a reader can come late or come back."""

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
    """One event, numbered from 1 and ready to send."""

    n: int
    event: str
    line: bytes


class Record:
    """Written by one thread and read by any, without a lock, so that a signal handler can use it."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._n = self._pictures = 0
        self._wakes: list[Callable[[], None]] = []

    def keep(self, said: Said) -> None:
        """Record an event and wake its readers."""
        self._n += 1
        self._pictures += said.event == "picture"
        own = {"n": self._n, "at": round(said.at, 3), "who": said.who, "event": said.event}
        self._told.append(Told(self._n, said.event, msgspec.json.encode({**said.fields, **own}, enc_hook=str)))
        if len(self._told) > SAID_MAX or self._pictures > PICTURES_MAX:
            self._told = shortened(self._told)
            self._pictures = sum(told.event == "picture" for told in self._told)
        self.wake()

    def since(self, n: int) -> list[Told]:
        """The events after the n-th; older pictures may be gone."""
        told = self._told
        return told[bisect.bisect_right(told, n, key=lambda each: each.n) :]

    @contextmanager
    def heard(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake`, on any thread, whenever there may be something new."""
        self._wakes.append(wake)
        try:
            yield
        finally:
            self._wakes.remove(wake)

    @property
    def hearers(self) -> int:
        """How many readers there are."""
        return len(self._wakes)

    def wake(self) -> None:
        """Wake every reader."""
        for wake in list(self._wakes):
            wake()


def shortened(told: list[Told]) -> list[Told]:
    """Without the older half of its pictures; without its oldest tenth if there are fewer than two."""
    pictures = [each.n for each in told if each.event == "picture"]
    if len(pictures) < 2:
        return told[len(told) // 10 :]
    middle = pictures[len(pictures) // 2]
    return [each for each in told if each.event != "picture" or each.n >= middle]
