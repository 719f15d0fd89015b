"""`tenure rows`: the rows that match a filter, newest first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

import click
from click.core import ParameterSource

from .. import postgres
from ..console.terminal import echo
from ..model.filter import FIELDS, Filter
from ..model.rows import Row
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable
from ..verbs import questions
from ..verbs.search import Page, page
from .database import opened, options
from .filter import filter_of
from .option_types import RowId
from .output import ago, as_json, document, error_line, lines, remark, said

HEAD = ("id", "status", "kind", "queue", "key", "attempts", "age", "worker", "due", "error")
PAGE = 500
ONE_TEXT = "They may be one text: then a value with blanks has quotes of its own, as in 'kind:a error:\"time out\"'."
EPILOG = f"FILTER words; all of them must match. {ONE_TEXT}\n\n\b\n" + "\n".join(
    f"{name}:{how}" for name, how in FIELDS.items()
)


@click.command(epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[FILTER]...")
@click.option(
    "-n", "most", metavar="N", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Rows at most."
)
@click.option("--all", "everything", is_flag=True, help="All rows.")
@click.option("--before", type=RowId(), metavar="ID", help="Continue after this row.")
@click.option("--json", "as_document", is_flag=True, help="One JSON document.")
@click.option("--jsonl", "as_objects", is_flag=True, help="One JSON object a line, as they are found.")
@options
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    most: int,
    everything: bool,
    before: UUID | None,
    as_document: bool,
    as_objects: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """List the rows that match a filter, newest first.

    On a terminal it prints a table; into a pipe a line for each row, cells separated by tabs, the id first.
    """
    if everything and ctx.get_parameter_source("most") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--all and -n {most} contradict each other: give one")
    if as_document and as_objects:
        raise click.UsageError("--json and --jsonl contradict each other: give one")
    filter = filter_of(words)
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure rows") as conn,
    ):
        migrate.require(conn, database.schema)
        pages = found(conn, filter, before, None if everything else most, database.schema)
        if as_objects:
            for each in pages:
                for row in each.rows:
                    echo(as_json(document(row)))
            return
        every = list(pages)
        now = postgres.run(conn, questions.clock(), database.schema)
    rows = [row for each in every for row in each.rows]
    whole = Page(rows, every[-1].next, sum(each.searched for each in every), every[-1].done)
    if as_document:
        facts = {"next": whole.next, "searched": whole.searched, "done": whole.done}
        echo(as_json({"schema": 1, "filter": str(filter), "rows": [document(row) for row in rows], **facts}))
    else:
        _show(whole, now)


def found(conn: QueueConnection, filter: Filter, before: UUID | None, most: int | None, schema: str) -> Iterator[Page]:
    """Page after page, until there are `most` rows or no more."""
    left = most
    while True:
        each = postgres.run(conn, page(filter, before=before, n=PAGE if left is None else min(PAGE, left)), schema)
        left = None if left is None else left - len(each.rows)
        yield each
        if each.done or left == 0:
            return
        before = each.next


def _show(whole: Page, now: datetime) -> None:
    if whole.rows:
        echo(lines(HEAD, [_line(row, now) for row in whole.rows], [row.id for row in whole.rows]))
    if not sys.stderr.isatty():
        return
    if not whole.rows:
        remark("no row matches")
    elif not whole.done:
        remark(f"there may be more: --before {whole.next}")


def _line(row: Row, now: datetime) -> tuple[str, ...]:
    return (
        str(row.id),
        row.status,
        printable(row.kind),
        printable(row.queue),
        "-" if row.partition_key == str(row.id) else printable(row.partition_key),
        f"{row.attempts}/{row.max_attempts}",
        ago(row.created_at, now),
        printable(row.claimed_by or row.finished_by or "-"),
        _due(row, now),
        _error(row),
    )


def _due(row: Row, now: datetime) -> str:
    """When a scheduled row is due: about for people, exactly for programs; a dash for other rows."""
    if row.status != "pending" or row.available_at <= now:
        return "-"
    return f"in {ago(now, row.available_at)}" if sys.stdout.isatty() else said(row.available_at)


def _error(row: Row) -> str:
    """The last error; of a completed row, that of an earlier attempt."""
    line = error_line(row.last_error)
    return f"earlier error: {line}" if line and row.status == "completed" else line
