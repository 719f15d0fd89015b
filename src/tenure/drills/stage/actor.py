"""A process that a drill controls: it gets words, reports events, is stopped and resumed, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from ...errors import NO, BadSettings, TenureError

STOP_SECONDS_MAX = 15.0
END_SECONDS_MAX = 15.0

Heard = Callable[["Actor", dict[str, Any] | None], None]  # None: its output has ended
State = Literal["running", "paused", "draining", "gone"]


class DrillFailed(TenureError):
    """The drill could not be played to its end; the text names what did not happen."""

    exit_code = NO


class Actor:
    """One process in its own group: Ctrl-C at the terminal goes to the drill, which ends its actors.

    Start it on a thread that lives as long: Linux kills it when that thread ends.
    """

    def __init__(self, name: str, role: str, part: dict[str, Any], heard: Heard) -> None:
        if not hasattr(signal, "SIGSTOP"):
            raise BadSettings("drills need SIGSTOP, which Windows does not have: run them under WSL")
        self.name, self.role = name, role
        self.told: set[str] = set()  # words; not its part, which has a URL in it
        self.silent = False  # its output has ended, and all of it was read
        self._heard = heard
        self._paused = self._draining = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in end()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"tenure.drills.actors.{role}", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True, encoding="utf-8", process_group=0,
        )  # fmt: skip
        self.pid = self._process.pid
        self._listener = threading.Thread(target=self._listen, name=f"listen to {name}", daemon=True)
        self._listener.start()
        self._write(json.dumps(part))

    @property
    def state(self) -> State:
        """Its state now."""
        if self.silent or self._process.poll() is not None:
            return "gone"
        return "paused" if self._paused else "draining" if self._draining else "running"

    @property
    def exit_code(self) -> int | None:
        """Its exit code, once it has ended; minus the number of a signal that killed it."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(END_SECONDS_MAX)
        return None

    def tell(self, word: str) -> None:
        """Send one word; no error if the process is gone."""
        self.told.add(word)
        self._write(word)

    def pause(self) -> None:
        """SIGSTOP, and wait until the kernel says that it has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise DrillFailed(f"{self.name} ended before it could be stopped ({self.last_words()})")
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                self._paused = True
                return
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)  # it was reaped here, not by Popen
            time.sleep(0.001)
        raise DrillFailed(f"{self.name} did not stop within {STOP_SECONDS_MAX:.0f} s of SIGSTOP")

    def resume(self) -> None:
        """SIGCONT: it goes on where it stopped, and does not notice the time in between."""
        self._paused = False
        self._process.send_signal(signal.SIGCONT)

    def drain(self) -> None:
        """SIGTERM; a stopped process gets it when it goes on."""
        self._draining = True
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL: it has ended when this returns, also if it was stopped."""
        if self._process.poll() is None:
            self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # the kernel will end it; do not wait forever
            self._process.wait(END_SECONDS_MAX)

    def last_words(self) -> str:
        """The last line of its stderr: why it ended, if it ended early."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def end(self) -> None:
        """End it and close its pipes and files."""
        self.kill()
        self._listener.join(END_SECONDS_MAX)
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(json.JSONDecodeError):  # killed in the middle of a line
                self._heard(self, json.loads(line))
        self._heard(self, None)
