"""Events as log lines, for people or as JSON; to a stream, or to the `tenure` logger of an application."""

from __future__ import annotations

import json
import logging
import threading
from datetime import UTC, datetime
from typing import Any, TextIO

from ..errors import telling_line
from ..events import Event


class Log:
    """A subscriber that writes each event to a stream. If the stream breaks, it stops writing; the work goes on."""

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
        line = as_json(at, event.level, fields) if self._as_json else words(at, event, fields)
        try:
            with self._lock:
                self._stream.write(line + "\n")
                self._stream.flush()
        except (OSError, ValueError):
            self._broken = True


class Bridge:
    """A subscriber that hands each event to the standard library's logger `tenure`, its fields as extras."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("tenure")

    def __call__(self, event: Event) -> None:
        """Log one event under its own level."""
        level = logging.getLevelNamesMapping()[event.level.upper()]
        if event.news and self._logger.isEnabledFor(level):
            fields = event.fields()
            self._logger.log(level, "%s %s", event.name, printable(facts(fields)), extra=fields)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: our events as `tenure worker --json` writes them, other records with text and extras."""

    _OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        extras = {name: value for name, value in vars(record).items() if name not in self._OWN}
        if "event" not in extras:
            extras = {"logger": record.name, "message": record.getMessage(), **extras}
        if record.exc_info:
            extras["traceback"] = self.formatException(record.exc_info)
        return as_json(datetime.fromtimestamp(record.created, UTC), record.levelname.lower(), extras)


def as_json(at: datetime, level: str, fields: dict[str, Any]) -> str:
    """One line for machines; values that JSON does not have are written as text."""
    return json.dumps({"at": at.isoformat(), "level": level, **fields}, default=str)


def words(at: datetime, event: Event, fields: dict[str, Any]) -> str:
    """One line for people: time, what happened, and its facts; of an error only the telling line."""
    return printable(f"{at:%H:%M:%S.%f}"[:-3] + f" {event.level:<7} {event.name:<20} {facts(fields)}")


def facts(fields: dict[str, Any]) -> str:
    """The fields of an event as name=value, without empty ones."""
    return " ".join(f"{name}={short(value)}" for name, value in fields.items() if name != "event" and value != "")


def short(value: Any) -> str:
    """A value as one word or in quotes; of a long text only the telling line."""
    if isinstance(value, float):
        return f"{value:.3f}"
    line = telling_line(str(value))[:200]
    return json.dumps(line, ensure_ascii=False) if " " in line else line


def printable(text: str) -> str:
    r"""The text with invisible characters written out, like \x1b: text from others must not control a terminal."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
