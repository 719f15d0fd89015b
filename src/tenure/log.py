"""Events as lines: for people, or one JSON object each."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from typing import Any, TextIO

from .events import Event


class Log:
    """A subscriber that writes each event to a stream. A stream that breaks is given up; the work goes on."""

    def __init__(self, stream: TextIO, *, as_json: bool = False) -> None:
        self._stream, self._as_json = stream, as_json
        self._lock = threading.Lock()
        self._broken = False

    def __call__(self, event: Event) -> None:
        """Write one line."""
        if self._broken or not event.news:
            return
        at = datetime.now(UTC)
        fields = event.fields()
        line = (
            json.dumps({"at": at.isoformat(), "level": event.level, **fields})
            if self._as_json
            else words(at, event, fields)
        )
        try:
            with self._lock:
                self._stream.write(line + "\n")
                self._stream.flush()
        except (OSError, ValueError):
            self._broken = True


def words(at: datetime, event: Event, fields: dict[str, Any]) -> str:
    """One line for people: time, what happened, and its facts; of an error only the last line."""
    facts = " ".join(f"{name}={short(value)}" for name, value in fields.items() if name != "event" and value != "")
    return printable(f"{at:%H:%M:%S.%f}"[:-3] + f" {event.level:<7} {event.name:<20} {facts}")


def short(value: Any) -> str:
    """A value as one word or in quotes; of a long text the last line."""
    if isinstance(value, float):
        return f"{value:.3f}"
    last = (str(value).strip().splitlines() or [""])[-1][:200]
    return json.dumps(last, ensure_ascii=False) if " " in last else last


def printable(text: str) -> str:
    r"""The text with all that cannot be seen written out, like \x1b: what others wrote must not steer a terminal."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
