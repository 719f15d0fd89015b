"""`tenure batches`: the latest batches, and how far each has come."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from .. import postgres
from ..console.terminal import echo
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs import questions
from ..verbs.batches import Group, groups
from .database import opened, options
from .output import ago, as_json, said, show

HEAD = ("batch", "name", "rows", "ended", "failed", "cancelled", "sent", "state")


@click.command()
@click.option(
    "-n", "most", metavar="N", type=click.IntRange(1, 1000), default=50, show_default=True, help="Batches at most."
)
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@options
def command(most: int, form: str | None, database_url: str | None, schema: str | None) -> None:
    """List the latest batches: how many rows each has, how many ended, failed or were cancelled."""
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure batches") as conn,
    ):
        migrate.require(conn, database.schema)
        every = postgres.run(conn, groups(most), database.schema)
        now = postgres.run(conn, questions.clock(), database.schema)
    if form == "json":
        echo(as_json({"schema": 1, "batches": [fields_of(each) for each in every]}))
    else:
        show(HEAD, [_line(each, now) for each in every], "no batches", [each.opened_at for each in every])


def fields_of(group: Group) -> dict[str, object]:
    """A batch for programs."""
    return {**group._asdict(), "ended": group.done}


def state_of(group: Group) -> str:
    """In a word or two."""
    return "ended" if group.ended_at else f"{group.open:,} to go"


def _line(group: Group, now: datetime) -> tuple[str, ...]:
    sent = f"{ago(group.opened_at, now)} ago" if sys.stdout.isatty() else said(group.opened_at)
    numbers = (f"{number:,}" for number in (group.size, group.done, group.failed, group.cancelled))
    return (str(group.id), printable(group.name or ""), *numbers, sent, state_of(group))
