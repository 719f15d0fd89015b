"""`tenure projections`: how far each has read; pause, resume, rebuild, skip, reapply or forget one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from .. import operate, postgres
from ..console.terminal import echo
from ..errors import NO
from ..operator_verbs import OPERATOR_VERBS
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs import projections as verbs
from ..verbs.projections import ENDED, ShardLag
from ..verbs.rebuild import ask_rebuild
from ..verbs.statement import Statement
from .asking import agreed, attended
from .database import opened
from .operators import answer, me, noting
from .output import error_line, show
from .suggest import Choice

# What each does, and what it says when it is done.
VERBS: dict[str, tuple[Callable[[str], Statement[Any]], str]] = {
    "pause": (verbs.pause_projection, "paused"),
    "resume": (verbs.resume_projection, "resumed"),
    "rebuild": (ask_rebuild, "asked to rebuild"),
    "skip": (verbs.skip_stopped, "skipped the event that stopped"),
    "reapply": (verbs.reapply, "asked to reapply the skipped events of"),
    "forget": (verbs.forget_projection, "forgot"),
}
DOES = {
    **{verb.command.split()[-1]: verb.does for verb in OPERATOR_VERBS.values() if verb.on == "projection"},
    "reapply": "Apply what was skipped after all.",
    "forget": "Forget how far it was; its tables stay.",
}
HELP = "\n\n".join(
    [
        "List the projections and how far each shard has read, or act on the one called NAME.",
        *(f"{name}: {DOES[name]}" for name in VERBS),
    ]
)
WORDS = {"no_worker": "no worker serves it", "no_row": "no row"}
HEADS = ("projection", "shard", "position", "behind", "lag", "state", "skipped", "error")


@click.command(help=HELP)
@click.argument("verb", type=Choice(list(VERBS)), required=False)
@click.argument("name", required=False)
@click.option("--partial", is_flag=True, help="Rebuild although events past retention are gone.")
@click.option("--yes", is_flag=True, help="Forget it without being asked.")
@noting
def command(
    verb: str | None,
    name: str | None,
    partial: bool,
    yes: bool,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    if verb and not name:
        raise click.UsageError(f"{verb} which projection? `tenure projections` lists them")
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        if verb and name:
            if verb == "forget" and not yes:
                attended(f"forget would forget how far the projection {printable(name)} has read")
                agreed(f"forget the projection {printable(name)}?")
            made, done = VERBS[verb]
            statement = ask_rebuild(name, partial=partial) if verb == "rebuild" else made(name)
            found = operate.noted(conn, statement, me(), statement.name, name, database.schema, reason=reason)
            _acted(verb, name, found, done, as_json)
            return
        every = postgres.run(conn, verbs.projections(), database.schema)
    if as_json:
        echo(json.dumps({"schema": 1, "projections": [_plain(each) for each in every]}, sort_keys=True))
    else:
        show(HEADS, [_line(each) for each in every], "no projections")


def _acted(verb: str, name: str, found: Any, done: str, as_json: bool) -> None:
    if not found:
        what = {"skip": "no shard of it has stopped", "reapply": "it has skipped nothing"}.get(verb, "there is none")
        echo(f"tenure: cannot {verb} the projection {name!r}: {what}; `tenure projections` lists them", err=True)
        raise click.exceptions.Exit(NO)
    if verb == "rebuild":
        answer(as_json, f"{done} {name}: `tenure why {found}` says how it stands", projection=name, done=verb, id=found)
        return
    if verb == "resume":
        done = f"{done} {name}: {said}" if (said := found.said()) else f"nothing to do: {name} goes on already"
        answer(as_json, done, projection=name, done=verb, **found._asdict())
        return
    answer(as_json, f"{done} {name}", projection=name, done=verb)


def _plain(shard: ShardLag) -> dict[str, Any]:
    return {**shard._asdict(), "updated_at": shard.updated_at.isoformat(), "lag_seconds": round(shard.lag_seconds, 3)}


def _line(shard: ShardLag) -> tuple[str, ...]:
    number = "rebuild" if shard.shard < 0 else f"{shard.shard} of {shard.shards}"
    state = f"stopped at {shard.stopped_at}" if shard.stopped_at else shard.state.replace("_", " ")
    state = WORDS.get(shard.state, state)
    state = "paused" if shard.paused and shard.state not in (*ENDED, "no_row") else state
    numbers = (str(shard.position), str(shard.behind), f"{shard.lag_seconds:.0f} s")
    error = error_line(shard.error) if shard.error else ""
    return (shard.projection, number, *numbers, state, str(shard.skipped), error)
