"""Actions: a verb on the rows of a filter; first an exact count, then batches that outlast the request."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .. import operate, postgres
from ..model.filter import Filter
from ..operate import Done
from ..operator_verbs import ON_ROWS
from ..postgres.connection import QueueConnection
from ..verbs import search
from .answers import Count, count, hint_of
from .audit import AuditLineShape, line_shape
from .http_errors import Refused
from .route import Ask, Asked, Error, FilterText, Reply, Route, when

if TYPE_CHECKING:
    RowVerb = str
else:
    RowVerb = Literal[tuple(ON_ROWS)]  # the API's description lists them, and any other is refused

ANSWER_SECONDS = 60.0


class ActionAsked(Asked, frozen=True):
    """Which verb on which rows. A dry run counts; a real run says how many rows it expects at most, and why."""

    rules = (when({"dry_run": {"const": False}}, {"expect": {"type": "integer"}}),)

    verb: RowVerb
    filter: FilterText
    dry_run: bool = True
    expect: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


class Would(msgspec.Struct, frozen=True):
    """How many rows the verb would change now, exactly, and how many of them are in which state."""

    verb: str
    filter: str
    matched: int
    statuses: dict[str, Count]
    hint: str | UnsetType = UNSET


class DoneShape(msgspec.Struct, frozen=True):
    """What was done; skipped rows were locked, had changed meanwhile, or, by delete, are flows that have begun."""

    action: int
    verb: str
    filter: str
    matched: int
    changed: int
    skipped: int
    done: bool
    hint: str | UnsetType = UNSET


class Going(msgspec.Struct, frozen=True):
    """The action goes on: GET /api/actions/{action} says how far it is."""

    action: int
    verb: str
    filter: str
    done: bool
    hint: str | UnsetType = UNSET


async def action(ask: Ask[Any, ActionAsked]) -> Would | DoneShape | Reply:
    """Count the rows of a filter that a verb would change, or change them."""
    ask.require(ask.body.verb)
    wanted = ask.filter(ask.body.filter)
    if not ask.body.dry_run and ask.body.expect is None:
        raise Refused(400, f"{ask.body.verb} needs `expect`, the number of rows it may change: a dry run counts them")
    return await _would(ask, wanted) if ask.body.dry_run else await _do(ask, wanted)


async def _would(ask: Ask[Any, ActionAsked], wanted: Filter) -> Would:
    def counted(conn: QueueConnection) -> tuple[int, dict[str, search.Count]]:
        matched = operate.would(conn, ask.body.verb, wanted, ask.site.store.schema)
        return matched, postgres.run(conn, search.statuses(wanted), ask.site.store.schema)

    matched, counts = await ask.site.store.blocking(counted, "count")
    narrowed = operate.narrow(ask.body.verb, wanted)
    statuses = {name: count(counts[name]) for name in narrowed.statuses} if narrowed else {}
    return Would(ask.body.verb, str(wanted), matched, statuses, hint_of(wanted))


async def _do(ask: Ask[Any, ActionAsked], wanted: Filter) -> DoneShape | Reply:
    """Wait for the end, or for as long as a request may last; the rest is done after the answer."""
    began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    doing = asyncio.ensure_future(ask.site.store.blocking(partial(_acted, ask, wanted, _tell(began)), "action"))
    await asyncio.wait([doing], timeout=ANSWER_SECONDS)
    either: list[asyncio.Future[Any]] = [doing, began]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)  # a long count may run before the first batch
    if not doing.done():
        doing.add_done_callback(lambda late: late.cancelled() or late.exception())  # the audit has its end
        return Reply(202, Going(began.result(), ask.body.verb, str(wanted), False, hint_of(wanted)))
    done = doing.result()
    changed = (done.matched, done.changed, done.skipped, done.done)
    return DoneShape(done.action, done.verb, str(wanted), *changed, hint_of(wanted))


def _acted(ask: Ask[Any, ActionAsked], wanted: Filter, began: Any, conn: QueueConnection) -> Done:
    def progress(_rows: int) -> None:
        if ask.site.closed:
            raise Refused(503, "the server stops, and this action after a batch: the audit says how far it came")

    return operate.act(
        conn,
        ask.body.verb,
        wanted,
        ask.actor,
        schema=ask.site.store.schema,
        reason=ask.body.reason,
        began=began,
        progress=progress,
        expect=ask.body.expect,
    )


def _tell(began: asyncio.Future[int]) -> Any:
    """A function that sets this future of the loop from another thread."""
    loop = began.get_loop()
    return lambda action: loop.call_soon_threadsafe(began.set_result, action)


async def told(ask: Ask[Any, None]) -> AuditLineShape:
    """How far an action is, from the audit; without done_at it still goes on, or was stopped."""
    found = await ask.site.store.ask(operate.audit(1, ask.path["action"] + 1))
    if not found or found[0].id != ask.path["action"]:
        raise Refused(404, f"there is no action {ask.path['action']}: GET api/audit lists them")
    return line_shape(found[0], ask.site)


Number = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
ROUTES = (
    Route(
        "POST",
        "/api/actions",
        "act",
        action,
        {200: [Would, DoneShape], 202: Going, 409: Error},
        body=ActionAsked,
        by_queue=True,
    ),
    Route("GET", "/api/actions/{action}", "read", told, {200: AuditLineShape, 404: Error}, types={"action": Number}),
)
