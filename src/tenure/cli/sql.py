"""`tenure sql`: print the SQL of a verb or question, to read or to run in psql."""

from __future__ import annotations

import click

from .. import settings, sql


@click.command()
@click.argument("name", required=False)
@click.option("--schema", metavar="NAME", help="The schema to write into it [env: TENURE_SCHEMA; tenure].")
def command(name: str | None, schema: str | None) -> None:
    """Print the SQL of a verb or question; without a name, list them."""
    chosen = settings.load(schema=schema).schema
    if name is None:
        for room in ("verbs", "questions"):
            click.echo(f"{room}:")
            for each in sql.names(room):
                click.echo(f"  {sql.text(each).splitlines()[0].removeprefix('-- ')}")
        return
    try:
        click.echo(sql.in_schema(sql.text(name), chosen), nl=False)
    except KeyError:
        raise click.UsageError(f"there is no verb or question {name!r}: `tenure sql` lists them") from None
