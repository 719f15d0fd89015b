"""`tenure workers`: who works, since when, and how much of it is taken."""

from __future__ import annotations

import json
from typing import Any

import click

from .. import db, migrate
from ..questions import Member, workers
from .database import opened, options
from .table import table

HEAD = ("worker", "status", "seen", "up", "slots", "queues", "host", "pid", "wakeup", "presence")
PRESENCE = {True: "here", False: "gone", None: "none"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def command(as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List the workers of the registry.

    `seen` and `up` are seconds; slots are those taken and all. A worker's presence is the session it keeps: here, or
    gone (its rows run elsewhere after a short grace), or none (behind a pooler: its leases alone decide).
    """
    with opened(database_url, schema) as database, db.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        found = db.run(conn, workers(), database.schema)
    if as_json:
        click.echo(json.dumps({"schema": 1, "workers": [each._asdict() for each in found]}))
    else:
        click.echo(table(HEAD, [_line(each) for each in found]) if found else "no workers")


def _line(worker: Member) -> tuple[str, ...]:
    said: dict[str, Any] = {"slots": "?", "slots_used": "?", "host": "?", "pid": "?", "wakeup": "?", **worker.metadata}
    return (
        worker.id,
        worker.status,
        f"{worker.seen_seconds:.0f}s",
        f"{worker.up_seconds:.0f}s",
        f"{said['slots_used']}/{said['slots']}",
        ",".join(said.get("queues", ())) or "?",
        str(said["host"]),
        str(said["pid"]),
        str(said["wakeup"]),
        PRESENCE[worker.present],
    )
