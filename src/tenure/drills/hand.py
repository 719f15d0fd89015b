"""A real worker in a process of its own: the engine of `tenure worker` on the stage's shop, its events on stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import dataclass

from ..events import Bus, Event
from ..terms import Terms
from ..worker import Worker
from .shop import Shop
from .words import die_with_parent, hear, say

POLL_SECONDS = 0.5
DRAIN_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Part:
    """What a hand has to know; it comes over stdin, because a URL may hold a password and arguments are public."""

    name: str
    url: str
    schema: str
    lease_seconds: float
    grace_seconds: float
    slots: int
    gated: bool


def main() -> None:
    """Work until told to stop."""
    die_with_parent()
    part = Part(**json.loads(hear()))
    gate = threading.Event()
    threading.Thread(target=_listen, args=[gate], daemon=True).start()
    bus = Bus()
    bus.subscribe(_say, each_job=True)
    worker = Worker(Shop(part.name, part.url, part.schema, gate if part.gated else None).inbox, _terms(part), bus)
    worker.at_last = _leave
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    _leave(worker.run())


def _terms(part: Part) -> Terms:
    """As production's, with clocks that let a reader see them run out."""
    return Terms(
        part.url,
        schema=part.schema,
        slots=part.slots,
        lease_seconds=part.lease_seconds,
        grace_seconds=part.grace_seconds,
        drain_seconds=min(DRAIN_SECONDS_MAX, 0.9 * part.lease_seconds),
        poll_seconds=POLL_SECONDS,
        heartbeat_seconds=1.0,
        ttl_seconds=max(3.0, part.lease_seconds),
        name=part.name,
    )


def _listen(gate: threading.Event) -> None:
    """The answers its handlers wait for; without a drill there is nobody to work for."""
    for word in sys.stdin:
        assert word.strip() == "answer", f"expected 'answer', heard {word!r}"
        gate.set()
    os._exit(1)


def _say(event: Event) -> None:
    if event.news:
        say(event.fields())


def _leave(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)  # a handler's thread may be waiting for an answer that nobody will give


if __name__ == "__main__":
    main()
