"""`tenure doctor`: what is not as it should be, one line each with the next step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .. import settings
from ..errors import NO, UNREACHABLE, NoDatabase
from .database import opened, options
from .table import painted, table

if TYPE_CHECKING:
    from ..doctor import Finding

COLOURS = {"ok": "green", "warn": "yellow", "fault": "red"}


@click.command()
@click.option("--settings", "only_settings", is_flag=True, help="Only the settings, each with where it came from.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def command(only_settings: bool, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Look at everything a queue depends on; exit 1 if something is at fault.

    Settings, versions, schema, clocks, pooler, connections, durability, indexes, vacuum and what holds it back, the
    archive, housekeeping, leases, workers. Changes nothing, and takes seconds however large the database is.
    """
    if only_settings:
        _show_settings(as_json)
        return
    found = []
    for finding in _findings(database_url, schema):
        found.append(finding)
        if not as_json:
            click.echo(_line(finding))
    faults = [finding for finding in found if finding.level == "fault"]
    if as_json:
        document = {"schema": 1, "ok": not faults, "findings": [finding._asdict() for finding in found]}
        click.echo(json.dumps({**document, "settings": _settings()}, sort_keys=True, default=str))
    if faults:
        raise click.exceptions.Exit(UNREACHABLE if faults[-1].check == "database" else NO)


def _findings(database_url: str | None, schema: str | None) -> Iterator[Finding]:
    """One by one; a database that does not answer is the last of them."""
    import psycopg

    from ..doctor import Finding, examine
    from .trouble import explain

    yield _sources(database_url, schema)
    try:
        with opened(database_url, schema) as database:
            yield from examine(database.url, database.schema)
    except (psycopg.OperationalError, NoDatabase) as error:
        sentence, code = explain(error)
        if code != UNREACHABLE:
            raise
        yield Finding("database", "fault", None, sentence, "without it nothing else can be seen")


def _line(finding: Finding) -> str:
    """ok, warn or fault; what was looked at; what was found; and, after an arrow, what to do."""
    step = f"  → {finding.next}" if finding.next else ""
    return f"{painted(f'{finding.level:<5}', COLOURS[finding.level])}  {finding.check:<20} {finding.said}{step}"


def _sources(database_url: str | None, schema: str | None) -> Finding:
    """Where the two settings that decide everything came from."""
    from ..doctor import Finding

    chosen = settings.load(database_url=database_url, schema=schema)
    named = settings.find("TENURE_SCHEMA", schema, "--schema")
    source = named.source if named else "default"
    said = f"database from {chosen.database_from}, schema {chosen.schema} from {source}"
    return Finding("settings", "ok", {"database": chosen.database_from, "schema": source}, said)


def _settings() -> list[dict[str, str | None]]:
    return [
        {"name": name, "value": found.value if found else None, "source": found.source if found else None}
        for name, found in settings.everything()
    ]


def _show_settings(as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"schema": 1, "settings": _settings()}, sort_keys=True))
        return
    lines = [
        (name, found.value if found else "", found.source if found else "not set")
        for name, found in settings.everything()
    ]
    click.echo(table(("setting", "value", "from"), lines))
