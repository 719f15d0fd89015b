"""What every actor with a real worker does: obey its drill, work until told to stop, and exit at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from ... import events
from ...app.inbox import Inbox
from ...worker.config import Terms
from ...worker.worker import Worker
from . import protocol

LEASE_SECONDS = 30.0  # long, so that it cannot be the reason of a take-over


def heed(word: Callable[[str], None]) -> None:
    """Call `word` with every line of stdin, on a thread; the process exits when the drill is gone."""

    def listen() -> None:
        for line in sys.stdin:
            word(line.strip())
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()


def work(worker: Worker) -> None:
    """Run the worker until SIGTERM; then the process exits."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    _leave(worker.run(at_last=_leave))


def short_terms(part: protocol.Part, inbox: Inbox) -> Terms:
    """As in production, with times short enough for a reader to watch."""
    return Terms(
        part.url,
        schema=part.schema,
        queues=inbox.queues,
        slots=2,
        lease_seconds=LEASE_SECONDS,
        grace_seconds=1.0,
        drain_seconds=2.0,
        poll_seconds=0.5,
        heartbeat_seconds=1.0,
        ttl_seconds=LEASE_SECONDS,
        name=part.name,
    )


def say_news(event: events.Event) -> None:
    """Report an event to the drill, unless it is only counted."""
    if event.news:
        protocol.say(event.fields())


def _leave(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)  # a handler's thread may wait for an answer that never comes
