"""Acts on the shapes: processes that append to the journal and read it, an outbox, its relays and its broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from ...app.inbox import Inbox
from ...shapes.outbox import JetStream, Outbox
from ..actors import relayer, scribe, shop
from .act import Act, Name
from .broker import events_of, start_broker
from .shop_acts import ORDER, TAKE, Order

if TYPE_CHECKING:
    from .stage import Stage


class Scribe(Act, frozen=True):
    """Start a process that appends to the journal and reads it."""

    worker: Name
    reads: scribe.Reads = "horizon"

    def do(self, stage: Stage) -> None:
        """It does what it is told."""
        stage.employ("scribe", scribe.Part, self.worker, reads=self.reads)


class Tell(Act, frozen=True):
    """Send a word to a scribe."""

    worker: Name
    word: Literal["append", "commit", "read"]
    order: Annotated[int, Meta(ge=0)] = 0

    def do(self, stage: Stage) -> None:
        """It reports when it is done."""
        stage.actor(self.worker).tell(f"{self.word} {self.order}" if self.order else self.word)


class Broker(Act, frozen=True):
    """Start a NATS server for this stage alone."""

    def do(self, stage: Stage) -> None:
        """It listens when this returns, and has its stream."""
        stage.broker_url = start_broker(stage)


class Publish(Act, frozen=True):
    """Take an order and publish `order.paid` in the order's own transaction."""

    order: Order = ORDER

    def do(self, stage: Stage) -> None:
        """The order and its event commit together, or not at all."""
        to = JetStream(stage.broker_url, stream=relayer.STREAM, subject=relayer.SUBJECT)
        outbox = Outbox(Inbox(schema=stage.schema), to=to, source=relayer.SOURCE)
        with stage.conn.transaction():
            stage.sql(TAKE, self.order)
            answer = outbox.publish(stage.conn, "order.paid", {"order_id": self.order})
        stage.say("shop", "event_published", job_id=str(answer.id), order=self.order)


class Relay(Act, frozen=True):
    """Start a worker that relays the outbox; `held`: it stands still when the broker has confirmed."""

    worker: Name
    held: bool = False
    event_id: bool = True

    def do(self, stage: Stage) -> None:
        """A process with a real worker."""
        part = {"broker_url": stage.broker_url, "held": self.held, "event_id": self.event_id}
        stage.employ("relayer", relayer.Part, self.worker, **part)


class Consume(Act, frozen=True):
    """Read the broker's stream as a consumer that trusts it: an e-mail for every event."""

    def do(self, stage: Stage) -> None:
        """Without a key of its own, so that a second event is a second e-mail."""
        found = events_of(stage.broker_url)
        for number, said in found:
            stage.sql(shop.POST, said["order_id"], None, "consumer", number)
        stage.say("shop", "stream_read", events=len(found))
