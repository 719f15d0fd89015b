"""A real worker in its own process whose handler only waits, so that the tuner measures the claiming of rows."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from ...app.inbox import Inbox
from ...events import Bus, ClaimAnswered, Event, Woken
from ...worker.config import Terms
from ...worker.worker import Worker
from . import protocol
from .at_work import heed, work

KIND = "pull"
DRAIN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Part(protocol.Part):
    """What a puller needs to know."""

    slots: int
    handler_seconds: float
    poll_seconds: float
    listen: bool


class Count:
    """Counts its claims and their cost, and reports them when asked."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.claims = self.polls = 0
        self.claim_seconds = 0.0

    def take(self, event: Event) -> None:
        """Count a claim that was answered, or a poll."""
        if isinstance(event, ClaimAnswered):
            self.claims += 1
            self.claim_seconds += event.claim_seconds
        elif isinstance(event, Woken):
            self.polls += event.source == "poll"
        elif event.news and event.level != "debug":
            protocol.say(event.fields())

    def tell(self) -> None:
        """Report the counts so far."""
        used = {"cpu_seconds": time.process_time(), "claim_seconds": self.claim_seconds}
        protocol.say({"event": "counted", "worker": self._name, "claims": self.claims, "polls": self.polls, **used})


def main() -> None:
    """Work until told to stop."""
    part = protocol.part_of(Part)
    count = Count(part.name)
    heed(lambda _: count.tell())
    bus = Bus()
    bus.subscribe(count.take)
    work(Worker(_inbox(part), _terms(part), bus))


def _inbox(part: Part) -> Inbox:
    inbox = Inbox(schema=part.schema)

    @inbox.handler(KIND)
    async def pull(n: int) -> None:
        del n
        if part.handler_seconds:
            await asyncio.sleep(part.handler_seconds)

    return inbox


def _terms(part: Part) -> Terms:
    """As in production, except for what the tuner sets."""
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


if __name__ == "__main__":
    main()
