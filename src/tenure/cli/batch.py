"""`tenure batch`: one batch, what follows it, and its rows that have not ended or ended badly."""

from __future__ import annotations

import click

from .. import postgres
from ..console.terminal import echo
from ..errors import NO
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs.batches import group, members
from .batches import fields_of, state_of
from .database import opened, options
from .output import as_json, error_line, said

SHOWN = 50


@click.command()
@click.argument("number", metavar="ID", type=click.IntRange(1, (1 << 57) - 1))
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@options
def command(number: int, form: str | None, database_url: str | None, schema: str | None) -> None:
    """Show a batch: how far it has come, what follows it, and up to 50 rows of it that are open or ended badly."""
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure batch") as conn,
    ):
        migrate.require(conn, database.schema)
        found = postgres.run(conn, group(number), database.schema)
        rows = postgres.run(conn, members(number, SHOWN), database.schema)
    if found is None:
        echo(f"there is no batch {number}, or no more: `tenure batches` lists them", err=True)
        raise click.exceptions.Exit(NO)
    if form == "json":
        echo(as_json({"schema": 1, "batch": fields_of(found), "rows": [each._asdict() for each in rows]}))
        return
    told = {
        "batch": f"{found.id} {printable(found.name or '')}".strip(),
        "state": state_of(found),
        "rows": f"{found.size:,}: {found.done:,} ended, {found.failed:,} failed, {found.cancelled:,} cancelled",
        "sent": said(found.opened_at),
        "ended": said(found.ended_at) if found.ended_at else None,
        "then row": found.then_row and str(found.then_row),
        "then batch": found.then_group and str(found.then_group),
    }
    echo("\n".join(f"{name:<12}  {value}" for name, value in told.items() if value))
    for each in rows:
        echo(f"{each.id}  {each.status}  {printable(each.kind)}  {error_line(each.last_error)}".rstrip())
