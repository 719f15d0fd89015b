"""Export: every row of a filter as CSV or JSON lines, streamed page by page."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from starlette.responses import StreamingResponse

from .. import db, finding, questions
from ..filter import Filter
from .refusal import Refused, refusal
from .route import Ask, Asked, FilterText, Route
from .shapes import RowShape, row_shape
from .site import Site

PAGE = 500
TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
COLUMNS = RowShape.__struct_fields__
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run


class ExportAsked(Asked, frozen=True):
    """Which rows, how many at most, and how they are written."""

    filter: FilterText = ""
    format: Literal["csv", "jsonl"] = "jsonl"
    n: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 100_000


async def export(ask: Ask[ExportAsked, None]) -> StreamingResponse:
    """The rows of a filter as CSV or JSON lines, newest first; an export that breaks off says so in its last line."""
    wanted, form = ask.site.filter(ask.query.filter), ask.query.format
    pages = _pages(ask.site, wanted, ask.query.n)
    first = await anext(pages)  # a database that is away is told by the status, not in the middle of a file
    named = f'attachment; filename="tenure-rows.{form}"'
    headers = {"content-disposition": named, "cache-control": "no-store"}
    return StreamingResponse(_written(first, pages, form), headers=headers, media_type=TYPES[form])


async def _pages(site: Site, wanted: Filter, n: int) -> AsyncIterator[list[RowShape]]:
    before: UUID | None = None
    left, done = n, False
    while left > 0 and not done:
        async with site.store.reading() as conn:
            now = await db.run(conn, questions.clock(), site.store.schema)
            found = await db.run(conn, finding.page(wanted, before=before, n=min(PAGE, left)), site.store.schema)
        yield [row_shape(row, now, site) for row in found.rows]
        left -= len(found.rows)
        before, done = found.next, found.done


async def _written(first: list[RowShape], rest: AsyncIterator[list[RowShape]], form: str) -> AsyncIterator[bytes]:
    write = _csv if form == "csv" else _jsonl
    yield (_lines([COLUMNS]) if form == "csv" else b"") + write(first)
    try:
        async for shapes in rest:
            yield write(shapes)
    except Exception as error:
        yield _broken_off(refusal(error), form)


def _broken_off(refused: Refused, form: str) -> bytes:
    return _lines([["error", str(refused)]]) if form == "csv" else msgspec.json.encode({"error": str(refused)}) + b"\n"


def _jsonl(shapes: list[RowShape]) -> bytes:
    return b"".join(msgspec.json.encode(shape) + b"\n" for shape in shapes)


def _csv(shapes: list[RowShape]) -> bytes:
    return _lines([_cell(value) for value in msgspec.to_builtins(shape).values()] for shape in shapes)


def _lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """A value no spreadsheet takes for a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


ROUTES = (Route("GET", "/api/rows/export", "read", export, {200: tuple(TYPES.values())}, ExportAsked),)
