"""Every route of the HTTP API, in one table, and what it says of itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from . import (
    actions,
    audit,
    batches,
    dead,
    enqueue,
    events,
    export,
    flow_stream,
    flows,
    hooks,
    lately,
    login,
    openapi,
    outbox,
    overview,
    probes,
    projections,
    queues,
    relatives,
    ring,
    rows,
    schedules,
    shards,
    workers,
)
from .access import PUBLIC
from .route import Ask, Route


async def description(ask: Ask[Any, None]) -> dict[str, Any]:
    """This API as OpenAPI 3.1."""
    return _described(str(ask.request.scope.get("root_path", "")).rstrip("/"), ask.site.hosts is not None)


@lru_cache(maxsize=4)
def _described(prefix: str, drills: bool) -> dict[str, Any]:
    return openapi.document(routes(drills=drills), prefix)


def routes(*, drills: bool) -> tuple[Route, ...]:
    """The table, and the routes of the stage where drills are served."""
    if not drills:
        return ROUTES
    from . import stage  # imported here: it needs signals that Windows does not have

    return (*ROUTES, *stage.ROUTES)


# In the order in which paths are tried: /api/rows/export before /api/rows/{id}.
ROUTES: tuple[Route, ...] = (
    *probes.ROUTES,
    *login.ROUTES,
    *overview.ROUTES,
    *lately.ROUTES,
    *export.ROUTES,
    *relatives.ROUTES,
    *rows.ROUTES,
    *enqueue.ROUTES,
    *actions.ROUTES,
    *queues.ROUTES,
    *workers.ROUTES,
    *ring.ROUTES,
    *schedules.ROUTES,
    *shards.ROUTES,
    *outbox.ROUTES,
    *projections.ROUTES,
    *batches.ROUTES,
    *hooks.ROUTES,
    *flows.ROUTES,
    *flow_stream.ROUTES,
    *dead.ROUTES,
    *audit.ROUTES,
    *events.ROUTES,
    Route("GET", "/api/openapi.json", PUBLIC, description, {200: dict[str, Any]}),
)
