"""The verbs of webhooks: endpoints, what is sent to them, and the log of calls, each as a Statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ..model.declaration import Declaration
from ..model.rows import Lease
from .statement import Statement, array, text_array

State = Literal["active", "paused", "disabled"]
Verdict = Literal["ok", "failed", "gone"]
QUEUE = "webhooks"  # unless the application names another
KIND = "webhook"
TEST_KIND = "tenure.test"
TEST_BODY = b'{"test":true}'
ENDPOINTS_MAX = 100  # of a tenant
PER_KEY = 4  # calls that one endpoint gets at once
FORGET_MAX = 5_000
RETENTION_SECONDS = 30 * 86_400.0


class EndpointRow(NamedTuple):
    """One endpoint, without its secrets."""

    id: UUID
    tenant: str
    url: str
    kinds: tuple[str, ...]
    state: str
    failures: int  # in a row
    failing_since: datetime | None
    open_until: datetime | None  # the circuit is open
    rotating_until: datetime | None  # two secrets sign
    note: str | None
    made_at: datetime
    pending: int


class Call(NamedTuple):
    """What a holder needs for one call; without secrets and body unless the outcome is go."""

    outcome: str
    wait_seconds: float | None
    url: str | None
    secret: str | None
    secret_before: str | None
    tenant: str | None
    body: bytes | None
    moment: float
    note: str | None


class DeliveryRow(NamedTuple):
    """One call, as the log has it."""

    row_id: UUID
    webhook_id: UUID
    kind: str | None
    attempt: int
    fence: int
    at: datetime
    status: int | None
    ms: int
    address: str | None
    note: str | None


class EndpointCalls(NamedTuple):
    """How the last calls of an endpoint went, up to 100 of them."""

    endpoint_id: UUID
    calls: int
    ok: int
    p50_ms: int
    p99_ms: int
    last_at: datetime
    answers: tuple[int | None, ...]  # the newest first; None: no answer


class EndpointStates(NamedTuple):
    """How many endpoints are in which state, and how many have a secret in clear."""

    active: int
    tripped: int  # active, but the circuit is open
    paused: int
    disabled: int
    in_clear: int


class Rotated(NamedTuple):
    """Until when the secret before signs too; None if nothing was done: an overlap is open until then."""

    until: datetime | None
    open_until: datetime | None


class SentWebhook(NamedTuple):
    """A webhook that is kept, and to how many endpoints it goes."""

    webhook_id: UUID
    sent: int


def add_endpoint(id: UUID, tenant: str, url: str, kinds: Sequence[str], secret: str) -> Statement[bool]:
    """Tell this address too; False if the tenant has as many as it may."""
    params = {"id": id, "tenant": tenant, "url": url, "kinds": text_array(kinds), "secret": secret, "n": ENDPOINTS_MAX}
    return Statement("add_endpoint", params, bool)


def set_endpoint(
    id: UUID,
    state: State | None,
    *,
    queue: str,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    note: str | None = None,
) -> Statement[int | None]:
    """Change an endpoint; how many of its rows are due now, None if there is no such endpoint."""
    given = None if kinds is None else text_array(kinds)
    params = {"id": id, "state": state, "url": url, "kinds": given, "note": note, "queue": queue}
    return Statement("set_endpoint", params, lambda rows: rows[0][1] if rows else None)


def rotate_secret(id: UUID, secret: str, overlap_seconds: float) -> Statement[Rotated | None]:
    """Sign with this secret too; without an overlap with no other, at once. None if there is no such endpoint."""
    params = {"id": id, "secret": secret, "overlap_seconds": overlap_seconds}
    return Statement("rotate_secret", params, lambda rows: Rotated(*rows[0]) if rows else None)


def send_webhook(tenant: str, kind: str, body: bytes, *, queue: str) -> Statement[SentWebhook]:
    """Keep a webhook, and make a row for each endpoint that wants it."""
    params = {"tenant": tenant, "kind": kind, "body": body, "queue": queue}
    return Statement("send_webhook", params, lambda rows: SentWebhook(*rows[0]))


def resend_webhook(endpoint_id: UUID, ids: Sequence[UUID], *, queue: str) -> Statement[list[UUID]]:
    """Send kept webhooks to one endpoint again, under their own ids; which."""
    params = {"endpoint_id": endpoint_id, "ids": array([each.hex for each in ids]), "queue": queue}
    return Statement("resend_webhook", params, lambda rows: [row[0] for row in rows])


def try_endpoint(id: UUID, *, queue: str) -> Statement[UUID | None]:
    """Send a webhook of the kind tenure.test to one endpoint; its id, None if it is not there or disabled."""
    params = {"id": id, "kind": TEST_KIND, "body": TEST_BODY, "queue": queue}
    return Statement("try_endpoint", params, lambda rows: rows[0][0] if rows else None)


def begin_delivery(lease: Lease, webhook_id: UUID, endpoint_id: UUID) -> Statement[Call | None]:
    """What one call needs; None if the lease is over."""
    held = {"row_id": lease.id, "generation": lease.generation, "fence": lease.fence}
    params = {**held, "webhook_id": webhook_id, "endpoint_id": endpoint_id}
    return Statement("begin_delivery", params, lambda rows: Call(*rows[0]) if rows else None)


def log_delivery(
    lease: Lease,
    attempt: int,
    webhook_id: UUID,
    endpoint_id: UUID,
    *,
    status: int | None,
    ms: int,
    address: str | None,
    note: str | None,
    verdict: Verdict,
    slow_seconds: float = 0.0,
) -> Statement[tuple[str | None, datetime | None]]:
    """How a call went; what changed for its endpoint (tripped, restored, disabled), and until when its circuit is."""
    params: dict[str, Any] = {"row_id": lease.id, "fence": lease.fence, "attempt": attempt}
    params |= {"webhook_id": webhook_id, "endpoint_id": endpoint_id, "status": status, "ms": ms, "address": address}
    params |= {"note": note, "verdict": verdict, "slow_seconds": slow_seconds}
    return Statement("log_delivery", params, lambda rows: (rows[0][0], rows[0][1]))


def begin_webhooks(queue: str, per_key: int = PER_KEY) -> Statement[bool]:
    """Limit the calls that one endpoint gets at once, unless the queue has limits already."""
    return Statement("begin_webhooks", {"queue": queue, "per_key": per_key}, lambda rows: bool(rows and rows[0][0]))


def keep_webhooks(seconds: float = RETENTION_SECONDS, n: int = FORGET_MAX) -> Statement[tuple[int, int]]:
    """Forget webhooks and calls older than this, up to n of each; four days are always kept."""
    return Statement("keep_webhooks", {"retention_seconds": seconds, "n": n}, lambda rows: (rows[0][0], rows[0][1]))


def erase_tenant(tenant: str, n: int = FORGET_MAX) -> Statement[tuple[int, int, int]]:
    """Erase the endpoints, webhooks and calls of a tenant, up to n webhooks; how many of each."""
    return Statement("erase_tenant", {"tenant": tenant, "n": n}, lambda rows: (rows[0][0], rows[0][1], rows[0][2]))


def endpoints(tenant: str | None = None, n: int = 1000, *, id: UUID | None = None) -> Statement[list[EndpointRow]]:
    """The endpoints of a tenant, or of all; or the one with this id."""
    params = {"tenant": tenant, "id": id, "n": n}
    return Statement("endpoints", params, lambda rows: [EndpointRow(*row) for row in rows])


def endpoint_states() -> Statement[EndpointStates]:
    """How many endpoints are in which state."""
    return Statement("endpoint_states", {}, lambda rows: EndpointStates(*rows[0]))


def endpoint_calls(ids: Sequence[UUID]) -> Statement[dict[UUID, EndpointCalls]]:
    """How the last calls of these endpoints went; one that was never called is left out."""
    params = {"ids": array([each.hex for each in ids])}
    return Statement("endpoint_calls", params, lambda rows: {row[0]: EndpointCalls(*row) for row in rows})


def queue_of(found: list[Declaration]) -> str:
    """The queue of webhooks, by what workers have declared of their kind."""
    return found[0].queue if found else QUEUE


def deliveries(endpoint_id: UUID, n: int = 50) -> Statement[list[DeliveryRow]]:
    """The last calls of an endpoint, the newest first."""
    params = {"endpoint_id": endpoint_id, "n": n}
    return Statement("deliveries", params, lambda rows: [DeliveryRow(*row) for row in rows])


def kept_webhooks(endpoint_id: UUID, since: datetime, n: int = 10_000) -> Statement[list[UUID]]:
    """The webhooks since a time that an endpoint wants, the oldest first."""
    params = {"endpoint_id": endpoint_id, "since": since, "n": n}
    return Statement("kept_webhooks", params, lambda rows: [row[0] for row in rows])
