"""Workers for tests: in a thread of this process with their events, or as real processes with a ledger of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from patience import SECONDS_MAX
from tenure.app.inbox import Inbox
from tenure.events import Bus, Event
from tenure.worker.config import Terms
from tenure.worker.worker import Worker
from world import World

E = TypeVar("E", bound=Event)
T = TypeVar("T")


def eventually(fact: Callable[[], T], *, seconds: float = SECONDS_MAX) -> T:
    """The first true answer; fails with the last false one when it takes too long."""
    by = time.monotonic() + seconds
    while not (answer := fact()):
        assert time.monotonic() < by, f"not within {seconds} s: {answer!r}"
        time.sleep(0.01)
    return answer


class Hired:
    """A worker that runs in a thread while the test lasts."""

    def __init__(self, inbox: Inbox, terms: Terms, at_last: Callable[[int], None] | None = None) -> None:
        self.events: list[Event] = []
        bus = Bus()
        bus.subscribe(self.events.append)
        self.worker = Worker(inbox, terms, bus)
        self.exit_code: int | None = None
        self._at_last = at_last
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.exit_code = self.worker.run(self._at_last)

    def of(self, kind: type[E]) -> list[E]:
        """Its events of one kind so far."""
        return [event for event in list(self.events) if isinstance(event, kind)]

    def saw(self, kind: type[E], n: int = 1, *, seconds: float = SECONDS_MAX) -> list[E]:
        """Its events of one kind, once there are n."""
        return eventually(lambda: found if len(found := self.of(kind)) >= n else [], seconds=seconds)

    def ready(self) -> Hired:
        """Itself, once it is in the ring and listens."""
        eventually(lambda: self.worker.lease_keeper.ring.workers and self.worker.claimer.connected)
        return self

    def stop(self, seconds: float = SECONDS_MAX) -> int | None:
        """Drain it, and its exit code."""
        self.worker.stop()
        return self.gone(seconds)

    def gone(self, seconds: float = SECONDS_MAX) -> int | None:
        """Its exit code, once it has ended."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the worker did not stop"
        return self.exit_code


@contextlib.contextmanager
def working(world: World, inbox: Inbox, *, url: str | None = None, **terms: Any) -> Iterator[Hired]:
    """A worker on the world's schema, drained at the end; present also when the machine stands still for a while."""
    inbox.use_schema(world.schema)
    terms.setdefault("grace_seconds", SECONDS_MAX)
    queues, at_last = terms.pop("queues", None) or inbox.queues, terms.pop("at_last", None)
    hired = Hired(inbox, Terms(url or world.url, schema=world.schema, queues=queues, **terms), at_last)
    try:
        yield hired.ready()
    finally:
        if hired.exit_code is None:
            hired.worker.stop()
            hired.worker.stop()
            hired._thread.join(SECONDS_MAX)


class Process:
    """`tenure worker` as a real process; its events are read from its log, its handlers' deeds from a ledger file."""

    def __init__(self, world: World, app: str, folder: Path, *options: str, url: str | None = None, **env: str) -> None:
        self.ledger, self.log = folder / "ledger.jsonl", folder / f"worker-{time.monotonic_ns()}.jsonl"
        with self.log.open("w") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from tenure.cli import main; main()", "worker", app, "--json", "-v", *options],
                stderr=stream,
                stdout=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
                    "TENURE_DATABASE_URL": url or world.url,
                    "TENURE_SCHEMA": world.schema,
                    "TENURE_TEST_LEDGER": str(self.ledger),
                    **env,
                },
            )
        self.pid = self.process.pid

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """Its events so far, all or of one name."""
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        found = [json.loads(line) for line in lines]
        return [event for event in found if name in (None, event.get("event"))]

    def saw(self, name: str, n: int = 1, *, seconds: float = SECONDS_MAX) -> list[dict[str, Any]]:
        """Its events of one name, once there are n."""
        return eventually(lambda: found if len(found := self.events(name)) >= n else [], seconds=seconds)

    def send(self, number: int) -> None:
        """Send it a signal; a SIGSTOP has stopped all its threads when this returns."""
        os.kill(self.pid, number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def end(self, number: int = signal.SIGTERM, seconds: float = SECONDS_MAX) -> int:
        """Send a signal and wait for the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.send(number)
        return self.process.wait(seconds)


@contextlib.contextmanager
def processes(*made: Process) -> Iterator[None]:
    """End these, whatever happens."""
    try:
        yield
    finally:
        for each in made:
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait(SECONDS_MAX)
