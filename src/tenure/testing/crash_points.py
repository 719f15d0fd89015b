"""Crash points: every line that handlers ran. A worker is killed before one of them, or after the handler returned."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from ..app.inbox import Inbox

HITS_MAX = 2  # of one line: the head of a `with` is passed when it is entered, and again when it is left
POINTS_MAX = 60


class CrashPoint(NamedTuple):
    """Before this line is run for the so-manieth time; without a line: after the handler has returned."""

    file: str = ""
    line: int = 0
    hit: int = 1

    def __str__(self) -> str:
        if not self.line:
            return "killed after the handler returned"
        again = " again" if self.hit > 1 else ""
        text = linecache.getline(self.file, self.line).strip()
        return f"killed before {Path(self.file).name}:{self.line}{again}: {text[:60]}"


class Crash:
    """What a test run does about crashes: it notes the points, or it kills the first worker at one of them."""

    def __init__(self, point: CrashPoint | None = None) -> None:
        self.point, self.over = point, False
        self.seen: list[CrashPoint] = []

    @property
    def points(self) -> list[CrashPoint]:
        """Where the handlers can crash, in the order in which they came by; the last one is after their return."""
        return [*self.seen[: POINTS_MAX - 1], CrashPoint()] if self.seen else []

    @contextmanager
    def noting(self, inbox: Inbox) -> Iterator[None]:
        """Note each line of its handlers, in threads that are started meanwhile."""
        before = threading.gettrace()
        threading.settrace(Lines(inbox, self._note))
        try:
            yield
        finally:
            threading.settrace(before)

    def _note(self, point: CrashPoint) -> None:
        if point.hit <= HITS_MAX and point not in self.seen:
            self.seen.append(point)

    def arm(self, inbox: Inbox) -> None:
        """In the process that is to die: end it at the point."""
        if not self.point or not self.point.line:
            for handler in inbox.handlers.values():
                handler.function = _then_die(handler.function)
            return
        lines = Lines(inbox, self._die_at)
        threading.settrace(lines)
        sys.settrace(lines)

    def _die_at(self, point: CrashPoint) -> None:
        if point == self.point:
            _die()


CRASH = pytest.StashKey[Crash]()


class Lines:
    """A trace function that sees the lines of handlers, and of what they call in the files where they are."""

    def __init__(self, inbox: Inbox, reached: Callable[[CrashPoint], None]) -> None:
        functions = [inspect.unwrap(handler.function) for handler in inbox.handlers.values()]
        self._codes = {code for each in functions if (code := getattr(each, "__code__", None)) is not None}
        self._files = {code.co_filename for code in self._codes}
        self._reached = reached
        self._hits: Counter[tuple[str, int]] = Counter()

    def __call__(self, frame: FrameType, *_: Any) -> Any:
        """Whether to look at the lines of this frame."""
        if frame.f_code.co_filename not in self._files or not any(code in self._codes for code in _stack(frame)):
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, *_: Any) -> Any:
        if event == "line":
            place = (frame.f_code.co_filename, frame.f_lineno)
            self._hits[place] += 1
            self._reached(CrashPoint(*place, self._hits[place]))
        return self._line


def _stack(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _then_die(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaiting(*args: Any, **fields: Any) -> None:
            await function(*args, **fields)
            _die()

        return awaiting

    @functools.wraps(function)
    def plain(*args: Any, **fields: Any) -> None:
        function(*args, **fields)
        _die()

    return plain


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
