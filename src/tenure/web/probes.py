"""Probes and metrics: is the server alive and ready, and the fleet's numbers for Prometheus."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import psycopg
from psycopg import errors as pg
from starlette.responses import Response

from ..errors import TenureError
from ..postgres import migrate
from ..telemetry.metrics import CONTENT_TYPE
from ..verbs import questions
from .access import PUBLIC
from .http_errors import RETRY_SECONDS, Refused, refusal
from .route import Ask, Route


class Live(msgspec.Struct, frozen=True):
    """It answers."""

    status: Literal["live"] = "live"


class Ready(msgspec.Struct, frozen=True):
    """The database answers and has the schema of this version."""

    status: Literal["ready"]
    schema: int


class NotReady(msgspec.Struct, frozen=True):
    """Why it is not ready."""

    status: Literal["not ready"]
    error: str


async def live(_ask: Ask[Any, None]) -> Live:
    """The process answers, whatever the database does."""
    return Live()


async def ready(ask: Ask[Any, None]) -> Ready | Response:
    """The database answers and holds the right schema."""
    store = ask.site.store
    try:
        done = await store.ask(questions.migrations(), "probe")
        migrate.judge(done, store.schema)
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        return _not_ready(f"schema {store.schema!r} is missing: run `tenure migrate`")
    except (TenureError, psycopg.Error, Refused) as error:
        return _not_ready(str(refusal(error)))
    return Ready("ready", len(done))


async def health(ask: Ask[Any, None]) -> Ready | Response:
    """The same as /health/ready, under the name that people try first."""
    return await ready(ask)


def _not_ready(why: str) -> Response:
    headers = {"retry-after": str(RETRY_SECONDS), "cache-control": "no-store"}
    return Response(msgspec.json.encode(NotReady("not ready", why)), 503, headers, "application/json")


async def metrics(ask: Ask[Any, None]) -> Response:
    """Depth, lag and workers in the text format of Prometheus."""
    known = ask.site.metrics
    text = known.kept or await ask.site.store.blocking(known.text, "metrics")
    return Response(text, headers={"cache-control": "no-store", "content-type": CONTENT_TYPE})


ROUTES = (
    Route("GET", "/health", PUBLIC, health, {200: Ready, 503: NotReady}),
    Route("GET", "/health/live", PUBLIC, live, {200: Live}),
    Route("GET", "/health/ready", PUBLIC, ready, {200: Ready, 503: NotReady}),
    Route("GET", "/metrics", "read", metrics, {200: ("text/plain",)}),
)
