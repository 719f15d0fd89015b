"""The outbox: what others are told is a row of your transaction, and a relay sends it until the broker confirms."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .http_post import Http
    from .jetstream import JetStream
    from .kafka import Kafka
    from .outbox import Outbox
    from .rabbitmq import RabbitMQ
    from .redis_stream import RedisStream
    from .transport import Answer, Away, Duplicate, Fenced, Message, Refused, Sent, Transport, Unfit

_HOME_OF = {
    **dict.fromkeys(
        ("Answer", "Away", "Duplicate", "Fenced", "Message", "Refused", "Sent", "Transport", "Unfit"), "transport"
    ),
    "Http": "http_post",
    "JetStream": "jetstream",
    "Kafka": "kafka",
    "Outbox": "outbox",
    "RabbitMQ": "rabbitmq",
    "RedisStream": "redis_stream",
}

__all__ = [
    "Answer",
    "Away",
    "Duplicate",
    "Fenced",
    "Http",
    "JetStream",
    "Kafka",
    "Message",
    "Outbox",
    "RabbitMQ",
    "RedisStream",
    "Refused",
    "Sent",
    "Transport",
    "Unfit",
]


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: each broker needs a library of its own."""
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
