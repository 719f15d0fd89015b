"""A terminal of our own: a command runs in it as it does before a person, and what it left behind can be looked at."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import termios
import time
from types import TracebackType
from typing import Any

from patience import SECONDS_MAX


class Terminal:
    """A command on a pseudo-terminal while the block lasts."""

    def __init__(self, command: list[str], **env: str) -> None:
        self.inside, outside = pty.openpty()
        termios.tcsetwinsize(outside, (40, 120))
        self.before: list[Any] = termios.tcgetattr(outside)
        self.process = subprocess.Popen(
            command,
            stdin=outside,
            stdout=outside,
            stderr=outside,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40", **env},
        )
        self.outside = outside
        self.seen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS_MAX)
        os.close(self.inside)
        os.close(self.outside)

    def until(self, words: str, seconds: float = SECONDS_MAX) -> str:
        """All that was shown, once these words are among it."""
        by = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < by, f"{words!r} is not in {self.seen!r}"
            self._read(0.05)
        return self.seen

    def press(self, keys: str) -> None:
        """As if somebody did."""
        os.write(self.inside, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.kill(self.process.pid, signal.SIGINT)

    def interrupt_question(self) -> int:
        """Its exit code after Ctrl-C, pressed again: one between a question and its reading is not heard."""
        by = time.monotonic() + SECONDS_MAX
        while self.process.poll() is None:
            assert time.monotonic() < by, "it does not end"
            self.interrupt()
            again = time.monotonic() + 5
            while self.process.poll() is None and time.monotonic() < again:
                self._read(0.05)
        return self.end()

    def end(self, seconds: float = SECONDS_MAX) -> int:
        """Its exit code, once it has ended and everything was read."""
        by = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < by, "it does not end"
            self._read(0.05)
        while self._read(0.05):
            pass
        return self.process.returncode

    @property
    def settings(self) -> list[Any]:
        """Echo, line mode and the like, as they are now."""
        return list(termios.tcgetattr(self.outside))

    def _read(self, seconds: float) -> bool:
        if not select.select([self.inside], [], [], seconds)[0]:
            return False
        try:
            self.seen += os.read(self.inside, 65_536).decode("utf-8", "replace")
        except OSError:  # the other end is closed
            return False
        return True
