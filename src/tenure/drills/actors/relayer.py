"""A real worker in its own process that relays an outbox to NATS, and can be held after the broker's confirm."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ... import events
from ...app.inbox import Inbox
from ...shapes.outbox import Answer, JetStream, Message, Outbox
from ...worker.worker import Worker
from . import protocol
from .at_work import heed, say_news, short_terms, work

STREAM, SUBJECT, SOURCE = "SHOP", "shop", "/shop"


@dataclass(frozen=True, slots=True)
class Part(protocol.Part):
    """What a relayer needs to know."""

    broker_url: str
    held: bool = False  # after the confirm, so that the drill can kill it there
    event_id: bool = True


class Told(JetStream):
    """JetStream that reports each answer, and, if it is held, does not return from it."""

    def __init__(self, part: Part) -> None:
        super().__init__(part.broker_url, stream=STREAM, subject=SUBJECT)
        self._part = part

    def sent_with(self, message: Message, last: int | None) -> dict[str, str]:
        """Without the id, for the control: nothing to dedupe by."""
        every = super().sent_with(message, last)
        return every if self._part.event_id else {k: v for k, v in every.items() if k != "Nats-Msg-Id"}

    async def send(self, message: Message) -> Answer:
        """Send it, and report what the broker says."""
        answer = await super().send(message)
        word = type(answer).__name__.lower()
        protocol.say({"event": "event_sent", "worker": self._part.name, "answer": word})
        if self._part.held:
            threading.Event().wait()
        return answer


def main() -> None:
    """Work until told to stop."""
    part = protocol.part_of(Part)
    heed(lambda _: None)
    inbox, bus = Inbox(schema=part.schema), events.Bus()
    Outbox(inbox, to=Told(part), source=SOURCE)
    bus.subscribe(say_news, each_job=True)
    work(Worker(inbox, short_terms(part, inbox), bus))


if __name__ == "__main__":
    main()
