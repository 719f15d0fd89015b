"""Events of webhooks: calls that were made, endpoints that changed, and what came in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from .event import Event


@dataclass(frozen=True, slots=True)
class DeliveryMade(Event):
    """An endpoint was called; status 0: nobody answered."""

    name: ClassVar[str] = "delivery_made"
    level: ClassVar[str] = "debug"
    worker: str
    job_id: UUID
    token: int
    endpoint: str
    status: int
    run_seconds: float


@dataclass(frozen=True, slots=True)
class EndpointTripped(Event):
    """An endpoint failed several times in a row, or asked for time: its circuit is open, what waits is postponed."""

    name: ClassVar[str] = "endpoint_tripped"
    level: ClassVar[str] = "warning"
    worker: str
    endpoint: str
    error: str


@dataclass(frozen=True, slots=True)
class EndpointRestored(Event):
    name: ClassVar[str] = "endpoint_restored"
    worker: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class EndpointDisabled(Event):
    """An endpoint said 410, or failed for days: it is called no more until somebody sets it active."""

    name: ClassVar[str] = "endpoint_disabled"
    level: ClassVar[str] = "error"
    worker: str
    endpoint: str
    error: str


@dataclass(frozen=True, slots=True)
class WebhookReceived(Event):
    """A provider's webhook was verified and stored: enqueued or duplicate."""

    name: ClassVar[str] = "webhook_received"
    level: ClassVar[str] = "debug"
    provider: str
    job_id: UUID
    outcome: str


@dataclass(frozen=True, slots=True)
class WebhookRefused(Event):
    """A request was answered with 4xx: its signature, its time or its form was wrong."""

    name: ClassVar[str] = "webhook_refused"
    level: ClassVar[str] = "warning"
    provider: str
    reason: str


@dataclass(frozen=True, slots=True)
class WebhookDiffers(Event):
    """A provider sent an id again with other content: the first one stands."""

    name: ClassVar[str] = "webhook_differs"
    level: ClassVar[str] = "warning"
    provider: str
    job_id: UUID
