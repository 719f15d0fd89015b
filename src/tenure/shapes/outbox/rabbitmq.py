"""RabbitMQ: persistent, mandatory, confirmed. It has neither dedupe nor fence: consumers dedupe by message_id."""

from __future__ import annotations

from typing import Any

from .broker_address import check_address, check_broker_name
from .cloudevent import headers
from .transport import Answer, Away, Message, Refused, Sent, brief, needs

NACKED = "the broker did not accept it (nack): is a queue full?"


class RabbitMQ:
    """`RabbitMQ("amqp://guest:guest@127.0.0.1/", exchange="shop")`: the routing key is the event's type.

    The exchange and its queues are made by you. An event that no queue takes is refused. After a crash or a pause of a
    relay an event may be there twice: message_id says so.
    """

    def __init__(self, url: str, *, exchange: str, bytes_max: int = 1_000_000, **options: Any) -> None:
        check_address(url, ("amqp", "amqps"), "amqp://127.0.0.1/")
        check_broker_name(exchange, "exchange")
        self._pika = needs("aio_pika", "rabbitmq")
        self._spec = needs("pamqp.commands", "rabbitmq")
        self._url, self._exchange, self._options = url, exchange, options
        self.bytes_max = bytes_max
        self._connection: Any = None
        self._at: Any = None

    async def open(self, lease_seconds: float) -> None:  # noqa: ARG002
        """Connect, and see that the exchange is there."""
        await self.close()
        try:
            self._connection = await self._pika.connect(self._url, **{"timeout": 3, **self._options})
            channel = await self._connection.channel(publisher_confirms=True, on_return_raises=False)
            self._at = await channel.get_exchange(self._exchange, ensure=True)
        except self._pika.exceptions.ChannelNotFoundEntity:
            raise ConnectionError(
                f"there is no exchange {self._exchange!r}: make it, nothing is made unasked"
            ) from None
        except self._pika.exceptions.AMQPError as error:  # such as a virtual host that is missing
            raise ConnectionError(brief(error)) from None

    async def close(self) -> None:
        """Leave."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed:
            await connection.close()

    async def send(self, message: Message) -> Answer:
        """Only an ack is a confirm: what is not routable comes back as a value, not as an error."""
        if self._connection is None or self._connection.is_closed:
            return Away("the connection is closed")
        said = headers(message.attributes, "cloudEvents:")
        body = self._pika.Message(
            message.body,
            headers={name: value for name, value in said.items() if name != "content-type"},
            content_type="application/json",
            message_id=message.once,
            delivery_mode=self._pika.DeliveryMode.PERSISTENT,
        )
        try:
            answer = await self._at.publish(body, routing_key=message.attributes["type"], mandatory=True)
        except self._pika.exceptions.ChannelPreconditionFailed as error:  # one was too large: all under way are told
            large = f" size {len(message.body)} " in str(error)
            return Refused(brief(error)) if large else Away(brief(error))
        except self._pika.exceptions.DeliveryError:
            return Away(NACKED)
        except (self._pika.exceptions.AMQPError, OSError, RuntimeError) as error:
            return Away(brief(error))
        if isinstance(answer, self._spec.Basic.Ack):
            return Sent()
        if isinstance(answer, self._spec.Basic.Nack | self._spec.Basic.Reject):
            return Away(NACKED)
        return Refused(f"no queue of exchange {self._exchange!r} takes the routing key {message.attributes['type']!r}")
