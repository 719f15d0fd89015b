"""`tenure migrate`: bring the schema to the version this package speaks, or say whether it is."""

from __future__ import annotations

from collections.abc import Sequence

import click

from .. import db, migrate, settings
from ..errors import NO
from ..questions import Applied
from .database import opened, options


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a migration is missing.")
@click.option("--sql", "print_sql", is_flag=True, help="Print the SQL instead of running it.")
@click.option("--to", type=int, metavar="N", help="Stop after migration N.")
@options
def command(check: bool, print_sql: bool, to: int | None, database_url: str | None, schema: str | None) -> None:
    """Bring the schema to the version this package speaks.

    Safe to run twice, and by ten processes at once: they queue for one lock, all of it is one transaction.
    """
    if print_sql:
        click.echo(migrate.script(settings.load(schema=schema).schema, to), nl=False)
        return
    with opened(database_url, schema) as database, db.connect(database.url, application_name="tenure migrate") as conn:
        if check:
            _check(migrate.applied(conn, database.schema), database.schema, to)
            return
        done = migrate.apply(conn, database.schema, to)
        for migration in done:
            click.echo(f"applied  {migration.version:04} {migration.name}")
        click.echo(f"schema   {database.schema} is at migration {len(migrate.applied(conn, database.schema))}")


def _check(done: Sequence[Applied], schema: str, to: int | None) -> None:
    need = to or migrate.newest()
    if len(done) < need:
        click.echo(f"schema   {schema} is at migration {len(done)}, {need} is needed: run `tenure migrate`")
        raise click.exceptions.Exit(NO)
    migrate.check(done, schema)
    if to is None:
        migrate.judge(done, schema)
    click.echo(f"schema   {schema} is at migration {len(done)}")
