"""The stage over HTTP: drills on real processes, only for users of this machine."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from starlette.responses import Response, StreamingResponse

from ..drills import host as hosting
from ..drills.host import Host
from ..drills.plan import Plan
from ..drills.scenes.book import BOOK
from ..drills.stage.acts import AnyAct
from ..drills.stage.picture import shown
from ..drills.stage.stage import WORKERS_MAX
from ..operate import noted
from ..verbs import questions
from .access import is_near
from .again import refused_since
from .http_errors import Refused
from .route import Ask, Asked, Error, Reply, Route
from .site import Site
from .stage_answers import DoneShape, DrillsShape, OpenedShape, ShownShape, StageShape, drill_shape
from .store import in_thread

STREAMS_MAX = 20
PING_SECONDS = 15.0
ANSWER_SECONDS_MAX = 30.0

T = TypeVar("T")
Run = Callable[[Ask[Any, Any]], Awaitable[Any]]
StageId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}$")]


class SaidAsked(Asked, frozen=True):
    """Where to resume, for clients that cannot send Last-Event-ID."""

    last_event_id: Annotated[str, msgspec.Meta(max_length=100)] = ""


def near(run: Run) -> Run:
    """Refuse requests from other machines, under other names, or through a proxy, whatever their role is."""

    @functools.wraps(run)
    async def checked(ask: Ask[Any, Any]) -> Any:
        if not is_near(ask.request):
            raise Refused(403, "drills start and stop processes: use localhost on this machine, without a proxy")
        return await run(ask)

    return checked


@near
async def drills(_ask: Ask[Any, None]) -> DrillsShape:
    """Every drill, in the order in which to read them."""
    return DrillsShape([drill_shape(make()) for make in BOOK.values()], WORKERS_MAX, hosting.IDLE_SECONDS)


@near
async def open_stage(ask: Ask[Any, Plan]) -> Reply:
    """Open a stage in its own schema and play a drill on it; without a drill, the caller acts."""
    host = _hosts(ask.site).open(ask.body)
    try:
        await _answered(host.begun)
        await _note(ask, "open_stage", host)
    except BaseException:
        host.close()
        raise
    return Reply(201, OpenedShape(host.id, host.schema, host.plan.drill, host.plan.control))


@near
async def stage(ask: Ask[Any, None]) -> StageShape:
    """A stage now: its rows, leases, ledger, mailbox, workers and ring."""
    host = _host(ask)
    plan, seconds = host.plan, round(host.seconds, 3)
    return StageShape(host.id, host.schema, plan.drill, plan.control, host.playing, seconds, host.picture)


@near
async def do(ask: Ask[Any, AnyAct]) -> DoneShape:
    """Do one act on a stage where no scene plays: enqueue, start, pause, resume, kill, drain, cut, heal, set, …"""
    await _answered(_host(ask).do(ask.body))
    return DoneShape(str(ask.body.__struct_config__.tag))


@near
async def events(ask: Ask[SaidAsked, None]) -> Response:
    """Everything that happened on a stage, and what happens next, as Server-Sent Events with resume."""
    host = _host(ask)
    if host.record.hearers >= STREAMS_MAX:
        raise Refused(503, f"{STREAMS_MAX} streams of this stage are open already: close a tab")
    if ask.request.method == "HEAD":
        return Response(media_type="text/event-stream")
    last = ask.request.headers.get("last-event-id") or ask.query.last_event_id
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_said(ask, host, _number(last)), headers=headers, media_type="text/event-stream")


@near
async def row(ask: Ask[Any, None]) -> ShownShape:
    """A row of the stage, the SQL that shows it, and its lease tape."""
    id = ask.path["job_id"]
    found = await _answered(_host(ask).ask(lambda stage: shown(stage, id)))
    if found is None:
        raise Refused(404, f"there is no row {id} on this stage: GET api/stage/{ask.path['id']} lists its rows")
    return msgspec.convert(found, ShownShape)


@near
async def close_stage(ask: Ask[Any, None]) -> Response:
    """End a stage: when the answer comes, its processes have ended and its schema is dropped."""
    host = _host(ask)
    host.close()
    if not await in_thread(host.join):
        raise Refused(503, f"stage {host.id} has not ended yet: ask again")
    if host.left:
        raise Refused(503, f"stage {host.id} has ended, but its schema could not be removed: run `{host.left}`")
    await _note(ask, "close_stage", host)
    return Response(status_code=204, headers={"cache-control": "no-store"})


def _hosts(site: Site) -> hosting.Hosts:
    assert site.hosts is not None, "these routes are there only with it"
    return site.hosts


def _host(ask: Ask[Any, Any]) -> Host:
    host = _hosts(ask.site).find(ask.path["id"])
    if host is None:
        raise Refused(404, f"there is no stage {ask.path['id']}: it has ended, open another with POST api/stage")
    return host


async def _answered(answer: Future[T]) -> T:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(answer), ANSWER_SECONDS_MAX)
    except TimeoutError:
        raise Refused(503, f"the stage did not answer within {ANSWER_SECONDS_MAX:.0f} s: close it") from None


async def _note(ask: Ask[Any, Any], verb: str, host: Host) -> None:
    """A line of the audit."""
    schema = ask.site.store.schema
    await ask.site.store.blocking(
        lambda conn: noted(conn, questions.ping(), ask.actor, verb, host.schema, schema, reason=host.plan.drill or "")
    )


async def _said(ask: Ask[Any, Any], host: Host, at: int) -> AsyncIterator[bytes]:
    """Events from the at-th on, until the stage or the server ends, or whoever asked is no longer let in."""
    loop, news, refused = asyncio.get_running_loop(), asyncio.Event(), refused_since(ask)

    def wake() -> None:
        with suppress(RuntimeError):  # the loop ended before the stage did
            loop.call_soon_threadsafe(news.set)

    with host.record.heard(wake):
        yield b"retry: 1000\n\n"
        while not ask.site.closed and not await refused():
            news.clear()
            over = host.over  # read before the log: the last event comes before `over` is set
            for told in host.record.since(at):
                at = told.n
                yield b"id: %d\nevent: said\ndata: %s\n\n" % (told.n, told.line)
            if over:
                return
            try:
                await asyncio.wait_for(news.wait(), PING_SECONDS)
            except TimeoutError:
                yield b": ping\n\n"


def _number(last_id: str) -> int:
    """The number of the last event that was received; 0 for anything else."""
    return int(last_id) if last_id.isascii() and last_id.isdigit() and len(last_id) < 18 else 0


OF_STAGE = {"id": StageId}
TOO_MANY = {404: Error, 409: Error}
ROUTES = (
    Route("GET", "/api/drills", "read", drills, {200: DrillsShape}),
    Route("POST", "/api/stage", "drill", open_stage, {201: OpenedShape, 409: Error}, body=Plan),
    Route("GET", "/api/stage/{id}", "read", stage, {200: StageShape, 404: Error}, types=OF_STAGE),
    Route("DELETE", "/api/stage/{id}", "drill", close_stage, {204: None, 404: Error}, types=OF_STAGE),
    Route("POST", "/api/stage/{id}/do", "drill", do, {200: DoneShape} | TOO_MANY, body=AnyAct, types=OF_STAGE),
    Route(
        "GET",
        "/api/stage/{id}/events",
        "read",
        events,
        {200: ("text/event-stream",), 404: Error},
        SaidAsked,
        types=OF_STAGE,
    ),
    Route(
        "GET",
        "/api/stage/{id}/row/{job_id}",
        "read",
        row,
        {200: ShownShape} | TOO_MANY,
        types=OF_STAGE | {"job_id": UUID},
    ),
)
