"""`tenure workers`: the workers, since when they run, and how many of their slots are used; drain one."""

from __future__ import annotations

import json
from typing import Any

import click

from .. import operate, postgres
from ..console.terminal import echo
from ..errors import NO
from ..postgres import migrate
from ..verbs.questions import Member, workers
from .database import opened, options
from .operators import answer, me, named, noting
from .output import show
from .suggest import Suggesting

HEAD = ("worker", "status", "seen", "up", "slots", "queues", "host", "pid", "wakeup", "presence")
PRESENCE = {True: "here", False: "gone", None: "none"}


@click.group("workers", cls=Suggesting, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
@click.pass_context
def command(ctx: click.Context, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List the workers.

    `seen` is the age of the last heartbeat, `up` the time since the start, `slots` are those used and all. `presence`
    is the session that a worker keeps: here, gone (its rows run elsewhere after a short grace), or none (behind a
    pooler, where leases alone decide).
    """
    if ctx.invoked_subcommand is not None:
        ctx.default_map = {"drain": {"database_url": database_url, "schema": schema, "as_json": as_json}}
        return
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema, since=migrate.RELEASED)
        found = postgres.run(conn, workers(), database.schema)
    if as_json:
        echo(json.dumps({"schema": 1, "workers": [each._asdict() for each in found]}, sort_keys=True))
    else:
        show(HEAD, [_line(each) for each in found], "no workers")


@named(command, "drain_worker")
@click.argument("worker", metavar="ID")
@noting
def drain(worker: str, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """It hears of it at once, or at its next heartbeat."""
    statement = operate.drain_worker(worker)
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema, since=migrate.RELEASED)
        asked = operate.noted(conn, statement, me(), statement.name, worker, database.schema, reason=reason)
    if not asked:
        echo(f"tenure: no worker {worker!r} is alive and working: `tenure workers` lists who is", err=True)
        raise click.exceptions.Exit(NO)
    answer(as_json, f"{worker} drains", worker=worker, draining=True)


def _line(worker: Member) -> tuple[str, ...]:
    said: dict[str, Any] = {"slots": "?", "slots_used": "?", "host": "?", "pid": "?", "wakeup": "?", **worker.metadata}
    dead = worker.status == "dead"
    return (
        worker.id,
        worker.status,
        f"{worker.seen_seconds:.0f}s",
        f"{worker.up_seconds:.0f}s",
        "-" if dead else f"{said['slots_used']}/{said['slots']}",
        ",".join(said.get("queues", ())) or "?",
        str(said["host"]),
        str(said["pid"]),
        str(said["wakeup"]),
        "-" if dead else PRESENCE[worker.present],
    )
