"""A worker process as the drill holds it: told what to do, listened to, stopped, resumed, and never left behind."""

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

Heard = Callable[["Actor", dict[str, Any] | None], None]  # None: it has said its last
State = Literal["running", "paused", "draining", "gone"]


class DrillFailed(TenureError):
    """The drill could not be played to its end; its text names what did not happen."""

    exit_code = NO


class Actor:
    """One process, in a group of its own: Ctrl-C at the terminal is for the drill, which ends its actors itself.

    Make it on a thread that lives as long as it does: Linux kills it when the thread that started it ends.
    """

    def __init__(self, name: str, role: str, part: dict[str, Any], heard: Heard) -> None:
        if not hasattr(signal, "SIGSTOP"):
            raise BadSettings("this drill stops a process with SIGSTOP, which Windows does not have: run it under WSL")
        self.name, self.role = name, role
        self.told: set[str] = set()  # words; its part has a URL in it, and is nobody's to read again
        self.silent = False  # it has said its last, and that was heard
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
        """How it stands now."""
        if self.silent or self._process.poll() is not None:
            return "gone"
        return "paused" if self._paused else "draining" if self._draining else "running"

    @property
    def exit_code(self) -> int | None:
        """With what it ended, once it has; the number of a signal below zero."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(END_SECONDS_MAX)
        return None

    def tell(self, word: str) -> None:
        """Send one word; an actor that is gone is noticed by its silence, not here."""
        self.told.add(word)
        self._write(word)

    def pause(self) -> None:
        """SIGSTOP, and wait until the kernel says that it stands still."""
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
        """SIGCONT: it goes on where it stood, knowing nothing of the time between."""
        self._paused = False
        self._process.send_signal(signal.SIGCONT)

    def drain(self) -> None:
        """SIGTERM; one that stands still hears it when it goes on."""
        self._draining = True
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL: gone when this returns, also if it was stopped."""
        if self._process.poll() is None:
            self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # the kernel has been told; nobody need wait for ever
            self._process.wait(END_SECONDS_MAX)

    def last_words(self) -> str:
        """The last line of its stderr: why it ended, if it ended early."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def end(self) -> None:
        """Gone when this returns, and whatever it took is given back."""
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
