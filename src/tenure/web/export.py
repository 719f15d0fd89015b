"""Export: every row of a filter as CSV or JSON lines, streamed page by page."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from .. import postgres
from ..model.filter import Filter
from ..model.rows import Row
from ..verbs import questions, search
from .again import refused_since
from .answers import RowShape, row_shape
from .http_errors import Refused, refusal
from .route import Ask, Asked, FilterText, Route
from .site import Site
from .store import in_thread

ROWS_FIRST, ROWS_MAX = 8, 100
PAGE_BYTES = 4 * 1024 * 1024
TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
COLUMNS = RowShape.__struct_fields__
Write = Callable[[RowShape], bytes]
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # a spreadsheet would run it


class ExportAsked(Asked, frozen=True):
    """Which rows, how many at most, and how they are written."""

    filter: FilterText = ""
    format: Literal["csv", "jsonl"] = "jsonl"
    n: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 100_000
    reveal: bool = False


@dataclass(slots=True)
class _Tally:
    """A line of the audit, how many rows were sent so far, and whether the line has ended."""

    line: int
    rows: int = 0
    ended: bool = False


class _File(StreamingResponse):
    """What is downloaded. If it is broken off, as when its reader leaves, the audit has the rows sent until then."""

    def __init__(self, site: Site, tally: _Tally, pages: AsyncIterator[bytes], **rest: Any) -> None:
        super().__init__(pages, **rest)
        self._site, self._tally = site, tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, as ASGI calls it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._tally.ended:
                await asyncio.shield(self._site.witness.broken_off(self._tally.line, self._tally.rows))


async def export(ask: Ask[ExportAsked, None]) -> Response:
    """The rows of a filter as CSV or JSON lines, newest first; the last line of an incomplete export says so."""
    wanted, form, site = ask.filter(ask.query.filter), ask.query.format, ask.site
    if ask.query.reveal:
        ask.require("reveal")
        site = site.showing
    named = f'attachment; filename="tenure-rows.{form}"'
    headers = {"content-disposition": named, "cache-control": "no-store"}
    if ask.request.method == "HEAD":
        return Response(headers=headers, media_type=TYPES[form])
    tally = _Tally(await site.witness.begin(ask.access.actor, "export", str(wanted), _shown(ask, site)))
    pages = _pages(ask, site, wanted, _csv if form == "csv" else _jsonl, tally)
    first = await anext(pages)  # report an unreachable database by the status, not in the middle of a file
    return _File(site, tally, _written(first, pages, form), headers=headers, media_type=TYPES[form])


def _shown(ask: Ask[ExportAsked, None], site: Site) -> str:
    return f"{ask.query.format}, {'without' if site.hide_payloads else 'with'} payloads"


async def _pages(
    ask: Ask[ExportAsked, None], site: Site, wanted: Filter, write: Write, tally: _Tally
) -> AsyncIterator[bytes]:
    """Page by page; large rows make the next page smaller, so that memory stays bounded. The audit has their number."""
    before: UUID | None = None
    most, refused = ask.query.n, refused_since(ask, "reveal" if ask.query.reveal else "read")
    left, n, done = most, ROWS_FIRST, False
    while left > 0 and not done:
        if site.closed:
            raise Refused(503, "the server stops: this export is incomplete, start it again")
        if await refused():
            raise Refused(401, "you are no longer let in: this export is incomplete")
        async with site.store.reading() as conn:
            now = await postgres.run(conn, questions.clock(), site.store.schema)
            found = await postgres.run(conn, search.page(wanted, before=before, n=min(n, left)), site.store.schema)
        page = await in_thread(partial(_page, found.rows, now, site, write))
        left -= len(found.rows)
        before, done = found.next, found.done
        n = min(ROWS_MAX, 4 * n, max(1, PAGE_BYTES * len(found.rows) // max(1, len(page))))
        tally.rows = most - left
        if left <= 0 or done:
            await site.witness.end(tally.line, tally.rows)
            tally.ended = True
        yield page


def _page(rows: list[Row], now: datetime, site: Site, write: Write) -> bytes:
    return b"".join(write(row_shape(row, now, site)) for row in rows)


async def _written(first: bytes, rest: AsyncIterator[bytes], form: str) -> AsyncIterator[bytes]:
    yield (_line(COLUMNS) if form == "csv" else b"") + first
    try:
        async for page in rest:
            yield page
    except Exception as error:
        yield _broken_off(refusal(error), form)


def _broken_off(refused: Refused, form: str) -> bytes:
    return _line(["error", str(refused)]) if form == "csv" else msgspec.json.encode({"error": str(refused)}) + b"\n"


def _jsonl(shape: RowShape) -> bytes:
    return msgspec.json.encode(shape) + b"\n"


def _csv(shape: RowShape) -> bytes:
    return _line([_cell(value) for value in msgspec.to_builtins(shape).values()])


def _line(cells: Iterable[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC).writerow(cells)  # some spreadsheets split at semicolons, too
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """The value, quoted if a spreadsheet would read it as a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


ROUTES = (Route("GET", "/api/rows/export", "read", export, {200: tuple(TYPES.values())}, ExportAsked, by_queue=True),)
