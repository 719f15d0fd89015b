"""`tenure why`: what a row waits for, in one sentence, and the SQL that shows the same."""

from __future__ import annotations

from uuid import UUID

import click

from .. import postgres
from ..errors import NO
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs.questions import row, why, why_in_sql
from .database import opened, options
from .output import as_json


@click.command()
@click.argument("id", type=click.UUID)
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@options
def command(id: UUID, form: str | None, database_url: str | None, schema: str | None) -> None:
    """Say in one sentence why a row is not running, or how it ended; then the SQL that shows the same."""
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure why") as conn,
    ):
        migrate.require(conn, database.schema)
        known = postgres.run(conn, row(id), database.schema) is not None
        sentence = printable(postgres.run(conn, why(id), database.schema))
        query = why_in_sql(id, database.schema)
    if form == "json":
        click.echo(as_json({"schema": 1, "id": id, "why": sentence, "sql": query}))
    else:
        click.echo(f"{sentence}\n\n{query}" if known else sentence)
    if not known:
        raise click.exceptions.Exit(NO)
