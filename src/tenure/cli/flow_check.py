"""`tenure flow check`: run what is recorded of every live flow through new code, before it is deployed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from .. import postgres
from ..console.terminal import echo
from ..errors import NO
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable
from ..verbs.flows import FlowRow, flows
from ..verbs.questions import row
from ..verbs.steps import recall
from .database import opened, options

if TYPE_CHECKING:
    from ..shapes.flow.flows import Workflow

NOT_OPEN = (
    "; if it uses what a lifespan opens, which is not open here, that says nothing: write lambda x: client.get(x)"
)


class CannotTell(str):
    """What the function raised may come of a lifespan that is not open here."""


@click.command("check")
@click.argument("app")
@click.option(
    "--limit", "n", default=10_000, show_default=True, type=click.IntRange(1, 10_000), help="At most so many."
)
@options
def check_all(app: str, n: int, database_url: str | None, schema: str | None) -> None:
    """Run what is recorded of every live flow through the code of APP, without bodies; exit 1 if some would differ."""
    from ..shapes.flow.check import StandsStill
    from ..shapes.flow.flows import workflows_of
    from .worker import load

    inbox = load(app)
    known, unknown, seen = workflows_of(inbox), Counter[str](), Counter[str]()
    still: dict[tuple[str, int], int] = {}  # by workflow and version: each look takes seconds, and may leave a thread
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        for each in postgres.run(conn, flows(n=n), database.schema):
            code = each.workflow, each.version
            if each.status in ("failed", "cancelled"):
                continue
            if each.workflow not in known:
                unknown[each.workflow] += 1
                continue
            if code in still:
                still[code] += 1
                continue
            error = _trouble(conn, known[each.workflow], each, database.schema, bool(inbox.lifespans))
            if isinstance(error, StandsStill):
                still[code] = 0
            if error is not None:
                echo(f"{each.id}: {printable(str(error))}")
            seen["fit" if error is None else "unsure" if isinstance(error, CannotTell) else "differ"] += 1
    for (name, version), left in sorted(still.items()):
        if left:
            echo(f"not looked at: {left} more of {printable(name)} version {version}, whose code stood still")
    for name, left in sorted(unknown.items()):
        echo(f"not looked at: {left} of {printable(name)}, a workflow that this code does not have")
    unsure = f", {seen['unsure']} cannot be told" if seen["unsure"] else ""
    echo(f"{seen.total()} flows, {seen['differ']} differ{unsure}")
    if seen["differ"] or unsure:
        raise click.exceptions.Exit(NO)


def _trouble(conn: QueueConnection, workflow: Workflow, flow: FlowRow, schema: str, lifespans: bool) -> object:
    """Why this code cannot go on with this flow; None if it can."""
    from ..shapes.flow.check import StandsStill, check

    if flow.version not in workflow.versions:
        return f"no version {flow.version} of {flow.workflow} in this code"
    found = postgres.run(conn, row(flow.id), schema)
    records = postgres.run(conn, recall([(flow.id, flow.run)]), schema)[flow.id]
    payload = found.payload if found else "{}"
    try:
        return check(workflow, payload, records, version=flow.version, id=flow.id, run=flow.run)
    except KeyboardInterrupt:
        raise
    except StandsStill as error:
        return error
    except BaseException as raised:  # by the function itself: the others are looked at all the same
        said = f"its function raises {type(raised).__name__}: {raised}"
        may_miss = lifespans and isinstance(raised, AttributeError | TypeError)
        return CannotTell(said + NOT_OPEN) if may_miss else said
