"""`tenure schedules`: what fires when, the switch that stops one, and the way to be rid of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from .. import db, migrate, operate
from ..errors import NO
from ..schedule import Planned, pause_schedule, resume_schedule, schedules, unplan
from .act import me
from .database import opened, options

VERBS = {"pause": pause_schedule, "resume": resume_schedule, "remove": unplan}
DONE = {"pause": "paused", "resume": "resumed", "remove": "removed"}


@click.command()
@click.argument("verb", type=click.Choice(list(VERBS)), required=False)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def command(verb: str | None, name: str | None, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List the schedules, or pause, resume or remove the one called NAME.

    What comes due while a schedule is paused is missed; its misfire policy decides what becomes of it. What was removed
    comes back with the next worker whose inbox has it: take it out of the code first.
    """
    if verb and not name:
        raise click.UsageError(f"{verb} which schedule? `tenure schedules` lists them")
    with opened(database_url, schema) as database, db.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        if verb and name:
            statement = VERBS[verb](name)
            _switch(verb, name, operate.noted(conn, statement, me(), statement.name, name, database.schema))
            return
        found = db.run(conn, schedules(), database.schema)
    click.echo(json.dumps(_document(found), sort_keys=True) if as_json else _table(found))


def _switch(verb: str, name: str, found: bool) -> None:
    if not found:
        click.echo(f"tenure: there is no schedule {name!r}: `tenure schedules` lists them", err=True)
        raise click.exceptions.Exit(NO)
    click.echo(f"{DONE[verb]} {name}")


def _document(found: Sequence[Planned]) -> dict[str, Any]:
    return {"schema": 1, "schedules": [_plain(each) for each in found]}


def _plain(planned: Planned) -> dict[str, Any]:
    times = {name: _time(value) for name, value in planned._asdict().items() if isinstance(value, datetime)}
    return {**planned._asdict(), **times, "payload": json.loads(planned.payload)}


def _table(found: Sequence[Planned]) -> str:
    if not found:
        return "no schedules"
    lines = [("name", "kind", "cron", "zone", "next", "last")]
    for each in found:
        coming = "paused" if each.paused else _time(each.next_at)
        last = _time(each.last_at) if each.last_at else "never"
        lines.append((each.name, each.kind, each.cron, each.zone, coming, last))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
