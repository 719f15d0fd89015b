"""The tail: one look at the horizon for all shards of a process, woken by a note, else every quarter of a second."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...verbs.journal import Horizon, await_events, horizon
from ...verbs.statement import Statement

TAIL_SECONDS = 0.25  # from one look to the next while nothing comes
WISH_SECONDS = 10.0  # for how long writers are asked for notes


@dataclass(frozen=True, slots=True)
class Hear:
    """Listen on this channel until a note comes, at most for TAIL_SECONDS; None: stop listening."""

    channel: str | None


class Tail:
    """Of all shards with nothing to do one looks, without I/O of its own, and rings the others."""

    def __init__(self) -> None:
        self.name = f"tail-{secrets.token_hex(6)}"
        self.horizon = 0
        self._channel = ""
        self._wished_until = float("-inf")
        self._watch = threading.Lock()  # held by the one who looks
        self._lock = threading.Lock()
        self._bells: list[Callable[[], object]] = []

    def past(self, position: int) -> bool:
        """True if it is known that there is more than this."""
        return self.horizon > position

    @contextmanager
    def watching(self) -> Iterator[bool]:
        """True for the one who shall look."""
        mine = self._watch.acquire(blocking=False)
        try:
            yield mine
        finally:
            if mine:
                self._watch.release()

    @contextmanager
    def rung_by(self, bell: Callable[[], object]) -> Iterator[None]:
        """Ring this bell when there is more."""
        with self._lock:
            self._bells.append(bell)
        try:
            yield
        finally:
            with self._lock:
                self._bells.remove(bell)

    def look(self, position: int) -> Generator[Statement[Any] | Hear, Any, None]:
        """Look; if there is nothing new, ask for notes, look again, and listen for a moment.

        The wish stands before the second look: who commits after that look has seen the wish, or is seen by the next.
        """
        if self._saw((yield horizon()), position):
            if time.monotonic() < self._wished_until:  # busy again: writers need not notify
                self._wished_until = float("-inf")
                yield await_events(self.name, 0.0)
            return
        if time.monotonic() > self._wished_until:
            self._wished_until = time.monotonic() + WISH_SECONDS / 2
            self._channel = yield await_events(self.name, WISH_SECONDS)
            if self._saw((yield horizon()), position):
                return
        yield Hear(self._channel)
        self._saw((yield horizon()), position)
        yield Hear(None)

    def _saw(self, found: Horizon, position: int) -> bool:
        with self._lock:
            grown = found.position > self.horizon
            self.horizon = max(self.horizon, found.position)
            bells = list(self._bells) if grown else []
        for bell in bells:
            bell()
        return self.past(position)
