"""`tenure flows`: instances of workflows that live or have ended badly, with the step each stands at."""

from __future__ import annotations

import click

from .. import postgres
from ..console.terminal import echo
from ..model.times import day_and_time
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs.flows import FlowRow, StuckFlow, flows, stuck_flows
from ..verbs.why_facts import spoken
from .database import opened, options
from .output import as_json, show

STUCK = ("id", "workflow", "version", "since", "name", "why")
HEAD = ("id", "workflow", "version", "state", "steps", "current", "until", "name")


@click.command("flows")
@click.argument("workflow", required=False)
@click.option(
    "--state",
    type=click.Choice(["pending", "processing", "waiting", "failed", "dead_letter", "cancelled"]),
    help="Only in this state. Completed ones are rows: `tenure rows kind:checkout status:completed`.",
)
@click.option(
    "--stuck",
    is_flag=True,
    help="Only those that somebody should look at, and why; without any worker, see `tenure doctor`.",
)
@click.option("--limit", "n", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@options
def command(
    workflow: str | None,
    state: str | None,
    stuck: bool,
    n: int,
    form: str | None,
    database_url: str | None,
    schema: str | None,
) -> None:
    """List flows, the newest first: those that live, and those that ended badly."""
    if stuck and state:
        raise click.UsageError("--stuck looks at every state: leave --state out")
    if stuck:
        _stuck(workflow, n, form, database_url, schema)
        return
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        found = postgres.run(conn, flows(workflow, state=state, n=n), database.schema)
    if form == "json":
        echo(as_json({"schema": 1, "flows": [each._asdict() for each in found]}))
    else:
        show(HEAD, [_line(each) for each in found], "no flows", [each.id for each in found])


def _stuck(workflow: str | None, n: int, form: str | None, database_url: str | None, schema: str | None) -> None:
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        found = postgres.run(conn, stuck_flows(workflow, n=n), database.schema)
    if form == "json":
        echo(as_json({"schema": 1, "stuck": [{**each._asdict(), "why": each.sentence} for each in found]}))
    else:
        show(STUCK, [_stuck_line(each) for each in found], "no flow is stuck")


def _stuck_line(flow: StuckFlow) -> tuple[str, ...]:
    name = (flow.name or "-").removeprefix(f"flow:{flow.workflow}:")
    since = spoken(flow.seconds) if flow.seconds is not None else "-"
    return str(flow.id), flow.workflow, str(flow.version), since, name, printable(flow.sentence)


def _line(flow: FlowRow) -> tuple[str, ...]:
    until = day_and_time(flow.until) if flow.until is not None else "-"
    name = (flow.name or "-").removeprefix(f"flow:{flow.workflow}:")
    version = f"{flow.version}" if flow.run == 1 else f"{flow.version}, run {flow.run}"
    return str(flow.id), flow.workflow, version, flow.status, str(flow.steps), flow.current or "-", until, name
