"""Events as log lines, for people or as JSON; to a stream, or to the `tenure` logger of an application."""

from __future__ import annotations

import json
import logging
import sys
import threading
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from ..errors import telling_line
from ..events import Event

JSON_STREAMS: list[TextIO] = []  # those that must have JSON lines only; a child process does as its worker


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


def all_as_json(stream: TextIO) -> None:
    """From now on this process writes only JSON lines: also what libraries log, warnings, and errors of threads.

    Where an application has set up logging, its own handlers go on as they are.
    """
    last = logging.StreamHandler(stream)
    last.setFormatter(JsonFormatter())
    last.setLevel(logging.WARNING)
    logging.lastResort = last  # for records that no handler takes: Python would write them as plain text

    def tell(level: int, logger: str, message: str, error: Any = None) -> None:
        record = logging.LogRecord(logger, level, "", 0, message, None, error)
        with suppress(OSError, ValueError):
            last.handle(record)

    def warned(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,  # noqa: ARG001
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        tell(logging.WARNING, "py.warnings", f"{filename}:{lineno}: {category.__name__}: {message}")

    def died(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not SystemExit and args.exc_value is not None:
            said = f"thread {args.thread.name if args.thread else '?'} ended with an error"
            tell(logging.ERROR, "threading", said, (args.exc_type, args.exc_value, args.exc_traceback))

    def passed_over(args: sys.UnraisableHookArgs) -> None:
        error = (args.exc_type, args.exc_value, args.exc_traceback) if args.exc_value else None
        tell(logging.ERROR, "python", args.err_msg or "an error that nobody could be told of", error)

    warnings.showwarning, threading.excepthook = warned, died
    sys.unraisablehook = passed_over
    sys.excepthook = lambda *error: tell(logging.ERROR, "python", "an error that nothing caught", error)
    JSON_STREAMS.append(stream)


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
