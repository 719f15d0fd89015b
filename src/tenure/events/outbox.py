"""Events of outboxes: what was published, what a broker refused, and that it is away or back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from .event import Event


@dataclass(frozen=True, slots=True)
class MessagePublished(Event):
    """A broker has confirmed an event, or said that it had it already (duplicate)."""

    name: ClassVar[str] = "message_published"
    level: ClassVar[str] = "debug"
    worker: str
    job_id: UUID
    token: int
    outbox: str
    type: str
    outcome: str  # sent, duplicate


@dataclass(frozen=True, slots=True)
class MessageRefused(Event):
    """A broker did not take this event; it is tried again as its attempts allow."""

    name: ClassVar[str] = "message_refused"
    level: ClassVar[str] = "warning"
    worker: str
    job_id: UUID
    token: int
    outbox: str
    type: str
    error: str


@dataclass(frozen=True, slots=True)
class BrokerAway(Event):
    """A broker cannot be asked: what waits for it is postponed, and no attempt is used up."""

    name: ClassVar[str] = "broker_away"
    level: ClassVar[str] = "warning"
    worker: str
    outbox: str
    error: str
    pause_seconds: float


@dataclass(frozen=True, slots=True)
class BrokerBack(Event):
    name: ClassVar[str] = "broker_back"
    worker: str
    outbox: str
    away_seconds: float
