"""The Outbox: `publish` puts an event into the caller's transaction; the workers of its inbox relay it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, overload

from psycopg import Error

from ...app.inbox import Inbox
from ...app.job import Job
from ...errors import BadSettings
from ...model.limits import PAYLOAD_BYTES_MAX
from ...model.outcome import Outcome, Snooze
from ...model.payload import check_name
from ...model.rows import Enqueued
from .cloudevent import attributes, check_type, encoded
from .publisher import Publishers
from .relay import Relay
from .transport import Message, Transport, brief, bytes_max_of, check_transport

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

KIND = "outbox:"
LEASE_SECONDS = 20.0  # short: what a dead relay held is sent soon, and a broker must remember ids for twice as long
DATABASE_SECONDS = 1.0
ENVELOPE_BYTES = 1024  # of a payload: the type and the braces around the data


class Outbox:
    """`outbox = Outbox(inbox, to=JetStream(…), source="/shop")`, then `await outbox.publish(conn, "order.paid", {…})`.

    No table of its own: an event is a row of kind `outbox:NAME`. With a key its events are sent in order, and one that
    the broker refuses for good holds its key until an operator acts. Its queue is its own,
    `outbox:NAME`, unless you give another.
    """

    def __init__(
        self,
        inbox: Inbox,
        *,
        to: Transport,
        source: str,
        name: str | None = None,
        queue: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        if not isinstance(source, str) or not source:
            raise BadSettings(f"source={source!r} must say where the events come from, such as '/shop'")
        check_transport(to)
        self.source = source
        self.name = check_name(name or source.strip("/").replace("/", "."), "name")
        self.kind = KIND + self.name
        if self.kind in inbox.handlers:
            raise BadSettings(
                f"this inbox has an Outbox named {self.name!r} already: use that one, or give another one its own name="
            )
        queue = queue or self.kind  # its own: keys belong to a queue, and outboxes must not hold each other's
        self._broker_bytes_max = bytes_max_of(to)
        self._bytes_max = min(self._broker_bytes_max, PAYLOAD_BYTES_MAX - ENVELOPE_BYTES)
        self.relay = Relay(self.name, self.kind, queue, to, lease_seconds, inbox.bus)
        self._publishers = Publishers(self.kind)
        inbox.lifespan(self.relay.lifespan)
        self._handler = inbox.handler(self.kind, queue=queue, lease_seconds=lease_seconds)(self._send)

    @overload
    def publish(
        self, conn: Connection[Any], type: str, data: Any, *, key: str | None = None, idempotency_key: str | None = None
    ) -> Enqueued: ...
    @overload
    def publish(
        self,
        conn: AsyncConnection[Any],
        type: str,
        data: Any,
        *,
        key: str | None = None,
        idempotency_key: str | None = None,
    ) -> Awaitable[Enqueued]: ...
    def publish(
        self, conn: Any, type: str, data: Any, *, key: str | None = None, idempotency_key: str | None = None
    ) -> Enqueued | Awaitable[Enqueued]:
        """Publish an event in the caller's transaction; awaitable if the connection is.

        InvalidPayload if the broker could not take it. Events of a key are sent in order.
        """
        encoded(data, self._bytes_max)
        keyed: dict[str, Any] = {"key": lambda **_: key, "ordered": True, "hold": True} if key is not None else {}
        sender = self._handler.using(**keyed, idempotency_key=idempotency_key)
        answer: Enqueued | Awaitable[Enqueued] = sender.enqueue(conn, type=check_type(type), data=data)
        return answer

    async def _send(self, job: Job, type: str, data: Any, id: str | None = None, replay: int = 0) -> Outcome | None:
        """The handler of its rows. A replayed event keeps its id; the broker must not take it for the first one."""
        key = None if job.key == str(job.id) else job.key
        said = attributes(job.id, job.seq, self.source, type, key, job.sent_headers, id)
        once = f"{said['id']}/replay-{replay}" if replay else said["id"]
        body = encoded(data, self._broker_bytes_max)
        try:
            publisher = await self._publishers.name_for(job)
        except (Error, OSError) as error:  # no fault of the event
            return Snooze(DATABASE_SECONDS, f"the database is away: {brief(error)}")
        message = Message(said, body, key, once, job.fence, job.seq, job.claimed.partition_bucket, publisher)
        return await self.relay.send(job, message)
