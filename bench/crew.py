"""`tenure worker` as a real process on the bench's server, its events read back from its log."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil  # type: ignore[import-untyped]

T = TypeVar("T")


def eventually(fact: Callable[[], T], *, seconds: float = 60.0) -> T:
    """The first true answer; fails with the last false one when it takes too long."""
    by = time.monotonic() + seconds
    while not (answer := fact()):
        assert time.monotonic() < by, f"not within {seconds:g} s: {answer!r}"
        time.sleep(0.02)
    return answer


class WorkerProcess:
    """One worker, in the ring when made: what it logs, what it costs, and how it ends."""

    def __init__(self, url: str, app: str, folder: str, *options: str, **env: str) -> None:
        self._log = Path(folder) / f"worker-{time.monotonic_ns()}.jsonl"
        with self._log.open("w") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from tenure.cli import main; main()", "worker", app, "--json", *options],
                stderr=stream,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TENURE_DATABASE_URL": url, **env},
            )
        self._seen = psutil.Process(self._process.pid)
        eventually(lambda: self._ended() or (self.events("ring_changed") and self.events("wakeup_changed")))
        assert not self._ended(), self._log.read_text()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def events(self, name: str) -> list[dict[str, Any]]:
        """Its events of one name so far."""
        lines = [line for line in self._log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def saw(self, name: str, n: int = 1, *, seconds: float = 60.0) -> list[dict[str, Any]]:
        """Its events of one name, once there are n."""
        return eventually(lambda: found if len(found := self.events(name)) >= n else [], seconds=seconds)

    def cpu_seconds(self) -> float:
        """What it has used of the processor so far, its child processes with it."""
        return float(sum(times.user + times.system for times in self._times()))

    def _times(self) -> Iterator[Any]:
        for process in (self._seen, *self._seen.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                yield process.cpu_times()

    def send(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self._process.pid, number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit code."""
        if not self._ended():
            self.send(number)
        return self._process.wait(60)

    def _ended(self) -> bool:
        return self._process.poll() is not None


@contextlib.contextmanager
def hired(url: str, app: str, folder: str, *options: str, n: int = 1, **env: str) -> Iterator[list[WorkerProcess]]:
    """n workers that know of one another; killed at the end unless they have left by themselves."""
    crew: list[WorkerProcess] = []
    try:
        for _ in range(n):
            crew.append(WorkerProcess(url, app, folder, *options, **env))
        for worker in crew:
            eventually(lambda worker=worker: worker.events("ring_changed")[-1]["workers"] >= n)  # type: ignore[misc]
        yield crew
    finally:
        for worker in crew:
            worker.end(signal.SIGKILL)
