"""Webhooks: `send`, which is part of the caller's transaction, and the handler that delivers what was sent."""

from __future__ import annotations

import json
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ...app.handler import Handler
from ...app.inbox import Inbox
from ...errors import BadSettings, InvalidPayload
from ...verbs import endpoints
from ...verbs.endpoints import KIND, QUEUE, RETENTION_SECONDS
from .calling import Caller
from .delivery import ATTEMPTS, Deliverer
from .endpoint_registry import WORD, Registry, check_tenant
from .guard import Guard
from .receive import Receiver
from .sealing import seal_body
from .setting_checks import SECONDS_MAX, check_seconds
from .verifiers import Verifier

LEASE_SECONDS = 60.0
BODY_BYTES_MAX = 262_144
KEEP_EVERY_SECONDS = 300.0
RETENTION_SECONDS_MIN = 4 * 86_400.0  # the last attempt comes before
_HOOKS: WeakKeyDictionary[Inbox, Webhooks] = WeakKeyDictionary()


class Webhooks(Registry):
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
        proxy: str | None = None,
    ) -> None:
        if inbox in _HOOKS:
            raise BadSettings("this inbox has its Webhooks already: make one Webhooks(inbox), and use it everywhere")
        super().__init__(inbox, guard=guard, queue=queue)
        check_seconds("retention_seconds", retention_seconds, RETENTION_SECONDS_MIN, SECONDS_MAX)
        caller = caller or Caller(self.guard, proxy=proxy)
        self._receivers: dict[str, Receiver] = {}
        self._deliverer = Deliverer(self.guard, caller, queue, inbox.codec, inbox.bus)
        inbox.lifespan(self._deliverer.lifespan)
        inbox.at_start.append(endpoints.begin_webhooks(queue))
        inbox.chore("webhooks:keep", KEEP_EVERY_SECONDS, endpoints.keep_webhooks(retention_seconds))
        made = inbox.handler(KIND, queue=queue, max_attempts=ATTEMPTS, lease_seconds=LEASE_SECONDS, encrypt=False)
        made(self._deliverer.deliver)
        _HOOKS[inbox] = self

    def send(self, conn: Any, tenant: str, kind: str, data: Any) -> Any:
        """Tell every endpoint of the tenant that wants this kind, in the caller's transaction; awaitable if that is."""
        body = rendered(data)
        check_tenant(tenant)
        if not isinstance(kind, str) or not WORD.fullmatch(kind):
            raise InvalidPayload(
                f"kind={str(kind)[:60]!r} must be 1 to 200 visible ASCII characters, such as order.paid"
            )
        kept = seal_body(self._inbox.codec, body, tenant)
        return self._run(conn, endpoints.send_webhook(tenant, kind, kept, queue=self._queue))

    def receive(
        self,
        provider: str,
        *,
        verify: Verifier,
        then: Handler[..., ..., Any],
        connections: Any = None,
        url: str | None = None,
    ) -> Receiver:
        """An ASGI app that stores a provider's webhooks: app.mount("/in/stripe", hooks.receive("stripe", …)).

        Rows are stored once by the name of the provider, the kind of `then` and the provider's id: another receiver
        needs another name.
        """
        made = Receiver(provider, verify, then, connections=connections, url=url, bus=self._inbox.bus)
        if not self._receivers.setdefault(provider, made).stores_as(made):
            raise BadSettings(f"provider={provider!r} is taken by another receiver: give each its own name")
        return made


def hooks_of(inbox: Inbox) -> Webhooks | None:
    """The webhooks of an inbox, if it has any."""
    return _HOOKS.get(inbox)


def rendered(data: Any) -> bytes:
    """The body: rendered once, because what is signed must be what is sent."""
    try:
        body = msgspec.json.encode(data)
        if b"null" in body:  # what msgspec writes for NaN and infinity, too: json refuses them
            json.dumps(msgspec.to_builtins(data, enc_hook=lambda _: None), allow_nan=False, skipkeys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"the data of a webhook must be JSON: {error}") from None
    if len(body) > BODY_BYTES_MAX:
        raise InvalidPayload(f"the body has {len(body)} bytes, the limit is {BODY_BYTES_MAX}: send an address instead")
    return body
