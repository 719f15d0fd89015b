"""Webhooks: the registry of endpoints, and `send`, which is part of the caller's transaction."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID, uuid4

import msgspec

from ...app.handler import Handler
from ...app.inbox import Inbox
from ...errors import BadSettings, InvalidPayload
from ...postgres.callers import awaits
from ...postgres.runner import run
from ...verbs import endpoints
from ...verbs.endpoints import RETENTION_SECONDS, State
from ...verbs.statement import Statement
from .calling import Caller
from .delivery import ATTEMPTS, Deliverer
from .guard import Guard
from .receive import Receiver
from .sealing import seal, seal_body
from .signing import new_secret
from .verifiers import Verifier

QUEUE = "webhooks"
KIND = "webhook"
LEASE_SECONDS = 60.0
BODY_BYTES_MAX = 262_144
OVERLAP_SECONDS_MAX = 30 * 86_400.0
KEEP_EVERY_SECONDS = 300.0
_WORD = re.compile(r"[!-~]{1,200}")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A new endpoint. Its secret is shown here, and never again."""

    id: UUID
    secret: str = field(repr=False)


class Webhooks:
    """`hooks = Webhooks(inbox)`, then `await hooks.send(conn, "acme", "order.paid", {…})`.

    The workers of the inbox deliver. With a codec in the inbox, secrets and bodies are encrypted at rest.
    """

    def __init__(
        self,
        inbox: Inbox,
        *,
        guard: Guard | None = None,
        queue: str = QUEUE,
        retention_seconds: float = RETENTION_SECONDS,
        caller: Caller | None = None,
    ) -> None:
        self._inbox, self._queue = inbox, queue
        self.guard = guard or Guard()
        self._deliverer = Deliverer(self.guard, caller or Caller(self.guard), queue, inbox.codec, inbox.bus)
        inbox.lifespan(self._deliverer.lifespan)
        inbox.at_start.append(endpoints.begin_webhooks(queue))
        inbox.chore("webhooks:keep", KEEP_EVERY_SECONDS, endpoints.keep_webhooks(retention_seconds))
        made = inbox.handler(KIND, queue=queue, max_attempts=ATTEMPTS, lease_seconds=LEASE_SECONDS, encrypt=False)
        made(self._deliverer.deliver)

    def add(self, conn: Any, *, tenant: str, url: str, kinds: Sequence[str], secret: str | None = None) -> Any:
        """Tell this address of a tenant's webhooks; awaitable if the connection is. Its secret is shown once.

        ForbiddenUrl if the address is not called. Kinds are names such as order.paid, or begin one: order.*
        """
        self.guard.target(url)
        made = Endpoint(uuid4(), secret or new_secret())
        kept = seal(self._inbox.codec, made.secret, "secret", str(made.id))
        adding = endpoints.add_endpoint(made.id, check_tenant(tenant), url, check_kinds(kinds), kept)
        return self._run(conn, adding, lambda added: _added(added, tenant, made))

    def send(self, conn: Any, tenant: str, kind: str, data: Any) -> Any:
        """Tell every endpoint of the tenant that wants this kind, in the caller's transaction; awaitable if that is."""
        body = rendered(data)
        check_tenant(tenant)
        if not isinstance(kind, str) or not _WORD.fullmatch(kind):
            raise InvalidPayload(
                f"kind={str(kind)[:60]!r} must be 1 to 200 visible ASCII characters, such as order.paid"
            )
        sending = endpoints.send_webhook(tenant, kind, seal_body(self._inbox.codec, body, tenant), queue=self._queue)
        return self._run(conn, sending, _same)

    def rotate(self, conn: Any, endpoint: UUID, *, overlap_seconds: float = 86_400.0) -> Any:
        """Another secret, shown once; the one before signs too for a while. BadSettings while a rotation is open."""
        if not 0 <= overlap_seconds <= OVERLAP_SECONDS_MAX:
            raise BadSettings(
                f"overlap_seconds={overlap_seconds!r} must be from 0 to {OVERLAP_SECONDS_MAX:.0f}, 30 days"
            )
        made = Endpoint(endpoint, new_secret())
        kept = seal(self._inbox.codec, made.secret, "secret", str(endpoint))
        rotating = endpoints.rotate_secret(endpoint, kept, overlap_seconds)
        return self._run(conn, rotating, lambda until: _rotated(until, made))

    def set(
        self, conn: Any, endpoint: UUID, state: State, *, url: str | None = None, kinds: Sequence[str] | None = None
    ) -> Any:
        """Pause, disable or activate an endpoint, or change what it is; how many of its rows are due now."""
        if url is not None:
            self.guard.target(url)
        if state not in ("active", "paused", "disabled"):
            raise BadSettings(f"state={state!r} is not known: choose from active, paused, disabled")
        wanted = None if kinds is None else check_kinds(kinds)
        setting = endpoints.set_endpoint(endpoint, state, queue=self._queue, url=url, kinds=wanted)
        return self._run(conn, setting, _same)

    def replay(self, conn: Any, endpoint: UUID, webhooks: Sequence[UUID]) -> Any:
        """Send webhooks that are kept to one endpoint again, under their own ids; how many."""
        return self._run(conn, endpoints.resend_webhook(endpoint, webhooks, queue=self._queue), _same)

    def receive(
        self,
        provider: str,
        *,
        verify: Verifier,
        then: Handler[..., ..., Any],
        connections: Any = None,
        url: str | None = None,
    ) -> Receiver:
        """An ASGI app that stores a provider's webhooks: app.mount("/in/stripe", hooks.receive("stripe", …))."""
        return Receiver(provider, verify, then, connections=connections, url=url, bus=self._inbox.bus)

    def _run(self, conn: Any, statement: Statement[T], read: Callable[[T], R]) -> R | Awaitable[R]:
        if awaits(conn):
            return self._run_awaiting(conn, statement, read)
        return read(run(conn, statement, self._inbox.schema))

    async def _run_awaiting(self, conn: Any, statement: Statement[T], read: Callable[[T], R]) -> R:
        return read(await run(conn, statement, self._inbox.schema))


def rendered(data: Any) -> bytes:
    """The body: rendered once, because what is signed must be what is sent."""
    try:
        body = msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"the data of a webhook must be JSON: {error}") from None
    if len(body) > BODY_BYTES_MAX:
        raise InvalidPayload(f"the body has {len(body)} bytes, the limit is {BODY_BYTES_MAX}: send an address instead")
    return body


def check_tenant(tenant: Any) -> str:
    """The tenant itself, or BadSettings."""
    if not isinstance(tenant, str) or not 1 <= len(tenant.encode()) <= 256 or "\0" in tenant:
        raise BadSettings(f"tenant={str(tenant)[:60]!r} must be text of 1 to 256 bytes")
    return tenant


def check_kinds(kinds: Any) -> list[str]:
    """The kinds themselves, or BadSettings."""
    named = [] if isinstance(kinds, str) else list(kinds)
    if not 1 <= len(named) <= 100 or not all(isinstance(each, str) and _WORD.fullmatch(each) for each in named):
        raise BadSettings(f"kinds={str(kinds)[:60]!r} must be a list of 1 to 100 names, such as ['order.*']")
    if any("*" in each[:-1] for each in named):
        raise BadSettings(f"kinds={str(kinds)[:60]!r}: a star stands at the end, as in order.*")
    return named


def _same(value: T) -> T:
    return value


def _added(added: bool, tenant: str, made: Endpoint) -> Endpoint:
    if not added:
        raise BadSettings(
            f"tenant {tenant[:60]!r} has {endpoints.ENDPOINTS_MAX} endpoints, which is the limit: disable one"
        )
    return made


def _rotated(until: Any, made: Endpoint) -> Endpoint:
    if until is None:
        raise BadSettings(f"endpoint {made.id} is not there, or a rotation is open: wait until it ends")
    return made
