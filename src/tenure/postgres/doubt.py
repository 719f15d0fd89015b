"""Is an answer still to come? Ask the server about a session that has been silent, on another connection.

A peer can acknowledge packets and never answer: a stuck pooler, a proxy that lost one side. Silence alone does not tell
this from a long statement. But the server knows: while it works on the statement, the session is active; if the session
is gone, or waits for us while we wait for it, no answer will come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

UNANSWERED_SECONDS_MAX = 60.0  # a silent session is given up if the server cannot be asked about it for this long

Asks = Callable[[int], list[tuple[str | None, str | None]]]


class Doubts(NamedTuple):
    """Whom to ask about a session, and after how many seconds of silence."""

    asks: Asks
    after_seconds: float

    def about(self, pid: int) -> Doubt:
        """The doubts about one wait for this session."""
        return Doubt(self.asks, pid, self.after_seconds)


class Doubt:
    """The doubts about one wait: asks again and again, in the background, for as long as there is silence."""

    def __init__(self, asks: Asks, pid: int, every_seconds: float) -> None:
        self._asks, self._pid, self._every = asks, pid, every_seconds
        self._next, self._known = every_seconds, 0.0  # in seconds of silence
        self._asking: threading.Thread | None = None
        self._found: str | None = None  # why no answer will come; None if nobody could be asked
        self._in_a_row = 0  # an answer may have been on its way: only what is found twice counts

    def verdict(self, silent_seconds: float) -> str:
        """For how long there was none, and why no answer will come; empty while one may. Returns at once."""
        if self._asking is not None and not self._asking.is_alive():
            self._learn(silent_seconds)
        if self._asking is None and silent_seconds >= self._next:
            self._asking = threading.Thread(target=self._ask, name="tenure-doubt", daemon=True)
            self._asking.start()
        if self._found and self._in_a_row > 1:
            return f"{silent_seconds:.0f} s, {self._found}"
        if silent_seconds - self._known > UNANSWERED_SECONDS_MAX + self._every:
            return f"{silent_seconds:.0f} s, and cannot be asked about it"
        return ""

    def _learn(self, silent_seconds: float) -> None:
        self._asking = None
        self._next = silent_seconds + min(1.0, self._every)
        if self._found is None:
            return
        self._known = silent_seconds
        if self._found:
            self._in_a_row += 1
        else:
            self._in_a_row, self._next = 0, silent_seconds * 2  # a long statement is asked about ever less often

    def _ask(self) -> None:
        try:
            found = self._asks(self._pid)
        except Exception:
            self._found = None
            return
        self._found = fate(found)


def fate(found: list[tuple[str | None, str | None]]) -> str:
    """Why a session with this state will not answer; empty if it may."""
    if not found:
        return "and its session is gone"
    ((state, waits_for),) = found
    if (state or "").startswith("idle") or waits_for == "ClientRead":
        return "and the server waits for us"
    return ""
