"""`tenure queues`: what stands in each queue and what was set for it; pause, resume and limit one, free a key."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import click

from .. import db, limits, migrate, operate, questions
from ..errors import NO
from ..limits import Queue
from ..model import Depth
from ..statement import Statement
from .act import me
from .database import opened, options

T = TypeVar("T")
STATES = ("pending", "scheduled", "processing", "failed", "dead_letter", "cancelled")


@click.group("queues", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
@click.pass_context
def command(ctx: click.Context, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """What stands in each queue and what was set for it."""
    if ctx.invoked_subcommand is not None:
        where = {"database_url": database_url, "schema": schema}
        ctx.default_map = dict.fromkeys(("pause", "resume", "limit", "free"), where)
        return
    depth, known = _run(database_url, schema, questions.depth(), limits.queues())
    rows = _table(depth, known)
    document = {"schema": 1, "queues": rows}
    click.echo(json.dumps(document, sort_keys=True, default=str) if as_json else "\n".join(_lines(rows)))


@command.command()
@click.argument("name")
@options
def pause(name: str, database_url: str | None, schema: str | None) -> None:
    """Let nothing more of a queue start; what runs goes on."""
    changed = _noted(database_url, schema, limits.pause(name), name)
    click.echo(f"{name} is paused" if changed else f"{name} was paused already")


@command.command()
@click.argument("name")
@options
def resume(name: str, database_url: str | None, schema: str | None) -> None:
    """Let a paused queue go on."""
    changed = _noted(database_url, schema, limits.resume(name), name)
    click.echo(f"{name} goes on" if changed else f"{name} was not paused")


@command.command()
@click.argument("name")
@click.option("--max-running", type=int, metavar="N", help="Rows in flight at once.")
@click.option("--max-per-key", type=int, metavar="N", help="Rows of one key in flight at once.")
@click.option("--rate", "rate_per_second", type=float, metavar="R", help="Rows that start in a second.")
@click.option("--burst", type=int, metavar="B", help="How many of them at once [default: a second's worth].")
@click.option("--clear", is_flag=True, help="Take away every limit that is not given.")
@options
def limit(name: str, database_url: str | None, schema: str | None, **given: Any) -> None:
    """Limit a queue across all workers; what is not given stays as it was."""
    said = " ".join([name, *(f"{each}={value:g}" for each, value in given.items() if value)])
    _noted(database_url, schema, limits.limit(name, **given), said)
    (known,) = _run(database_url, schema, limits.queues())
    (now,) = (queue for queue in known if queue.queue == name)
    click.echo(f"{name}: {_words(now._asdict()) or 'no limits'}")


@command.command()
@click.argument("name")
@click.argument("key")
@options
def free(name: str, key: str, database_url: str | None, schema: str | None) -> None:
    """Let an ordered key go on that waits for an operator; the row it waits for stays dead."""
    if not _noted(database_url, schema, operate.free_key(name, key), f"{name} {key}"):
        click.echo(f"tenure: key {key!r} of queue {name!r} does not wait for an operator: nothing to free", err=True)
        raise click.exceptions.Exit(NO)
    click.echo(f"{key} goes on")


def _noted(database_url: str | None, schema: str | None, statement: Statement[T], target: str) -> T:
    """Run one mutation, and its line of the audit with it."""
    with opened(database_url, schema) as database, db.connect(database.url, application_name="tenure queues") as conn:
        migrate.require(conn, database.schema)
        return operate.noted(conn, statement, me(), statement.name, target, database.schema)


def _run(database_url: str | None, schema: str | None, *statements: Statement[Any]) -> list[Any]:
    with opened(database_url, schema) as database, db.connect(database.url, application_name="tenure queues") as conn:
        migrate.require(conn, database.schema)
        return [db.run(conn, statement, database.schema) for statement in statements]


def _table(depth: Sequence[Depth], known: Sequence[Queue]) -> list[dict[str, Any]]:
    """One entry a queue: how many rows are in which state, then its settings, if it has any."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(STATES, 0))
    for found in depth:
        counts[found.queue][found.status] = found.rows
    settings = {queue.queue: queue._asdict() for queue in known}
    return [
        {"queue": name} | counts[name] | settings.get(name, {"paused": False}) for name in sorted({*counts, *settings})
    ]


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["no queue has a row or a setting"]
    width = max(len("queue"), *(len(row["queue"]) for row in rows))
    head = f"{'queue':<{width}}" + "".join(f"  {state:>11}" for state in STATES)
    lines = [f"{row['queue']:<{width}}" + "".join(f"  {row[state]:>11}" for state in STATES) for row in rows]
    return [head, *(f"{line}  {_words(row)}".rstrip() for line, row in zip(lines, rows, strict=True))]


def _words(queue: Mapping[str, Any]) -> str:
    """What was set for a queue, for people."""
    said = ["paused"] if queue["paused"] else []
    if queue.get("max_running"):
        said.append(f"{queue['running']} of {queue['max_running']} running")
    if queue.get("max_per_key"):
        said.append(f"{queue['max_per_key']} per key")
    if queue.get("rate_per_second"):
        said.append(f"{queue['rate_per_second']:g} per second, burst {queue['burst']}")
    return " · ".join(said)
