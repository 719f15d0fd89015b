"""A real worker in a process of its own whose handler only waits: what the tuner measures is pulling rows."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass

from ..events import Bus, ClaimAnswered, Event, Woken
from ..inbox import Inbox
from ..terms import Terms
from ..worker import Worker
from .words import die_with_parent, hear, say

KIND = "pull"
DRAIN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Part:
    """What a puller has to know; it comes over stdin, because a URL may hold a password and arguments are public."""

    name: str
    url: str
    schema: str
    slots: int
    handler_seconds: float
    poll_seconds: float
    listen: bool


class Count:
    """What its claims add up to, and what it costs; said whenever it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.claims = self.polls = 0
        self.claim_seconds = 0.0

    def take(self, event: Event) -> None:
        """Count a claim that was answered, or a look that its own clock asked for."""
        if isinstance(event, ClaimAnswered):
            self.claims += 1
            self.claim_seconds += event.claim_seconds
        elif isinstance(event, Woken):
            self.polls += event.source == "poll"
        elif event.news and event.level != "debug":
            say(event.fields())

    def tell(self) -> None:
        """So far."""
        used = {"cpu_seconds": time.process_time(), "claim_seconds": self.claim_seconds}
        say({"event": "counted", "worker": self._name, "claims": self.claims, "polls": self.polls, **used})


def main() -> None:
    """Pull until told to stop."""
    die_with_parent()
    part = Part(**json.loads(hear()))
    count = Count(part.name)
    threading.Thread(target=_listen, args=[count], daemon=True).start()
    bus = Bus()
    bus.subscribe(count.take)
    worker = Worker(_inbox(part), _terms(part), bus)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.at_last = _leave
    _leave(worker.run())


def _inbox(part: Part) -> Inbox:
    inbox = Inbox(schema=part.schema)

    @inbox.handler(KIND)
    async def pull(n: int) -> None:
        del n
        if part.handler_seconds:
            await asyncio.sleep(part.handler_seconds)

    return inbox


def _terms(part: Part) -> Terms:
    """As production's, but for what the tuner turns."""
    return Terms(
        part.url,
        schema=part.schema,
        slots=part.slots,
        poll_seconds=part.poll_seconds,
        listen=part.listen,
        drain_seconds=DRAIN_SECONDS,
        heartbeat_seconds=1.0,
        ttl_seconds=10.0,
        housekeeping=False,
        name=part.name,
    )


def _listen(count: Count) -> None:
    """The drill asks how it stands; without a drill there is nobody to work for."""
    for _ in sys.stdin:
        count.tell()
    os._exit(1)


def _leave(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
