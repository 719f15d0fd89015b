"""`tenure flows`: instances of workflows that live or have ended badly, with the step each stands at."""

from __future__ import annotations

import click

from .. import postgres
from ..console.terminal import echo
from ..postgres import migrate
from ..verbs.flows import FlowRow, flows
from .database import opened, options
from .output import as_json, show

HEAD = ("id", "workflow", "version", "state", "steps", "current", "until", "name")


@click.command("flows")
@click.argument("workflow", required=False)
@click.option("--state", type=click.Choice(["pending", "processing", "waiting", "failed", "dead_letter", "cancelled"]))
@click.option("--limit", "n", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@options
def command(
    workflow: str | None, state: str | None, n: int, form: str | None, database_url: str | None, schema: str | None
) -> None:
    """List flows, the newest first: those that live, and those that ended badly."""
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        found = postgres.run(conn, flows(workflow, state=state, n=n), database.schema)
    if form == "json":
        echo(as_json({"schema": 1, "flows": [each._asdict() for each in found]}))
    else:
        show(HEAD, [_line(each) for each in found], "no flows")


def _line(flow: FlowRow) -> tuple[str, ...]:
    until = f"{flow.until:%d %b %H:%M}" if flow.until is not None else "-"
    name = (flow.name or "-").removeprefix(f"flow:{flow.workflow}:")
    version = f"{flow.version}" if flow.run == 1 else f"{flow.version}, run {flow.run}"
    return str(flow.id), flow.workflow, version, flow.status, str(flow.steps), flow.current or "-", until, name
