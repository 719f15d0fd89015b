"""A worker in a process of its own, made by fork: it has the handlers of the test, and it can be killed and paused."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from ..app.inbox import Inbox
from ..errors import BUG
from ..events import Bus, WorkerStarted
from ..worker.config import Terms
from ..worker.worker import Worker
from .heard import WAIT_SECONDS, Heard


class ForkedWorker:
    """A real worker process; its events are heard in the test."""

    def __init__(self, inbox: Inbox, terms: Terms, heard: Heard, before: Callable[[], object] | None = None) -> None:
        self._events, ours = multiprocessing.Pipe(duplex=False)
        self.code: int | None = None  # how it ended: its exit code, or minus the signal
        self.trouble = ""  # why it could not run
        self._paused = False
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads: the child uses none of ours
            self.pid = os.fork()
        if self.pid == 0:
            self._events.close()
            _live(inbox, terms, ours, before)
        ours.close()
        self._heard = heard
        self._listener = threading.Thread(target=self._listen, name="tenure-testing", daemon=True)
        self._listener.start()

    def ready(self) -> ForkedWorker:
        """Itself, once it has started; AssertionError with the reason if it cannot."""
        before = len(self._heard.of(WorkerStarted))
        by = time.monotonic() + WAIT_SECONDS
        while len(self._heard.of(WorkerStarted)) == before and not self._started:
            assert not self.ended, f"the worker ended with {self.code}: {self.trouble or 'it told no reason'}"
            assert time.monotonic() < by, f"the worker did not start within {WAIT_SECONDS:g} s"
            time.sleep(0.005)
        return self

    @property
    def _started(self) -> bool:
        return any(f"-{self.pid}-" in event.worker for event in self._heard.of(WorkerStarted))

    @property
    def ended(self) -> bool:
        """True once the process is gone."""
        if self.code is None:
            self._look(os.WNOHANG)
        return self.code is not None

    def _look(self, how: int) -> None:
        pid, status = os.waitpid(self.pid, how)
        if pid and not os.WIFSTOPPED(status):
            self.code = os.waitstatus_to_exitcode(status)
            self._listener.join(WAIT_SECONDS)  # all that it has told was heard

    def kill(self) -> None:
        """SIGKILL, as by the kernel when memory is out: nothing of it runs any more."""
        self._send(signal.SIGKILL)
        self._gone()

    def pause(self) -> None:
        """SIGSTOP: a frozen machine. It does nothing from now on, nor renews its leases, until `resume`."""
        if self._paused or self.ended:
            return
        os.kill(self.pid, signal.SIGSTOP)
        self._look(os.WUNTRACED)  # it may go on for a moment after the signal was sent
        self._paused = True

    def resume(self) -> None:
        """SIGCONT: it goes on where it was, and knows nothing of the time that has passed."""
        self._paused = False
        self._send(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM: drain it; its exit code."""
        self.resume()
        self._send(signal.SIGTERM)
        return self._gone()

    def _send(self, number: int) -> None:
        if not self.ended:
            os.kill(self.pid, number)

    def _gone(self) -> int:
        by = time.monotonic() + WAIT_SECONDS
        while not self.ended:
            assert time.monotonic() < by, f"worker {self.pid} did not end within {WAIT_SECONDS:g} s"
            time.sleep(0.005)
        assert self.code is not None
        return self.code

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                told = self._events.recv()
                if isinstance(told, str):
                    self.trouble = told
                else:
                    self._heard(told)


def _live(inbox: Inbox, terms: Terms, ours: Any, before: Callable[[], object] | None) -> NoReturn:
    """The child: a worker until it is told to stop. Nothing of pytest runs at its end."""
    code = BUG
    try:
        bus = Bus()
        bus.subscribe(ours.send)
        worker = Worker(inbox, terms, bus)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        if before is not None:
            before()
        code = worker.run()
    except BaseException:
        with suppress(Exception):
            ours.send(traceback.format_exc())
    finally:
        os._exit(code)
