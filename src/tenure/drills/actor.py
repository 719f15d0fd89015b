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
from dataclasses import asdict
from typing import Any

from ..errors import NO, BadSettings, TenureError
from .racer import Part

STOP_SECONDS_MAX = 5.0
END_SECONDS_MAX = 5.0

Heard = Callable[["Actor", dict[str, Any] | None], None]  # None: it has said its last


class DrillFailed(TenureError):
    """The drill could not be played to its end; its text names what did not happen."""

    exit_code = NO


class Actor:
    """One racer, in its own process group: Ctrl-C at the terminal is for the drill, which ends its actors itself.

    Make it on a thread that lives as long as it does: Linux kills a racer when the thread that started it ends.
    """

    def __init__(self, part: Part, heard: Heard) -> None:
        if not hasattr(signal, "SIGSTOP"):
            raise BadSettings("this drill stops a process with SIGSTOP, which Windows does not have: run it under WSL")
        self.name = part.name
        self._heard = heard
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in end()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tenure.drills.racer", part.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True, encoding="utf-8", process_group=0,
        )  # fmt: skip
        self.pid = self._process.pid
        self._listener = threading.Thread(target=self._listen, name=f"listen to {part.name}", daemon=True)
        self._listener.start()
        self.tell(json.dumps(asdict(part)))

    def tell(self, word: str) -> None:
        """Send one line; an actor that is gone is noticed by its silence, not here."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()

    def pause(self) -> None:
        """SIGSTOP, and wait until the kernel says that it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._process.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)  # it was reaped here, not by Popen
                raise DrillFailed(f"{self.name} ended before it could be stopped ({self.last_words()})")
            time.sleep(0.001)
        raise DrillFailed(f"{self.name} did not stop within {STOP_SECONDS_MAX:.0f} s of SIGSTOP")

    def resume(self) -> None:
        """SIGCONT: it goes on where it stood, knowing nothing of the time between."""
        self._process.send_signal(signal.SIGCONT)

    def last_words(self) -> str:
        """The last line of its stderr: why it ended, if it ended early."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def end(self) -> None:
        """Gone when this returns: SIGKILL also ends a process that is stopped."""
        if self._process.poll() is None:
            self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # the kernel has been told; the rest of the tidying must not wait
            self._process.wait(END_SECONDS_MAX)
        self._listener.join(END_SECONDS_MAX)
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard(self, json.loads(line))
        self._heard(self, None)
