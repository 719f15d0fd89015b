"""Webhooks in: an ASGI app that verifies a request, stores it as a row, and answers 202 after the commit.

The same id again is stored once; with other content the first one stands, and an event says so. A database that is away
is answered with 503, so that the provider sends it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import UUID

import msgspec
from psycopg import Error

from ...app.handler import Handler
from ...embedded.default_database import address_async
from ...errors import BadSettings, IdempotencyConflict, InvalidPayload, PayloadTooLarge
from ...events import Bus, WebhookDiffers, WebhookReceived, WebhookRefused
from ...model.limits import KEY_BYTES_MAX
from ...model.payload import check_name
from ...postgres.connection import connect_async
from .verifiers import ID_CHARS_MAX, OUT_OF_RANGE, Forged, Verifier, check_verifier

BODY_BYTES_MAX = 1_048_576
BODY_SECONDS = 10.0
STORE_SECONDS = 10.0
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Lend = Callable[[], AbstractAsyncContextManager[Any]]


class NotTaken(Exception):
    """A request that is answered with this status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Receiver:
    """Its rows are sent to `then`, which takes `id` and `body`: the provider's id, and the body as JSON values.

    `connections` lends a psycopg connection, such as `pool.connection`; without it each request opens one.
    """

    def __init__(
        self,
        provider: str,
        verify: Verifier,
        then: Handler[..., ..., Any],
        *,
        connections: Lend | None = None,
        url: str | None = None,
        bus: Bus | None = None,
    ) -> None:
        if not isinstance(then, Handler) or not then.signature.takes("id", "body"):
            raise BadSettings(f"then={then!r} must be a handler, made with @inbox.handler(…), that takes id and body")
        check_verifier(verify)
        if connections is not None and not callable(connections):
            raise BadSettings("connections= must be what lends one, such as pool.connection, without parentheses")
        self._provider, self._verify, self._then = _provider(provider), verify, then
        self._before_id = _before_id(provider, then.kind)
        self._lend, self._url, self._bus = connections or self._connection, url, bus or Bus()

    def stores_as(self, other: Receiver) -> bool:
        """Whether the other one believes the same requests and sends the same rows, as when an app is made twice."""
        return self._then is other._then and bool(self._verify == other._verify)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await _live(receive, send)
            return
        try:
            await self._store(*await self._believed(scope, receive))
            status = 202
        except NotTaken as error:
            status = error.status
            self._bus.emit(WebhookRefused(self._provider, str(error)))
        except (Error, OSError, TimeoutError):
            status = 503
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def _believed(self, scope: Message, receive: Receive) -> tuple[str, Any]:
        """The provider's id and the body, once the signature over the raw bytes is right."""
        if scope["method"] != "POST":
            raise NotTaken(405, "only POST is taken")
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(receive)
        except TimeoutError:
            raise NotTaken(408, "the body did not come in time") from None
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            id = self._verify.verify(headers, body, time.time())  # the provider's clock against ours
        except Forged as error:
            raise NotTaken(401, str(error)) from None
        try:
            return id, msgspec.json.decode(body)
        except msgspec.ValidationError:  # of any value it is the only one
            raise NotTaken(400, OUT_OF_RANGE) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise NotTaken(400, "the body is not JSON") from None
        except RecursionError:
            raise NotTaken(400, "the body is nested too deep") from None

    async def _store(self, id: str, body: Any) -> None:
        try:
            async with asyncio.timeout(STORE_SECONDS), self._lend() as conn, conn.transaction():
                sender = self._then.using(idempotency_key=self._before_id + id)
                stored = await sender.enqueue(conn, id=id, body=body)
        except IdempotencyConflict as conflict:
            self._bus.emit(WebhookDiffers(self._provider, UUID(str(conflict.row_id))))
            return
        except PayloadTooLarge as error:
            raise NotTaken(413, str(error)) from None
        except InvalidPayload as error:
            raise NotTaken(400, f"the handler cannot take it: {error}") from None
        self._bus.emit(WebhookReceived(self._provider, stored.id, stored.outcome))

    def _connection(self) -> AbstractAsyncContextManager[Any]:
        return _Opened(self._url, self._then.schema)


class _Opened:
    """A connection for one request."""

    def __init__(self, url: str | None, schema: str) -> None:
        self._url, self._schema = url, schema
        self._conn: Any = None

    async def __aenter__(self) -> Any:
        url = await address_async(self._url)
        self._conn = await connect_async(url, application_name="tenure webhooks", schema=self._schema)
        return await self._conn.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        if self._conn is not None:
            await self._conn.__aexit__(*raised)


def _provider(name: str) -> str:
    """The name itself; without a colon, which ends it in the key of a row: an id may have one."""
    if ":" in check_name(name, "provider"):
        raise BadSettings(f"provider={name!r} has a colon, which stands between a provider and its id: write shop-eu")
    return name


def _before_id(provider: str, kind: str) -> str:
    """How the keys of its rows begin. With the kind: a receiver of another inbox of the schema may have this name."""
    before = f"{provider}:{kind.replace('%', '%25').replace(':', '%3A')}:"
    if len(before.encode()) > KEY_BYTES_MAX - ID_CHARS_MAX:
        raise BadSettings(f"provider={provider!r} and the kind {kind!r} are too long together: shorten one of them")
    return before


async def _body(receive: Receive) -> bytes:
    """The raw bytes, up to the limit."""
    said = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise NotTaken(400, "the sender left")
        said += message.get("body", b"")
        if len(said) > BODY_BYTES_MAX:
            raise NotTaken(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
        if not message.get("more_body"):
            return bytes(said)


async def _live(receive: Receive, send: Send) -> None:
    """Of an ASGI server that serves nothing else."""
    while True:
        phase = (await receive())["type"]
        await send({"type": f"{phase}.complete"})
        if phase == "lifespan.shutdown":
            return
