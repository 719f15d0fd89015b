"""Webhooks: endpoints and how their calls went, without a secret; pause, resume, test one, or send it some again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from .. import postgres
from ..verbs import endpoints as verbs
from ..verbs.endpoints import DeliveryRow, EndpointCalls, EndpointRow, State
from ..verbs.kinds import declared
from ..verbs.statement import Statement, insisting
from .answers import EXCERPT_MAX, utc
from .http_errors import Refused
from .route import Ask, Asked, Error, Key, Route, Why
from .site import Site

RESENT_MAX = 100


class HooksAsked(Asked, frozen=True):
    """Whose endpoints, and how many."""

    tenant: Key | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200


class CallsAsked(Asked, frozen=True):
    """How many calls."""

    n: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class ResendAsked(Asked, frozen=True):
    """Which webhooks are sent again, by their ids."""

    webhooks: Annotated[list[UUID], msgspec.Meta(min_length=1, max_length=RESENT_MAX)]


class LatelyShape(msgspec.Struct, frozen=True):
    """The last calls, up to 100; `answers` has the last ten statuses, the newest first, null where nobody answered."""

    calls: int
    ok: int
    p50_ms: int
    p99_ms: int
    last_at: datetime
    answers: list[int | None]


class HookShape(msgspec.Struct, frozen=True):
    """One endpoint. Its address is shown without what follows a question mark: that may be a secret."""

    id: UUID
    tenant: str
    url: str
    kinds: list[str]
    state: str
    failures: int
    failing_since: datetime | None
    open_until: datetime | None
    rotating_until: datetime | None
    note: str | None
    made_at: datetime
    pending: int
    lately: LatelyShape | None


class HooksShape(msgspec.Struct, frozen=True):
    """Endpoints, by tenant."""

    endpoints: list[HookShape]


class CallShape(msgspec.Struct, frozen=True):
    """One call; no status: nobody answered."""

    row: UUID
    webhook: UUID
    kind: str | None
    attempt: int
    at: datetime
    status: int | None
    ms: int
    address: str | None
    note: str | None


class HookPage(msgspec.Struct, frozen=True):
    """One endpoint and its last calls, the newest first."""

    endpoint: HookShape
    calls: list[CallShape]


class HookTold(msgspec.Struct, frozen=True):
    """What was done: how many rows are due or sent, and which webhooks are not among them: its tenant has them not."""

    id: UUID
    rows: int
    left_out: list[UUID] = []


async def hooks(ask: Ask[HooksAsked, None]) -> HooksShape:
    """The endpoints of webhooks: state, circuit, what waits, and how the last calls went."""
    schema = ask.site.store.schema
    async with ask.site.store.reading() as conn:
        found = await postgres.run(conn, verbs.endpoints(ask.query.tenant, ask.query.n), schema)
        calls = await postgres.run(conn, verbs.endpoint_calls([each.id for each in found]), schema)
    return HooksShape([_shape(each, calls.get(each.id), ask.site) for each in found])


async def hook(ask: Ask[CallsAsked, None]) -> HookPage:
    """One endpoint of webhooks and its last calls, with what was answered."""
    id, schema = ask.path["id"], ask.site.store.schema
    async with ask.site.store.reading() as conn:
        found = await postgres.run(conn, verbs.endpoints(id=id), schema)
        if not found:
            raise Refused(404, _missing(id))
        calls = await postgres.run(conn, verbs.endpoint_calls([id]), schema)
        log = await postgres.run(conn, verbs.deliveries(id, ask.query.n), schema)
    return HookPage(_shape(found[0], calls.get(id), ask.site), [_call(each) for each in log])


def shown_url(url: str, site: Site) -> str:
    """An address without its query; where payloads are hidden, without its path too."""
    parts = urlsplit(url)
    path = "/…" if site.hide_payloads and parts.path.strip("/") else parts.path
    return f"{parts.scheme}://{parts.netloc}{path}{'?…' if parts.query else ''}"


def _shape(each: EndpointRow, calls: EndpointCalls | None, site: Site) -> HookShape:
    return HookShape(
        id=each.id,
        tenant=each.tenant,
        url=shown_url(each.url, site),
        kinds=list(each.kinds),
        state=each.state,
        failures=each.failures,
        failing_since=utc(each.failing_since),
        open_until=utc(each.open_until),
        rotating_until=utc(each.rotating_until),
        note=each.note and each.note[:EXCERPT_MAX],
        made_at=utc(each.made_at),
        pending=each.pending,
        lately=None if calls is None else _lately(calls),
    )


def _lately(calls: EndpointCalls) -> LatelyShape:
    _, n, ok, p50_ms, p99_ms, last_at, answers = calls
    return LatelyShape(n, ok, p50_ms, p99_ms, utc(last_at), list(answers))


def _call(each: DeliveryRow) -> CallShape:
    return CallShape(
        row=each.row_id,
        webhook=each.webhook_id,
        kind=each.kind,
        attempt=each.attempt,
        at=utc(each.at),
        status=each.status,
        ms=each.ms,
        address=each.address,
        note=each.note and each.note[:EXCERPT_MAX],
    )


async def pause(ask: Ask[Any, Why]) -> HookTold:
    return await _set(ask, "paused", "pause_endpoint")


async def resume(ask: Ask[Any, Why]) -> HookTold:
    return await _set(ask, "active", "resume_endpoint")


async def test(ask: Ask[Any, Why]) -> HookTold:
    id = ask.path["id"]
    await _change(ask, "test_endpoint", lambda queue: verbs.try_endpoint(id, queue=queue), "or it is disabled")
    return HookTold(id, 1)


async def resend(ask: Ask[Any, ResendAsked]) -> HookTold:
    id, chosen = ask.path["id"], ask.body.webhooks
    why = "or it is disabled, or its tenant has none of these webhooks any more"
    again = lambda queue: verbs.resend_webhook(id, chosen, queue=queue)  # noqa: E731
    sent = await _change(ask, "resend_webhooks", again, why)
    return HookTold(id, len(sent), [each for each in dict.fromkeys(chosen) if each not in sent])


async def _set(ask: Ask[Any, Why], state: State, verb: str) -> HookTold:
    id = ask.path["id"]
    return HookTold(id, await _change(ask, verb, lambda queue: verbs.set_endpoint(id, state, queue=queue)))


async def _change(ask: Ask[Any, Any], verb: str, make: Callable[[str], Statement[Any]], more: str = "") -> Any:
    id = ask.path["id"]
    queue = verbs.queue_of(await ask.site.store.ask(declared(verbs.KIND)))
    return await ask.change(insisting(make(queue), Refused(404, _missing(id, more))), str(id), verb=verb)


def _missing(id: UUID, more: str = "") -> str:
    return f"there is no endpoint {id}{f', {more}' if more else ''}: GET api/hooks lists them"


_FOUND = {200: HookTold, 404: Error}
ROUTES = (
    Route("GET", "/api/hooks", "read", hooks, {200: HooksShape}, HooksAsked),
    Route("GET", "/api/hooks/{id}", "read", hook, {200: HookPage, 404: Error}, CallsAsked),
    Route("POST", "/api/hooks/{id}/pause", "pause_endpoint", pause, _FOUND, body=Why),
    Route("POST", "/api/hooks/{id}/resume", "resume_endpoint", resume, _FOUND, body=Why),
    Route("POST", "/api/hooks/{id}/test", "test_endpoint", test, _FOUND, body=Why),
    Route("POST", "/api/hooks/{id}/resend", "resend_webhooks", resend, _FOUND, body=ResendAsked),
)
