"""`tenure why`: what a row waits for, in one sentence; on request, the SQL behind it."""

from __future__ import annotations

from uuid import UUID

import click

from .. import postgres
from ..console.terminal import echo
from ..errors import NO
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs.questions import row, why, why_in_sql
from .database import opened, options
from .option_types import NEXT, RowId
from .output import as_json


@click.command()
@click.argument("id", type=RowId())
@click.option("--sql", "with_sql", is_flag=True, help="Print the query behind it too, to run in psql.")
@click.option("--json", "form", flag_value="json", help="One JSON document, with the query.")
@options
def command(id: UUID, with_sql: bool, form: str | None, database_url: str | None, schema: str | None) -> None:
    """Say in one sentence what a row waits for, or how it ended."""
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure why") as conn,
    ):
        migrate.require(conn, database.schema)
        known = postgres.run(conn, row(id), database.schema) is not None
        sentence = printable(postgres.run(conn, why(id), database.schema))
        query = why_in_sql(id, database.schema)
    if form == "json":
        echo(as_json({"schema": 1, "id": id, "why": sentence, "sql": query}))
    else:
        echo(sentence if known else f"{sentence} {NEXT}")
        if with_sql and known:
            echo(f"\n{query}")
    if not known:
        raise click.exceptions.Exit(NO)
