"""What a flow says while it works, as Server-Sent Events with resume."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from starlette.responses import Response, StreamingResponse

from ..verbs.flows import flow_state, said
from .again import refused_since
from .http_errors import Refused
from .route import Ask, Asked, Error, Route

STREAMS_MAX = 50
OF_ONE_MAX = 10
LOOK_SECONDS = 0.5
PING_SECONDS = 10.0
LIVE = ("pending", "processing")
CHUNKS = 500
_open: list[str] = []  # whose


class SaidAsked(Asked, frozen=True):
    """Where to resume, for clients that cannot send Last-Event-ID."""

    after: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)] = 0


async def listen(ask: Ask[SaidAsked, None]) -> Response:
    """What a flow says by flow.say, from the beginning or after a number; the stream ends with the flow.

    Where payloads are hidden each `chunk` is null.
    """
    id = ask.path["id"]
    if await ask.site.store.ask(flow_state(id)) is None:
        raise Refused(404, f"there is no flow {id}: GET api/flows lists them")
    if len(_open) >= STREAMS_MAX:
        raise Refused(503, f"{STREAMS_MAX} streams of flows are open already: close a tab")
    if _open.count(ask.access.actor) >= OF_ONE_MAX:
        raise Refused(429, f"{ask.access.actor!r} has {OF_ONE_MAX} streams of flows open already: close a tab")
    if ask.request.method == "HEAD":
        return Response(media_type="text/event-stream")
    last = ask.request.headers.get("last-event-id", "")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 18 else ask.query.after
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_told(ask, after), headers=headers, media_type="text/event-stream")


async def _told(ask: Ask[Any, Any], after: int) -> AsyncIterator[bytes]:
    """Until the flow or the server ends, or whoever asked is no longer let in."""
    id, store, refused, me = ask.path["id"], ask.site.store, refused_since(ask), ask.access.actor
    _open.append(me)
    try:
        yield b"retry: 1000\n\n"
        pinged = time.monotonic()
        while not ask.site.closed and not await refused():
            state = await store.ask(flow_state(id))  # before the look: what it said at its end is there
            found = await store.ask(said(id, after, CHUNKS))
            for each in found:
                after = each.n
                line = msgspec.json.encode({"at": each.at, "chunk": None if ask.site.hide_payloads else each.chunk})
                yield b"id: %d\nevent: said\ndata: %s\n\n" % (each.n, line)
            if len(found) == CHUNKS:
                continue
            if state is None or state.status not in LIVE:
                yield b"event: ended\ndata: %s\n\n" % msgspec.json.encode({"status": state and state.status})
                return
            if time.monotonic() > pinged + PING_SECONDS:
                pinged = time.monotonic()
                yield b": ping\n\n"
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        _open.remove(me)


_STREAM = {200: ("text/event-stream",), 404: Error}
ROUTES = (Route("GET", "/api/flows/{id}/said", "read", listen, _STREAM, SaidAsked),)
