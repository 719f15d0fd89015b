"""`tenure tail`: what happens in the fleet, as it happens."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from .. import db, migrate
from ..connect import QueueConnection
from ..errors import BadSettings
from ..events import Event
from ..fleet import tell
from ..log import printable, short
from ..questions import channel, live_workers
from ..tail import ASK_SECONDS, DROPPED, NOTE, channel_of
from .database import opened, options


@click.command()
@click.option("--filter", "names", metavar="NAMES", help="Only these events, e.g. job_failed,lease_lost.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after so long [Ctrl-C].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@options
def command(
    names: str | None, seconds: float | None, as_json: bool, database_url: str | None, schema: str | None
) -> None:
    """Print the events of every worker as they happen.

    Workers send them only while somebody tails, some hundred a second each; what is more is dropped and counted.
    """
    wanted = wanted_of(names)
    with opened(database_url, schema) as database, db.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        if conn.pooled:
            raise BadSettings("a pooler stands in between, through which no events come: give the server's own address")
        alive = len(db.run(conn, live_workers(), database.schema))
        click.echo(f"{alive} {'worker is' if alive == 1 else 'workers are'} alive; Ctrl-C ends this", err=True)
        try:
            for event in watched(conn, database.schema, seconds):
                if not wanted or event["event"] in wanted:
                    click.echo(json.dumps(event) if as_json else words(event))
        except KeyboardInterrupt:
            return
        except BrokenPipeError:  # whoever read this has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def watched(conn: QueueConnection, schema: str, seconds: float | None) -> Iterator[dict[str, Any]]:
    """The fleet's events for so long; workers are asked for them again and again."""
    conn.execute(f'LISTEN "{channel_of(db.run(conn, channel(), schema))}"'.encode())
    by = time.monotonic() + seconds if seconds is not None else float("inf")
    while (at := time.monotonic()) < by:
        db.run(conn, tell(NOTE), schema)
        for heard in conn.notifies(timeout=min(ASK_SECONDS, by - at)):
            yield from map(json.loads, heard.payload.splitlines())


def wanted_of(names: str | None) -> frozenset[str]:
    """The names to let through, none for all; a name that no event has is a usage error."""
    if names is None:
        return frozenset()
    asked = frozenset(name.strip() for name in names.split(","))
    known = _names_of(Event) | {DROPPED}
    if unknown := sorted(asked - known):
        raise click.UsageError(f"there is no event {unknown[0]!r}: there are {', '.join(sorted(known))}")
    return asked


def _names_of(kind: type[Event]) -> frozenset[str]:
    return frozenset({kind.name} - {Event.name}).union(*map(_names_of, kind.__subclasses__()))


def words(event: dict[str, Any]) -> str:
    """One line for people: time, what happened, and its facts; of a long text only the last line."""
    facts = {name: value for name, value in event.items() if name not in ("at", "level", "event") and value != ""}
    said = " ".join(f"{name}={short(value)}" for name, value in facts.items())
    at, level = str(event.get("at", ""))[11:23], event.get("level", "warning")
    return printable(f"{at:<12} {level:<7} {event['event']:<20} {said}".rstrip())
