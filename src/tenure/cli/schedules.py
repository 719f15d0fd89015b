"""`tenure schedules`: list the schedules; run, pause, resume or remove one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from .. import operate, postgres
from ..console.terminal import echo
from ..errors import NO
from ..operator_verbs import OPERATOR_VERBS
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs import schedules as verbs
from ..verbs.questions import waiting_of, workers
from ..verbs.schedules import Planned
from ..verbs.statement import Statement
from .asking import agreed, attended
from .database import opened
from .operators import answer, me, noting
from .output import show
from .suggest import Choice

VERBS = {verb.command.split()[-1]: verb for verb in OPERATOR_VERBS.values() if verb.on == "schedule"}
HELP = """List the schedules, or run, pause, resume or remove the one called NAME.

Of several inboxes, a schedule of the code fires in one of them, its home; where it was before, it says `elsewhere`.

{verbs}
"""


@click.command(help=HELP.format(verbs="\n\n".join(f"{name}: {verb.does}" for name, verb in VERBS.items())))
@click.argument("verb", type=Choice(list(VERBS)), required=False)
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Remove it without being asked.")
@noting
def command(
    verb: str | None,
    name: str | None,
    yes: bool,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    if verb and not name:
        raise click.UsageError(f"{verb} which schedule? `tenure schedules` lists them")
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        if verb and name:
            if VERBS[verb].asks == "always" and not yes:
                attended(f"{verb} would take away the schedule {printable(name)}")
                agreed(f"{verb} the schedule {printable(name)}?")
            statement: Statement[bool] = getattr(verbs, VERBS[verb].statement)(name)
            found = operate.noted(conn, statement, me(), statement.name, name, database.schema, reason=reason)
            _switched(verb, name, found, as_json)
            return
        every = postgres.run(conn, verbs.schedules(), database.schema)
        alive = postgres.run(conn, workers(), database.schema)
        waiting = waiting_of(alive)
    if as_json:
        echo(json.dumps(_document(every) | ({"waiting": waiting} if waiting else {}), sort_keys=True))
    else:
        for name, home in waiting.items():
            echo(printable(f"{name} waits: its home is the inbox {home}, which does not answer its workers"), err=True)
        show(("name", "kind", "cron", "zone", "next", "last"), [_line(each) for each in every], "no schedules")


def _switched(verb: str, name: str, found: bool, as_json: bool) -> None:
    if not found:
        echo(f"tenure: there is no schedule {name!r}: `tenure schedules` lists them", err=True)
        raise click.exceptions.Exit(NO)
    done = VERBS[verb].past
    answer(as_json, f"{done} {name}", schedule=name, done=done)


def _document(found: Sequence[Planned]) -> dict[str, Any]:
    return {"schema": 1, "schedules": [_plain(each) for each in found]}


def _plain(planned: Planned) -> dict[str, Any]:
    times = {name: _time(value) for name, value in planned._asdict().items() if isinstance(value, datetime)}
    return {**planned._asdict(), **times, "payload": json.loads(planned.payload)}


def _line(planned: Planned) -> tuple[str, ...]:
    coming = "paused" if planned.paused else "elsewhere" if planned.rests else _time(planned.next_at)
    last = _time(planned.last_at) if planned.last_at else "never"
    return (planned.name, planned.kind, planned.cron, planned.zone, coming, last)


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
