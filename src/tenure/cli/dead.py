"""`tenure dead`: what ended badly, grouped by kind and error."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from .. import postgres
from ..console.terminal import echo
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs import questions
from ..verbs.search import DeadGroup, dead_groups
from .database import opened, options
from .output import ago, as_json, counted, error_line, said, show

HEAD = ("status", "kind", "rows", "fingerprint", "first", "last", "error")


@click.command()
@click.option(
    "-n", "most", metavar="N", type=click.IntRange(1, 1000), default=50, show_default=True, help="Groups at most."
)
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@options
def command(most: int, form: str | None, database_url: str | None, schema: str | None) -> None:
    """List failed rows and dead letters, grouped by kind and error, the latest first.

    Errors that differ only in numbers and quoted text have one fingerprint. To act on a group:

    tenure redrive status:dead_letter kind:KIND fingerprint:FINGERPRINT
    """
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure dead") as conn,
    ):
        migrate.require(conn, database.schema)
        groups = postgres.run(conn, dead_groups(most), database.schema)
        now = postgres.run(conn, questions.clock(), database.schema)
    if form == "json":
        found = [{**each._asdict(), "filter": str(each.filter)} for each in groups]
        echo(as_json({"schema": 1, "groups": found}))
    else:
        show(HEAD, [_line(each, now) for each in groups], "nothing ended badly", [each.last_at for each in groups])


def _line(group: DeadGroup, now: datetime) -> tuple[str, ...]:
    return (
        group.status,
        printable(group.kind),
        counted(group.rows),
        group.fingerprint,
        _when(group.first_at, now),
        _when(group.last_at, now),
        error_line(group.last_error),
    )


def _when(then: datetime, now: datetime) -> str:
    """About how long ago for people, who need the room for the error; the exact time for programs."""
    return f"{ago(then, now)} ago" if sys.stdout.isatty() else said(then)
