"""A real worker in its own process: the engine of `tenure worker` with the stage's shop, its events on stdout."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ... import events
from ...worker.config import Terms
from ...worker.worker import Worker
from . import protocol
from .at_work import heed, say_news, work
from .shop import Shop

POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Part(protocol.Part):
    """What a hand needs to know."""

    lease_seconds: float
    grace_seconds: float
    drain_seconds: float
    slots: int
    gated: bool


def main() -> None:
    """Work until told to stop."""
    part, gate = protocol.part_of(Part), threading.Event()
    heed(lambda word: _open(gate, word))
    bus = events.Bus()
    bus.subscribe(say_news, each_job=True)
    shop = Shop(part.name, part.url, part.schema, gate if part.gated else None)
    work(Worker(shop.inbox, _terms(part), bus))


def _terms(part: Part) -> Terms:
    """As in production, with times short enough for a reader to watch."""
    return Terms(
        part.url,
        schema=part.schema,
        slots=part.slots,
        lease_seconds=part.lease_seconds,
        grace_seconds=part.grace_seconds,
        drain_seconds=min(part.drain_seconds, 0.9 * part.lease_seconds),
        poll_seconds=POLL_SECONDS,
        heartbeat_seconds=1.0,
        ttl_seconds=max(3.0, part.lease_seconds),
        name=part.name,
    )


def _open(gate: threading.Event, word: str) -> None:
    """Open the gate that its handlers wait for."""
    assert word == "answer", f"expected 'answer', heard {word!r}"
    gate.set()


if __name__ == "__main__":
    main()
