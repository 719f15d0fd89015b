"""The stream of events: Server-Sent Events of the feed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from starlette.responses import Response, StreamingResponse

from .again import refused_since
from .route import Ask, Asked, Route


class EventsAsked(Asked, frozen=True):
    """Whether to send events of the fleet, and where to resume for clients that cannot send Last-Event-ID."""

    fleet: bool = False
    last_event_id: Annotated[str, msgspec.Meta(max_length=100)] = ""


async def events(ask: Ask[EventsAsked, Any]) -> Response:
    """A tick every two seconds, and with `fleet` every event of the fleet, as Server-Sent Events with resume."""
    last = ask.request.headers.get("last-event-id") or ask.query.last_event_id
    if ask.request.method == "HEAD":
        return Response(media_type="text/event-stream")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    stream = ask.site.feed.open(last, refused_since(ask), fleet=ask.query.fleet, actor=ask.access.actor)
    return StreamingResponse(stream, headers=headers, media_type="text/event-stream")


ROUTES = (Route("GET", "/api/events", "read", events, {200: ("text/event-stream",)}, EventsAsked),)
