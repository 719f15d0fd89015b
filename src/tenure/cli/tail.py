"""`tenure tail`: the events of the fleet, as they happen."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import click

from .. import postgres
from ..console.terminal import echo
from ..errors import BadSettings
from ..events import Event
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable, short
from ..telemetry.tail import ASK_SECONDS, DROPPED, NOTE, channel_of, events_of
from ..verbs.fleet import tell
from ..verbs.questions import channel, live_workers
from .database import opened, options
from .inbox_told import HERE
from .option_types import Number
from .output import remark
from .reconnect import Reconnecting

AWAY_SECONDS = 2.0  # between two tries to connect anew


@click.command()
@click.option("--filter", "names", metavar="NAMES", help="Only these events, e.g. job_failed,lease_lost.")
@click.option("--seconds", type=Number(min=0, min_open=True), help="Stop after this time [at Ctrl-C].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@options
def command(
    names: str | None, seconds: float | None, as_json: bool, database_url: str | None, schema: str | None
) -> None:
    """Print the events of every worker as they happen.

    Workers send events only while somebody tails, at most some hundred a second each; the rest is dropped and counted.
    """
    wanted = wanted_of(names)
    by = time.monotonic() + seconds if seconds is not None else float("inf")

    def hear(conn: QueueConnection, schema: str) -> bool:
        """Print until the time is over or the session ends."""
        for event in watched(conn, schema, by):
            if HERE.get():
                event.setdefault("inbox", HERE.get())
            if not wanted or event["event"] in wanted:
                echo(json.dumps(event, sort_keys=True) if as_json else words(event))
        return True

    with opened(database_url, schema) as database, Reconnecting(database, "tenure tail") as watch:
        if watch.conn.pooled:
            raise BadSettings("events do not come through a pooler: give the server's own address")
        alive = len(postgres.run(watch.conn, live_workers(), watch.schema))
        remark(f"{alive} {'worker is' if alive == 1 else 'workers are'} alive; Ctrl-C ends this")
        with contextlib.suppress(KeyboardInterrupt):
            said = ""
            while watch.ask(hear) is None and time.monotonic() < by:
                if watch.away != said:
                    remark(said := watch.away)
                time.sleep(min(AWAY_SECONDS, max(0.0, by - time.monotonic())))


def watched(conn: QueueConnection, schema: str, by: float) -> Iterator[dict[str, Any]]:
    """The fleet's events until `by`; workers are asked for them every ASK_SECONDS."""
    conn.execute(f'LISTEN "{channel_of(postgres.run(conn, channel(), schema))}"'.encode())
    while (at := time.monotonic()) < by:
        postgres.run(conn, tell(NOTE), schema)
        for heard in conn.notifies(timeout=min(ASK_SECONDS, by - at)):
            yield from events_of(heard.payload).values()


def wanted_of(names: str | None) -> frozenset[str]:
    """The names of the events to print, empty for all; an unknown name is a usage error."""
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
    """One line for people: time, what happened, and its facts; of a long text the most telling line."""
    facts = {name: value for name, value in event.items() if name not in ("at", "level", "event") and value != ""}
    said = " ".join(f"{name}={short(value)}" for name, value in facts.items())
    at, level = str(event.get("at", ""))[11:23], str(event.get("level", "warning"))
    return printable(f"{at:<12} {level:<7} {event['event']:<20} {said}".rstrip())
