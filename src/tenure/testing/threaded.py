"""A real worker in a thread of the test's process, and how the attempts ended that it made."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..app.inbox import Inbox
from ..events import (
    Bus,
    Event,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobReleased,
    JobRetried,
)
from ..worker.config import Terms
from ..worker.worker import Worker
from .heard import Heard


@dataclass(frozen=True, slots=True)
class Ran:
    """How many attempts ended how, and the errors they left."""

    completed: int = 0
    retried: int = 0
    failed: int = 0
    dead_lettered: int = 0
    released: int = 0
    cancelled: int = 0
    errors: tuple[str, ...] = ()


def counted(events: Sequence[Event]) -> Ran:
    """What these events tell."""

    def n(kind: type[Event]) -> int:
        return sum(1 for event in events if type(event) is kind)

    errors = tuple(event.error for event in events if isinstance(event, JobRetried) and event.error)
    well, again, failed, dead = n(JobCompleted), n(JobRetried), n(JobFailed), n(JobDeadLettered)
    return Ran(well, again, failed, dead, n(JobReleased), n(JobCancelled), errors)


@contextmanager
def working(inbox: Inbox, terms: Terms, heard: Heard) -> Iterator[None]:
    """A worker while the block lasts, drained at its end; what it raises is raised here."""
    bus, raised = Bus(), list[BaseException]()
    bus.subscribe(heard)
    worker = Worker(inbox, terms, bus)

    def live() -> None:
        try:
            worker.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=live, name="tenure-testbed", daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()
    if raised:
        raise raised[0]
