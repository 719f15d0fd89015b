"""The tail: what happens in a worker, sent to whoever watches, and to nobody as long as nobody does.

`tenure tail` says "tail" to the fleet every ten seconds. A worker that hears it sends its events for the next thirty.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..events import Event

DROPPED = "tail_dropped"
NOTE = "tail"  # what the fleet is told by those who watch
ASK_SECONDS = 10.0
WATCHED_SECONDS = 30.0  # how long one such note is believed
EVENTS_MAX = 500  # two seconds of what can be sent: a tail that lags shows what is, not what was
PAYLOAD_BYTES_MAX = 7500  # Postgres takes notes of less than 8000
PAYLOADS_MAX = 2  # in one go, and a go every PAUSE_SECONDS: about ten a second
PAUSE_SECONDS = 0.15  # a little less than a tick of the thread that sends them
TEXT_MAX = 140  # characters of one text: a traceback is not what a tail is for, and the longest event must fit


def channel_of(fleet: str) -> str:
    """The channel on which the fleet of this channel is watched."""
    return f"{fleet}_{NOTE}"


class Tailer:
    """Keeps events for those who watch: `switch(True)` is called when the first comes, `switch(False)` when all left.

    It is called as a subscriber from any thread; `hear` and `drain` by the one thread that talks to the database, with
    its monotonic clock.
    """

    def __init__(self, switch: Callable[[bool], None]) -> None:
        self._switch = switch
        self._lock = threading.Lock()
        self._events: deque[tuple[datetime, Event]] = deque(maxlen=EVENTS_MAX)
        self._dropped = 0
        self._over = ""
        self._watched_until: float | None = None
        self._next_at = 0.0

    def __call__(self, event: Event) -> None:
        """Keep one event; when too many wait, the oldest goes and is counted."""
        if not event.news:
            return
        with self._lock:
            self._dropped += len(self._events) == EVENTS_MAX
            self._events.append((datetime.now(UTC), event))

    def hear(self, at: float) -> None:
        """Somebody watches."""
        began = self._watched_until is None
        self._watched_until = at + WATCHED_SECONDS
        if began:
            self._switch(True)

    def drain(self, at: float) -> list[str]:
        """What to send now: a few payloads of whole lines, the oldest first; most of the time nothing."""
        if self._watched_until is None or at < self._next_at:
            return []
        if at >= self._watched_until:
            self._leave()
            return []
        self._next_at = at + PAUSE_SECONDS
        payloads = [self._payload() for _ in range(PAYLOADS_MAX)]
        return [payload for payload in payloads if payload]

    def _leave(self) -> None:
        self._watched_until = None
        self._switch(False)
        with self._lock:
            self._events.clear()
            self._dropped, self._over = 0, ""

    def _payload(self) -> str:
        """As many lines as one note takes."""
        lines: list[str] = []
        room = PAYLOAD_BYTES_MAX
        while line := self._next_line():
            if len(line) > room:
                self._over = line
                break
            lines.append(line)
            room -= len(line) + 1
        return "\n".join(lines)

    def _next_line(self) -> str:
        """What did not fit last time, then how many were dropped since, then the oldest event."""
        if self._over:
            line, self._over = self._over, ""
            return line
        with self._lock:
            n, self._dropped = self._dropped, 0
            kept = self._events.popleft() if self._events and not n else None
        if n:
            return json.dumps({"event": DROPPED, "n": n})
        return as_line(*kept) if kept else ""


def as_line(at: datetime, event: Event) -> str:
    """One event as JSON in plain ASCII: every server takes it, whatever its encoding."""
    fields = {name: _short(value) for name, value in event.fields().items()}
    return json.dumps({"at": at.isoformat(timespec="milliseconds"), "level": event.level, **fields})


def _short(value: Any) -> Any:
    """Of a long text its end, which is where a traceback says what went wrong."""
    return f"…{value[-TEXT_MAX:]}" if isinstance(value, str) and len(value) > TEXT_MAX else value
