"""The tail: a worker sends its events to those who watch, and to nobody while nobody watches.

`tenure tail` sends the note "tail" to the fleet every ten seconds. A worker that hears it sends its events for the next
thirty seconds.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..events import Event

DROPPED = "tail_dropped"
NOTE = "tail"  # the note of those who watch
ASK_SECONDS = 10.0
WATCHED_SECONDS = 30.0  # for how long one such note counts
EVENTS_MAX = 500  # as many as can be sent in two seconds: a tail that is late drops old events
PAYLOAD_BYTES_MAX = 7500  # Postgres accepts notes below 8000 bytes
PAYLOADS_MAX = 2  # at once, every PAUSE_SECONDS: about ten a second
PAUSE_SECONDS = 0.15  # a little less than a tick of the sending thread
TEXT_MAX = 120  # characters of one text: no whole tracebacks, and the longest event must fit


def channel_of(fleet: str) -> str:
    """The channel on which the events of this fleet are sent."""
    return f"{fleet}_{NOTE}"


def events_of(note: str) -> dict[str, dict[str, Any]]:
    """The events in a note, by their lines. Whoever may connect may send a note: what is no event is left out."""
    found = {}
    for line in note.split("\n"):
        with contextlib.suppress(ValueError, RecursionError):
            event = json.loads(line, parse_constant=_refused)
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                found[line] = event
    return found


def _refused(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


class Tailer:
    """Keeps events for those who watch: calls `switch(True)` when somebody watches, `switch(False)` when nobody does.

    Any thread calls it as a subscriber; only the thread with the connection calls `hear` and `drain`, with its
    monotonic clock.
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
        """Keep one event; if there are too many, drop the oldest and count it."""
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
        """The payloads to send now: whole lines, the oldest first; mostly none."""
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
        """As many lines as fit into one note."""
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
        """The line that did not fit last time, then how many were dropped since, then the oldest event."""
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
    """One event as JSON in ASCII: every server accepts it, whatever its encoding."""
    fields = {name: _short(value) for name, value in event.fields().items()}
    return json.dumps({"at": at.isoformat(timespec="milliseconds"), "level": event.level, **fields})


def _short(value: Any) -> Any:
    """The end of a long text, where a traceback says what went wrong."""
    return f"…{value[-TEXT_MAX:]}" if isinstance(value, str) and len(value) > TEXT_MAX else value
